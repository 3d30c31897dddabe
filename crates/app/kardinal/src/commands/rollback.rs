//! `kardinal rollback`.

use jiff::Timestamp;
use kardinal_api::kardinal::Bundle;
use kardinal_planner::explain::display_version;
use kardinal_planner::intent::{self, Rollback};

use super::promote::Order;
use crate::args::RollbackArguments;
use crate::output;
use crate::server::{Server, bundle_named, check_environment, refused};

/// Creates the Bundle that brings an environment back.
pub(crate) fn run(arguments: RollbackArguments) -> anyhow::Result<()> {
    super::block_on(async {
        let server = Server::connect(&arguments.common.server).await?;
        let seen = server.seen(&arguments.pipeline, &arguments.policies.policy_namespaces).await?;
        check_environment(&seen.pipeline, &arguments.env)?;
        let all: Vec<&Bundle> = seen.bundles.iter().collect();
        let wish = Rollback {
            pipeline: &seen.pipeline,
            environment: &arguments.env,
            to: arguments.to.as_deref().map(|name| seen.bundle(name)).transpose()?,
            bundles: &all,
            emergency: arguments.emergency,
            force: arguments.force,
        };
        let wanted = intent::rollback(&wish, Timestamp::now()).map_err(refused)?;
        let what = format!("roll back {}", arguments.env);
        let order = Order {
            what: &what,
            server: &server,
            seen: &seen,
            policies: &arguments.policies,
            common: &arguments.common,
            dry_run: arguments.dry_run,
        };
        let Some(made) = order.carry_out(&wanted).await? else { return Ok(()) };
        output::value(arguments.common.output, &made, || told(&arguments, &made, &seen.bundles))
    })
}

fn told(arguments: &RollbackArguments, made: &Bundle, bundles: &[Bundle]) -> String {
    let name = made.metadata.name.as_deref().unwrap_or_default();
    let to = display_version(&kardinal_policy::version(&made.spec));
    let taken_back = made.spec.provenance.as_ref().and_then(|provenance| provenance.rollback_of.as_deref());
    let from = taken_back.and_then(|name| bundle_named(bundles, name).ok());
    let from =
        from.map(|bundle| format!(" from {}", display_version(&kardinal_policy::version(&bundle.spec))));
    let from = from.unwrap_or_default();
    let RollbackArguments { pipeline, env, .. } = arguments;
    format!(
        "Bundle \"{name}\" created: {env} goes back{from} to {to}, through the same gates\n\nNext:\n  kardinal explain {pipeline} --env {env}\n"
    )
}
