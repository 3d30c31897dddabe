//! `kardinal get pipelines|steps|bundles`.

mod bundles;
mod pipelines;
mod steps;

use crate::args::{GetArguments, GetCommand};

/// Runs the subcommand.
pub(crate) fn run(arguments: GetArguments) -> anyhow::Result<()> {
    match arguments.command {
        GetCommand::Pipelines { all_namespaces, watch, policies, common } => {
            super::block_on(pipelines::run(all_namespaces, watch.watch, &policies.policy_namespaces, &common))
        }
        GetCommand::Steps { pipeline, bundle, watch, policies, common } => super::block_on(steps::run(
            pipeline.as_deref(),
            bundle.as_deref(),
            watch.watch,
            &policies.policy_namespaces,
            &common,
        )),
        GetCommand::Bundles { pipeline, active, watch, common } => {
            super::block_on(bundles::run(pipeline.as_deref(), active, watch.watch, &common))
        }
    }
}
