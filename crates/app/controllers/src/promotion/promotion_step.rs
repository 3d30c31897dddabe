//! The PromotionStep controller.

mod act;
mod confirm;
mod edit;
mod observe;
mod render;
mod routes;
mod task;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::Change;
use kardinal_object::ObjectId;
use kardinal_planner::condition::Note;
use kardinal_promotion::promotion_step::{
    self as planner, Effect, ForgeEffect, GitEffect, MANAGER, Outcome, Shown, StepEffect,
};
use kardinal_vcs::{CommitState, PullRequest};

use crate::Context;
use crate::reconcile::driver::{self, Key, Next};
use crate::reconcile::objects;
use observe::Observation;
use routes::Following;

/// Brings Bundles into environments.
pub(crate) struct Controller {
    context: Arc<Context>,
    memories: Mutex<BTreeMap<Key, Memory>>,
    following: Mutex<Following>,
}

/// What one process remembers of a step between passes. It saves work, and it tells what this process has itself seen and
/// shown, which nobody can write over: a pass with an empty memory comes to the same decisions after reading the pull
/// request again, but has to believe the status of what the check showed.
#[derive(Clone, Default)]
struct Memory {
    /// Which step it is about: one that was made anew under the same name is another one.
    uid: String,
    pull_request: Option<PullRequest>,
    /// Whether one was looked for in vain.
    has_no_pull_request: bool,
    /// Whether there was one, as far as this process has heard.
    heard_of_pull_request: bool,
    /// The commit whose check was set to pending last.
    withdrawn: Option<String>,
    /// What its check shows.
    shown: Option<Shown>,
    /// The commit on which the forge was asked last to show something, whatever came of it.
    asked: Option<String>,
    /// Whether a revision contains the promoted commit.
    contains: BTreeMap<String, bool>,
    /// How often in a row the world has failed.
    faults: u32,
    /// Until when nothing is tried again: what a failure writes down must not itself bring the next try about.
    rest_until: Option<jiff::Timestamp>,
}

impl Memory {
    /// What an outcome means after those before it.
    fn settle(&mut self, step: &PromotionStep, effect: &Effect, outcome: Outcome) -> Outcome {
        // It may be the pull request that is gone: it is read again.
        if matches!(outcome, Outcome::Absent { .. }) {
            self.pull_request = None;
        }
        planner::in_time(step, effect, outcome, self.faults.saturating_add(1))
    }

    /// Whether the forge was asked to show something on the newest commit of the pull request.
    fn has_shown(&self) -> bool {
        self.pull_request.as_ref().is_none_or(|found| self.asked.as_ref() == Some(&found.head))
    }
}

impl Controller {
    /// Watches what every step needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for kind in observe::kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context, memories: Mutex::default(), following: Mutex::default() }
    }

    /// The pull request of a step, as far as this process has read it.
    fn pull_request_number(&self, key: &Key) -> Option<u64> {
        let memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        Some(memories.get(key)?.pull_request.as_ref()?.number)
    }

    fn remember<T>(&self, key: &Key, change: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        change(memories.entry(key.clone()).or_default())
    }
}

impl driver::Controller for Controller {
    const KIND: &'static str = "PromotionStep";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> driver::Route {
        driver::Route { keys: keys_of(self, change), ..driver::Route::default() }
    }

    async fn pass(&self, key: &Key) -> Next {
        let uid = observe::uid(self, key);
        let rest_until = self.remember(key, |memory| {
            if memory.uid.is_empty() {
                memory.uid = uid;
            } else if memory.uid != uid {
                *memory = Memory { uid, ..Memory::default() };
            }
            memory.rest_until
        });
        if rest_until.is_some_and(|until| until > self.context.clock.now()) {
            return Next::At(rest_until);
        }
        let (mut observation, plan) = match self.decide(key).await {
            Ok(decided) => decided,
            Err(next) => return next,
        };
        let Some(effect) = &plan.effect else {
            return match &plan.status {
                Some(status) => self.write(&observation, status, &plan.notes, None).await,
                None => Next::At(plan.wake),
            };
        };
        let outcome = act::act(self, &mut observation, effect).await;
        let outcome = self.remember(key, |memory| memory.settle(&observation.step, effect, outcome));
        self.learn(key, effect, &outcome);
        let faults = self.remember(key, |memory| memory.faults);
        let report = planner::report(&observation.snapshot(), effect, &outcome, faults);
        self.context.metrics.promotion(&observation.step, effect, &outcome);
        let retry = report.retry.map(|delay| observation.now + delay);
        self.remember(key, |memory| memory.rest_until = retry);
        if report.status.is_none() {
            self.tell(&observation, &report.notes).await;
        }
        match &report.status {
            Some(status) => self.write(&observation, status, &report.notes, retry).await,
            None if retry.is_some() => Next::At(retry),
            None if *effect == Effect::Step(StepEffect::RemoveFinalizer) => Next::Never,
            None => Next::Now,
        }
    }

    fn forget(&self, key: &Key) {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.following().forget(key);
    }
}

/// Whether the forge is not asked for the same again: it has done it, or refuses to.
fn is_answer(outcome: &Outcome, faults: u32) -> bool {
    match outcome {
        Outcome::Done | Outcome::Shown { .. } | Outcome::Refused { .. } => true,
        Outcome::Blocked { .. } => faults >= planner::KNOCKS,
        _ => false,
    }
}

impl Controller {
    /// Looks and plans; once more where something is to change in Git and the gates were not read since the Bundle is
    /// there.
    async fn decide(&self, key: &Key) -> Result<(Observation, planner::Plan), Next> {
        let observation = observe::observe(self, key).await?;
        let plan = planner::plan(&observation.snapshot());
        let (true, Some(bundle)) = (plan.changes_git(), observation.bundle()) else {
            return Ok((observation, plan));
        };
        let name = (key.0.clone(), observation.step.spec.bundle_ref.clone());
        match self.context.read_gates(&name, bundle).await {
            Ok(false) => Ok((observation, plan)),
            Ok(true) => {
                let again = observe::observe(self, key).await?;
                let plan = planner::plan(&again.snapshot());
                Ok((again, plan))
            }
            Err(error) => {
                tracing::warn!(step = %key.1, error = %error, "the gates cannot be read; it is tried again");
                Err(Next::At(Some(observation.now + crate::RETRY)))
            }
        }
    }

    /// Keeps what an effect has brought to light.
    fn learn(&self, key: &Key, effect: &Effect, outcome: &Outcome) {
        self.remember(key, |memory| {
            memory.faults = match outcome {
                Outcome::Fault { .. }
                | Outcome::Absent { .. }
                | Outcome::Blocked { .. }
                | Outcome::Conflict { .. }
                | Outcome::Refused { .. } => memory.faults.saturating_add(1),
                _ => 0,
            };
            if let (Effect::Forge(ForgeEffect::SetCommitStatus { sha, state, .. }), Outcome::Shown { at }) =
                (effect, outcome)
            {
                let before = memory.shown.take().filter(|shown| shown.sha == *sha && shown.state == *state);
                let since = before.map_or(*at, |shown| shown.since);
                memory.shown = Some(Shown { sha: sha.clone(), state: *state, since });
            }
            if let Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) = effect
                && is_answer(outcome, memory.faults)
            {
                memory.asked = Some(sha.clone());
            }
            match (effect, outcome) {
                // It may be another step's.
                (Effect::Forge(ForgeEffect::FindMerge { .. }), _) => {}
                (_, Outcome::PullRequest(found)) => {
                    memory.pull_request = Some(found.clone());
                    memory.has_no_pull_request = false;
                    memory.heard_of_pull_request = true;
                }
                (Effect::Forge(ForgeEffect::FindPullRequest { .. }), Outcome::NoPullRequest) => {
                    memory.has_no_pull_request = true
                }
                // Credentials are the team's: that they do not work now is no reason to give up.
                (
                    Effect::Forge(ForgeEffect::SetCommitStatus { sha, state, .. }),
                    Outcome::Done | Outcome::Shown { .. } | Outcome::Refused { .. },
                ) => memory.withdrawn = (*state == CommitState::Pending).then(|| sha.clone()),
                // A definite no changes nothing: reading again would only take back what was just written down.
                (_, Outcome::Blocked { .. } | Outcome::Conflict { certain: true, .. }) => {}
                (
                    Effect::Forge(
                        ForgeEffect::ClosePullRequest { .. } | ForgeEffect::MergePullRequest { .. },
                    ),
                    _,
                ) => memory.pull_request = None,
                // Its branch has moved, or the forge had not compared it when it was read.
                (Effect::Git(GitEffect::Commit(order)), _) if order.replaces.is_some() => {
                    memory.pull_request = None
                }
                _ => {}
            }
        });
    }

    /// Tells what goes with no status.
    async fn tell(&self, observation: &Observation, notes: &[Note]) {
        let uid = observation.step.metadata.uid.as_deref().unwrap_or_default();
        self.context.tell(MANAGER, &self.id(observation), uid, notes, observation.now).await;
    }

    async fn write(
        &self,
        observation: &Observation,
        status: &kardinal_api::kardinal::PromotionStepStatus,
        notes: &[Note],
        retry: Option<jiff::Timestamp>,
    ) -> Next {
        let id = self.id(observation);
        let metadata = &observation.step.metadata;
        let now = observation.now;
        if let Err(next) = self.context.report(MANAGER, &id, metadata, status, notes, now).await {
            return next;
        }
        self.context.metrics.step(&observation.step, observation.bundle(), status, now);
        retry.map_or(Next::Now, |_| Next::At(retry))
    }

    /// The steps that something concerns that has happened in these repositories look at their pull requests again: those
    /// that are carried out here, and those that another process has to look at.
    pub(crate) fn steps_of(&self, urls: &[String], pull_request: Option<u64>) -> (Vec<Key>, Vec<Key>) {
        let (here, elsewhere) = routes::in_repository(self, urls, pull_request);
        self.hear_of_pull_requests(&here);
        (here, elsewhere)
    }

    /// The steps that have a shard, which has changed hands: what is known of them is out of date.
    pub(crate) fn sharded(&self) -> Vec<Key> {
        let steps = routes::sharded(self);
        self.read_again(&steps);
        for key in &steps {
            self.remember(key, |memory| (memory.shown, memory.withdrawn, memory.asked) = (None, None, None));
        }
        steps
    }

    fn id(&self, observation: &Observation) -> ObjectId {
        objects::id::<PromotionStep>(&observation.key)
    }
}

#[cfg(test)]
mod tests {
    use kardinal_vcs::PullRequestState;

    use super::*;

    #[test]
    fn a_pull_request_that_cannot_be_updated_because_it_is_gone_is_read_again() {
        let found = PullRequest {
            number: 7,
            url: String::new(),
            state: PullRequestState::Open,
            branch: "kardinal/default/b/prod".to_owned(),
            base: "main".to_owned(),
            head: "c0ffee".to_owned(),
            merged_at: None,
            merged_by: None,
            merge_commit: None,
            mergeable: None,
            closed_at: None,
            closed_by: None,
            approved_by: Vec::new(),
        };
        let mut memory = Memory { pull_request: Some(found), ..Memory::default() };
        let step = PromotionStep::new("step", Default::default());
        let comment =
            Effect::Forge(ForgeEffect::CommentPullRequest { number: 7, comment: "rebuilt".to_owned() });
        let absent = Outcome::Absent { message: "pull request #7 is not there (yet)".to_owned() };
        let outcome = memory.settle(&step, &comment, absent);
        assert!(matches!(outcome, Outcome::Fault { .. }), "{outcome:?}");
        assert_eq!(memory.pull_request, None);
    }
}

fn keys_of(controller: &Controller, change: &Change) -> Vec<Key> {
    routes::route(controller, change)
}
