//! `kardinal promote`.

use kardinal_promotion::intent;

use super::order::Order;
use crate::args::PromoteArguments;

/// Sends what the environments before have now, or what a Bundle carries, to an environment, unless it is on its way
/// there already.
pub(crate) fn run(arguments: PromoteArguments) -> anyhow::Result<()> {
    let order = Order {
        what: format!("promote to {}", arguments.env),
        pipeline: &arguments.pipeline,
        environment: &arguments.env,
        bundle: arguments.bundle.as_deref(),
        force: arguments.force,
        how: &arguments.how,
    };
    order.run(intent::promote)
}
