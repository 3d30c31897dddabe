//! `kardinal rollback`.

use kardinal_promotion::intent;

use super::order::Order;
use crate::args::RollbackArguments;

/// Creates the Bundle that brings an environment back, unless one is on its way already.
pub(crate) fn run(arguments: RollbackArguments) -> anyhow::Result<()> {
    let order = Order {
        what: format!("roll back {}", arguments.env),
        pipeline: &arguments.pipeline,
        environment: &arguments.env,
        bundle: arguments.to.as_deref(),
        force: arguments.force,
        how: &arguments.how,
    };
    order.run(|wish, now| intent::rollback(wish, arguments.emergency, now))
}
