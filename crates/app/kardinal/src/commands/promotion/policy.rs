//! `kardinal policy list|test|simulate`.

mod list;
mod simulate;
mod test;

use crate::args::{PolicyArguments, PolicyCommand};

/// Runs the subcommand.
pub(crate) fn run(arguments: PolicyArguments) -> anyhow::Result<()> {
    match arguments.command {
        PolicyCommand::List { instances, policies, common } => {
            super::block_on(list::run(instances, &policies.policy_namespaces, &common))
        }
        PolicyCommand::Test { files, output } => test::run(&files, output),
        PolicyCommand::Simulate(simulate) => super::block_on(simulate::run(&simulate)),
    }
}
