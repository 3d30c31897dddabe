//! `kardinal`: the command line and the control plane in one program.

mod args;
mod commands;
mod connect;
mod failure;
mod logging;
mod manifest;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    logging::start(arguments.verbose);
    let done = match arguments.command {
        Command::Up(up) => commands::up::run(up),
        Command::Controller(controller) => commands::controller::run(controller),
        Command::Graph(graph) => commands::graph::run(graph),
        Command::Install(install) => commands::install::run(install),
        Command::Version(version) => commands::version::run(version),
    };
    done.map_or_else(|error| failure::tell(&error), |()| ExitCode::SUCCESS)
}
