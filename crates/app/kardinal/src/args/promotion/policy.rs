//! `kardinal policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::super::{Common, OutputFormat, PolicyNamespaces};

#[derive(Debug, Args)]
pub(crate) struct PolicyArguments {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Lists the gate templates
    List {
        /// Shows what each Bundle's own gates say, too
        #[arg(long)]
        instances: bool,
        #[command(flatten)]
        policies: PolicyNamespaces,
        #[command(flatten)]
        common: Common,
    },
    /// Compiles the expressions of the PolicyGates in files; needs no server
    Test {
        /// Files with PolicyGates, or with one bare expression; `-` reads standard input
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// How to print the result
        #[arg(long, short, value_enum, default_value_t = OutputFormat::Table)]
        output: OutputFormat,
    },
    /// Asks the gates of an environment about another time or another soak
    Simulate(SimulateArguments),
}

const SIMULATE_HELP: &str = "\
Examples:
  kardinal policy simulate --env prod --time \"Saturday 3pm\"
  kardinal policy simulate --pipeline my-app --env prod --soak-minutes 45";

#[derive(Debug, Args)]
#[command(after_help = SIMULATE_HELP)]
pub(crate) struct SimulateArguments {
    /// The Pipeline; otherwise all that have the environment
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
    /// The environment whose gates are asked
    #[arg(long, value_name = "ENVIRONMENT")]
    pub(crate) env: String,
    /// The time: `Saturday 3pm`, `2026-04-11 15:00`, `2026-04-11T15:00:00Z`
    #[arg(long, value_name = "TIME", default_value = "now")]
    pub(crate) time: String,
    /// The time zone of `--time`
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) time_zone: String,
    /// Pretends that the Bundle has been verified before the environment for so long
    #[arg(long, value_name = "N")]
    pub(crate) soak_minutes: Option<u32>,
    /// The Bundle; otherwise the one that is on its way there
    #[arg(long, value_name = "NAME", requires = "pipeline")]
    pub(crate) bundle: Option<String>,
    #[command(flatten)]
    pub(crate) policies: PolicyNamespaces,
    #[command(flatten)]
    pub(crate) common: Common,
}
