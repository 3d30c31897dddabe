//! Promotions of Bundles.

use std::sync::Arc;

use super::context::{self, Channels, PromotionContext};
use super::{bundle, facets, pipeline, policy_gate, promotion_step};
use crate::dialect::{Dialect, Starter};
use crate::reconcile::driver::{Driver, Key};
use crate::reconcile::pass::Controller;

pub(crate) const DIALECT: Dialect = Dialect { facets: facets::FACETS, start };

fn start(starter: &mut Starter<'_>) {
    if !starter.settings.promotions {
        return;
    }
    let workers = starter.settings.concurrency;
    let (context, channels) =
        context::build(starter.context.clone(), starter.settings, starter.outside, starter.stop);
    // A step waits for other machines, so many of them may be under way, in every namespace.
    let steps = Controller::new(promotion_step::Kind::new(context.clone()));
    let steps = starter.start_fair(steps, workers * 8);
    if channels.workloads.is_some() {
        starter.started.watches.push(context.workloads.clone());
    }
    listen(starter, &steps, channels);
    starter.started.promotions = Some(Promotions { steps });
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

/// Brings to the steps what only they hear.
fn listen(starter: &Starter<'_>, steps: &Arc<Steps>, channels: Channels) {
    let Channels { workloads, clusters, mut changes_of_hands } = channels;
    for changes in workloads.into_iter().chain([clusters]) {
        starter.deliver(changes, vec![steps.clone()]);
    }
    let (stop, steps) = (starter.stop.clone(), steps.clone());
    starter.tasks.spawn(async move {
        while let Some(Some(())) = stop.run_until_cancelled(changes_of_hands.recv()).await {
            for key in steps.controller().sharded() {
                steps.look_at(key);
            }
        }
    });
}

/// Makes the key at the first start, so that no promotion waits for it. Where that cannot be done now, whoever needs the key
/// tries again and says so.
async fn make_key(context: Arc<PromotionContext>) {
    if let Err(why) = context.key().await {
        tracing::warn!(why, "the key that verifications are sealed with cannot be had yet");
    }
}

type Steps = Driver<Controller<promotion_step::Kind>>;

/// Promotions at work.
pub(crate) struct Promotions {
    steps: Arc<Steps>,
}

impl Promotions {
    /// Something has happened in one of these repositories: the steps that are carried out here look again. Answers those
    /// that another process has to look at.
    pub(crate) fn repository_changed(&self, urls: &[String], pull_request: Option<u64>) -> Vec<Key> {
        let (here, elsewhere) = self.steps.controller().steps_of(urls, pull_request);
        for key in here {
            self.steps.look_at(key);
        }
        elsewhere
    }
}
