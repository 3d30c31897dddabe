//! The PromotionStep controller: brings Bundles into environments.

mod act;
mod confirm;
mod edit;
mod observe;
mod render;
mod routes;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{PromotionStep, PromotionStepStatus};
use kardinal_cluster::Change;
use kardinal_object::Gvk;
use kardinal_planner::sentence::Report;
use kardinal_promotion::promotion_step::{self as planner, Effect, MANAGER, Outcome, StepEffect};

use crate::Context;
use crate::promotion::context::PromotionContext;
use crate::promotion::surroundings;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::lock;
use crate::reconcile::pass::{self, Remembered, as_planned};
use crate::reconcile::routes::{Hearer, Hears};
use observe::Observation;
use routes::Following;

/// Carries steps out.
pub(crate) struct Kind {
    context: Arc<PromotionContext>,
    following: Mutex<Following>,
}

/// What is remembered of a step.
#[derive(Default)]
pub(crate) struct Memory {
    known: planner::Memory,
    /// Whether a revision contains the promoted commit.
    contains: BTreeMap<String, bool>,
    /// Until when nothing is tried again: what a failure writes down must not itself bring the next try about.
    rest_until: Option<Timestamp>,
}

impl Memory {
    /// Changes what is known.
    fn know<T>(&mut self, change: impl FnOnce(planner::Memory) -> (planner::Memory, T)) -> T {
        let (known, answer) = change(std::mem::take(&mut self.known));
        self.known = known;
        answer
    }

    /// Something makes it worth while to try again at once.
    fn wake(&mut self, change: impl FnOnce(planner::Memory) -> planner::Memory) {
        self.know(|known| (change(known), ()));
        self.rest_until = None;
    }
}

impl Kind {
    /// None is carried out yet.
    pub(crate) fn new(context: Arc<PromotionContext>) -> Kind {
        Kind { context, following: Mutex::default() }
    }

    fn followed(&self) -> MutexGuard<'_, Following> {
        lock(&self.following)
    }
}

impl Hearer for Kind {
    type Object = PromotionStep;
    type Memory = Memory;

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;
    const READS: &'static [fn() -> Gvk] = surroundings::KINDS;

    fn context(&self) -> &Arc<Context> {
        &self.context.shared
    }

    fn following(&self, change: &Change) -> Vec<Key> {
        self.followed().looking_at(change)
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Effect;
    type Outcome = Outcome;
    type Status = PromotionStepStatus;

    const NAME: &'static str = "PromotionStep";
    const MANAGER: &'static str = MANAGER;

    fn rests_until(&self, memory: &mut Memory, _: Timestamp) -> Option<Timestamp> {
        memory.rest_until
    }

    async fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Memory>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(self, key, remembered).await
    }

    fn plan(&self, seen: &mut Observation, _: &mut Memory) -> planner::Plan {
        planner::plan(&seen.snapshot())
    }

    async fn read_again(&self, key: &Key, seen: &Observation, _: &[Gvk]) -> Result<bool, String> {
        let Some(bundle) = seen.bundle() else { return Ok(false) };
        let of = (key.0.clone(), seen.step.spec.bundle_ref.clone());
        self.context.read_gates(&of, bundle).await.map_err(|error| error.to_string())
    }

    async fn act(&self, seen: &Observation, effect: &Effect) -> Outcome {
        act::act(self, seen, effect).await
    }

    fn is_gone(done: &[(Effect, Outcome)]) -> bool {
        matches!(done, [(Effect::Step(StepEffect::RemoveFinalizer), Outcome::Done)])
    }

    fn report(
        &self,
        seen: &mut Observation,
        plan: planner::Plan,
        done: Vec<(Effect, Outcome)>,
        memory: &mut Memory,
    ) -> Report<PromotionStepStatus> {
        seen.look_back();
        // It does one thing at a time.
        let Some((effect, outcome)) = done.into_iter().next() else {
            // What is told may be all that was missing for the next thing to do.
            let at_once = plan.status.is_some().then_some(SignedDuration::ZERO);
            return Report { retry: at_once, ..as_planned(plan) };
        };
        let is_heard = memory.known.hearings != seen.memory.hearings;
        let outcome = memory.know(|known| known.interpret(&seen.memory, &seen.step, &effect, outcome));
        let report = planner::report(&seen.snapshot(), &effect, &outcome, memory.known.faults);
        self.context.metrics.promotion(&seen.step, &effect, &outcome);
        // What was heard meanwhile is worth a try at once.
        memory.rest_until = report.retry.filter(|_| !is_heard).map(|pause| seen.now + pause);
        Report { retry: report.retry.or(Some(SignedDuration::ZERO)), ..report }
    }

    fn recorded(&self, seen: &Observation, status: Option<&PromotionStepStatus>, _: &mut Memory) {
        if let Some(status) = status {
            self.context.metrics.step(&seen.step, seen.bundle(), status, seen.now);
        }
    }

    fn forget(&self, key: &Key) {
        self.followed().forget(key);
    }
}

impl pass::Controller<Kind> {
    /// The steps that something concerns that has happened in these repositories look at their pull requests again: those
    /// that are carried out here, and those that another process has to look at.
    pub(crate) fn steps_of(&self, urls: &[String], pull_request: Option<u64>) -> (Vec<Key>, Vec<Key>) {
        let (here, elsewhere) = routes::in_repository(self, urls, pull_request);
        routes::hear_of_pull_requests(self.memories(), &here);
        (here, elsewhere)
    }

    /// The steps that have a shard, which has changed hands: what is known of them is out of date.
    pub(crate) fn sharded(&self) -> Vec<Key> {
        let steps = routes::sharded(&self.kind().context);
        for key in &steps {
            lock(&self.memories().of(key)).wake(planner::Memory::change_hands);
        }
        steps
    }
}
