//! Promotions of Bundles.

use std::sync::Arc;

use super::{bundle, facets, pipeline, policy_gate, promotion_step};
use crate::Context;
use crate::dialect::{Dialect, Starter};
use crate::reconcile::pass::Controller;

pub(crate) const DIALECT: Dialect = Dialect { facets: facets::FACETS, start };

fn start(starter: &mut Starter<'_>) {
    if !starter.settings.promotions {
        return;
    }
    let (context, workers) = (starter.context.clone(), starter.settings.concurrency);
    // A step waits for other machines, so many of them may be under way, in every namespace.
    let steps = Controller::new(promotion_step::Kind::new(context.clone()));
    starter.started.steps = Some(starter.start_fair(steps, workers * 8));
    if !starter.plans_here() {
        return;
    }
    // A Bundle of configuration waits for a repository before it starts.
    starter.start_fair(Controller::new(bundle::Kind { context: context.clone() }), workers);
    starter.start_fair(Controller::new(policy_gate::Kind { context: context.clone() }), workers);
    // A Pipeline asks for its Secrets, and a team can have very many of both.
    starter.start_fair(Controller::new(pipeline::Kind { context: context.clone() }), workers);
    starter.tasks.spawn(starter.stop.clone().run_until_cancelled_owned(make_key(context)));
}

/// Makes the key at the first start, so that no promotion waits for it. Where that cannot be done now, whoever needs the key
/// tries again and says so.
async fn make_key(context: Arc<Context>) {
    if let Err(why) = context.key().await {
        tracing::warn!(why, "the key that verifications are sealed with cannot be had yet");
    }
}
