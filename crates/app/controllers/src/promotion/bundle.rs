//! The Bundle controller: sends Bundles on their way and keeps the record of where they have been.

mod act;
mod observe;
mod routes;

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, BundleStatus};
use kardinal_object::Gvk;
use kardinal_planner::sentence::Report;
use kardinal_promotion::bundle::{self as planner, Effect};

use crate::Context;
use crate::promotion::context::PromotionContext;
use crate::promotion::surroundings;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::pass::{self, Remembered, as_planned};
use crate::reconcile::routes::{Hearer, Hears};
use act::Outcome;
use observe::Observation;

/// Sends Bundles on their way.
pub(crate) struct Kind {
    pub(crate) context: Arc<PromotionContext>,
}

/// What is remembered of a Bundle.
#[derive(Default)]
pub(crate) struct Memory {
    /// What the API server has refused lately: what is written down about it must not itself bring the next try about.
    refusal: Option<Refusal>,
}

/// Something that the API server did not take.
#[derive(Clone)]
struct Refusal {
    what: Discriminant<Effect>,
    why: String,
    /// Until when it is not offered again.
    until: Timestamp,
    /// The Pipeline as it was: another one may lead to something that is taken.
    pipeline: Option<i64>,
}

impl Hearer for Kind {
    type Object = Bundle;
    type Memory = Memory;

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;
    const READS: &'static [fn() -> Gvk] = surroundings::KINDS;

    fn context(&self) -> &Arc<Context> {
        &self.context.shared
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Effect;
    type Outcome = Outcome;
    type Status = BundleStatus;

    const NAME: &'static str = "Bundle";
    const MANAGER: &'static str = act::MANAGER;

    async fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Memory>,
        before: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(&self.context, key, remembered, before).await
    }

    fn plan(&self, seen: &mut Observation, _: &mut Memory) -> planner::Plan {
        seen.ask(planner::plan)
    }

    async fn read_again(&self, key: &Key, seen: &Observation, _: &[Gvk]) -> Result<bool, String> {
        self.context.read_gates(key, &seen.bundle).await.map_err(|error| error.to_string())
    }

    async fn act(&self, seen: &Observation, effect: &Effect) -> Outcome {
        act::act(&self.context, seen, effect).await
    }

    fn has_failed(outcome: &Outcome) -> bool {
        !matches!(outcome, Outcome::Done)
    }

    fn report(
        &self,
        seen: &mut Observation,
        plan: planner::Plan,
        done: Vec<(Effect, Outcome)>,
        memory: &mut Memory,
    ) -> Report<BundleStatus> {
        match done.last() {
            Some((_, Outcome::Failed(message))) => {
                tracing::warn!(bundle = %seen.name(), error = %message, "a write failed; it is tried again");
                return Report { retry: Some(crate::RETRY), ..Report::default() };
            }
            Some((effect, Outcome::Refused(why))) => return refused(seen, effect, why, memory),
            Some((_, Outcome::Done)) => memory.refusal = None,
            None => {}
        }
        // Only the record has grown: nothing follows from that.
        let has_more = !done.is_empty() || (plan.status.is_some() && !plan.notes.is_empty());
        Report { retry: has_more.then_some(SignedDuration::ZERO), ..as_planned(plan) }
    }

    fn recorded(&self, seen: &Observation, status: Option<&BundleStatus>, _: &mut Memory) {
        if let Some(status) = status {
            self.context.metrics.bundle(&seen.bundle, status);
        }
    }

    fn forget(&self, key: &Key) {
        self.context.forget_gates(key);
    }
}

/// The API server does not take an effect, or did not lately: what it says is told.
fn refused(seen: &Observation, effect: &Effect, why: &str, memory: &mut Memory) -> Report<BundleStatus> {
    let plan = seen.ask(|snapshot| planner::refused(snapshot, effect, why));
    let until = match seen.refuses(effect) {
        Some(refusal) => refusal.until,
        None => {
            let until = seen.now + planner::OFFER_AGAIN;
            let (what, pipeline) = (discriminant(effect), seen.generation());
            memory.refusal = Some(Refusal { what, why: why.to_owned(), until, pipeline });
            until
        }
    };
    let is_news = plan.status.is_some() && !plan.notes.is_empty();
    let retry = if is_news { SignedDuration::ZERO } else { until.duration_since(seen.now) };
    Report { retry: Some(retry), ..as_planned(plan) }
}
