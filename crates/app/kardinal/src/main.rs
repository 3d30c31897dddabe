//! `kardinal`: the command line and the control plane in one program.

mod archive;
mod args;
mod commands;
mod connect;
mod demo;
mod failure;
mod http;
mod logging;
mod manifest;
mod output;
mod outside;
mod private;
mod server;
mod watching;
mod who;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Arguments, Command};
use crate::commands::promotion;

/// The controllers make many small trees on several threads: with the system's allocator they take a third longer.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logging::start(arguments.verbose);
    output::show_managed_fields(arguments.show_managed_fields);
    let done = match arguments.command {
        Command::Up(up) => commands::up::run(up),
        Command::Controller(controller) => commands::controller::run(controller),
        Command::Agent(agent) => commands::agent::run(agent),
        Command::Init(init) => promotion::init::run(init),
        Command::Get(get) => promotion::get::run(get),
        Command::Create(create) => promotion::create::run(create),
        Command::Promote(promote) => promotion::promote::run(promote),
        Command::Explain(explain) => promotion::explain::run(explain),
        Command::Rollback(rollback) => promotion::rollback::run(rollback),
        Command::Pause(pause) => promotion::pause::run(pause),
        Command::Resume(resume) => promotion::resume::run(resume),
        Command::History(history) => promotion::history::run(history),
        Command::Policy(policy) => promotion::policy::run(policy),
        Command::Override(wish) => promotion::override_::run(wish),
        Command::Diff(diff) => promotion::diff::run(diff),
        Command::Pr(pr) => commands::forge::pr::run(pr),
        Command::Doctor(doctor) => commands::doctor::run(doctor),
        Command::Backup(backup) => commands::backup::run(backup),
        Command::Restore(restore) => commands::restore::run(restore),
        Command::Completion(completion) => commands::completion::run(completion),
        Command::Graph(graph) => commands::graph::run(graph),
        Command::Install(install) => commands::install::run(install),
        Command::Version(version) => commands::version::run(version),
    };
    done.map_or_else(|error| failure::tell(&error), |()| ExitCode::SUCCESS)
}
