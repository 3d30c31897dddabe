//! `kardinal completion`.

use clap::CommandFactory as _;

use crate::args::{Arguments, CompletionArguments};
use crate::output;

/// Prints the script for a shell.
pub(crate) fn run(arguments: CompletionArguments) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "kardinal", &mut script);
    output::text(&String::from_utf8(script)?);
    Ok(())
}
