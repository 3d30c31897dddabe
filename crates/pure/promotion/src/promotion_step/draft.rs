//! The status that is being written: progress of tasks, outputs, conditions, and what of it is news.

mod outputs;

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Bundle, PromotionState, PromotionStep, PromotionStepStatus, TaskState, TaskStatus,
};

use super::check::{Checked, CheckedStep, Problem};
use super::tasks::{Task, TaskKind};
use super::{Barrier, Note, Plan, Snapshot, remedy, target, why};
use crate::seal::Claim;
use kardinal_planner::condition::{self, NewCondition, Truth};
use kardinal_planner::why::{Wait, in_room, says_the_same};
pub(super) use outputs::*;

/// Says that somebody must mend something before the step can go on.
const BLOCKED: &str = "Blocked";
/// Says whether something proves that the environment runs the promoted version.
const PROVEN: &str = "HealthProven";
/// Says that the cluster of the environment cannot be reached, and since when.
const UNREACHABLE: &str = "ClusterUnreachable";
/// Says whether the promotion has come to its good end.
const VERIFIED: &str = "Verified";

pub(super) fn output<'a>(status: &'a PromotionStepStatus, key: &str) -> Option<&'a str> {
    status.outputs.get(key).map(String::as_str)
}

/// Since when the step has come to the end that its condition tells. No seal covers that: it serves records that were
/// written before the time of a failure had a field of its own.
pub(super) fn verdict_since(status: &PromotionStepStatus) -> Option<Timestamp> {
    let before = status.conditions.iter().find(|condition| condition.type_ == VERIFIED);
    before.filter(|before| condition::is(before, Truth::False)).map(|before| before.last_transition_time.0)
}

pub(super) struct Draft<'a> {
    pub(super) status: PromotionStepStatus,
    notes: Vec<Note>,
    old: PromotionStepStatus,
    snapshot: &'a Snapshot<'a>,
    checked: &'a Checked,
}

impl<'a> Draft<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<'a>, checked: &'a Checked) -> Draft<'a> {
        let old = snapshot.step.status.clone().unwrap_or_default();
        Draft { status: old.clone(), notes: Vec::new(), old, snapshot, checked }
    }

    pub(super) fn snapshot(&self) -> &'a Snapshot<'a> {
        self.snapshot
    }

    /// The step as checked for this decision.
    pub(super) fn checked(&self) -> &'a Checked {
        self.checked
    }

    /// The tasks of the step; none where it has problems.
    pub(super) fn tasks(&self) -> &'a [Task] {
        match self.checked {
            Ok(checked) => &checked.tasks,
            Err(_) => &[],
        }
    }

    /// Where the task of this kind stands.
    pub(super) fn position(&self, kind: &TaskKind) -> Option<usize> {
        self.checked.as_ref().ok()?.position(kind)
    }

    /// Whether the change goes through a pull request.
    pub(super) fn opens_pull_request(&self) -> bool {
        self.checked.as_ref().is_ok_and(CheckedStep::opens_pull_request)
    }

    pub(super) fn output(&self, key: &str) -> Option<&str> {
        output(&self.status, key)
    }

    pub(super) fn set_output(&mut self, key: &str, value: impl Into<String>) {
        self.status.outputs.insert(key.to_owned(), value.into());
    }

    /// Says how the step has ended. Nothing is waited for then.
    fn end(&mut self, state: PromotionState, message: impl Into<String>) {
        self.status.state = Some(state);
        self.status.waits = Vec::new();
        self.status.message = Some(message.into());
    }

    /// Says what is waited for, the most important first.
    pub(super) fn wait(&mut self, waits: impl IntoIterator<Item = Wait>) {
        let waits = in_room(waits.into_iter().collect());
        let message = Some(why::message(&waits));
        // A number that has moved on behind the same words is not worth a write.
        if message != self.status.message || !says_the_same(&waits, &self.status.waits) {
            self.status.waits = waits;
        }
        self.status.message = message;
    }

    /// Says what kardinal does next.
    pub(super) fn go_on(&mut self, next: impl Into<String>) {
        self.wait([why::next(next)]);
    }

    /// Says what has become known of a step that is over.
    pub(super) fn add(&mut self, message: impl Into<String>) {
        self.status.waits = Vec::new();
        self.status.message = Some(message.into());
    }

    /// Says what holds the step. A change that is held has not begun: what happens meanwhile is not its doing.
    pub(super) fn hold(&mut self, waits: impl IntoIterator<Item = Wait>) {
        self.wait(waits);
        // What cannot be sealed must not change what the seal covers.
        if self.status.state == Some(PromotionState::Promoting) && self.snapshot.key.is_some() {
            let running = self.status.steps.iter_mut().filter(|task| task.state == TaskState::InProgress);
            running.for_each(|task| task.started_at = None);
        }
    }

    /// A warning that is no transition.
    pub(super) fn warn(&mut self, reason: &str, message: impl Into<String>) {
        self.notes.push(Note { warning: true, reason: reason.to_owned(), message: message.into() });
    }

    pub(super) fn enter(&mut self, state: PromotionState, waits: impl IntoIterator<Item = Wait>) {
        self.status.state = Some(state);
        self.wait(waits);
    }

    /// Ends the step well.
    pub(super) fn verified(&mut self, message: impl Into<String>) {
        self.end(PromotionState::Verified, message);
    }

    /// Keeps in mind for which Bundle the step works: one that is made anew under the same name is another one.
    pub(super) fn remember_bundle(&mut self, bundle: &Bundle) {
        if let Some(uid) = &bundle.metadata.uid {
            self.set_output(BUNDLE_UID, uid.clone());
        }
    }

    /// Makes the list of tasks, none of them started, with what says later which they are, even if the Bundle is gone.
    pub(super) fn list_tasks(&mut self, checked: &CheckedStep) {
        self.status.bundle_type = Some(checked.bundle_type);
        let listed = checked.tasks.iter().map(|task| TaskStatus {
            name: task.name.clone(),
            state: TaskState::Pending,
            started_at: None,
            completed_at: None,
            message: None,
        });
        self.status.steps = listed.collect();
    }

    fn touch(&mut self, index: usize, state: TaskState, message: Option<String>) {
        let now = self.snapshot.now;
        let Some(task) = self.status.steps.get_mut(index) else { return };
        task.state = state;
        task.started_at = task.started_at.or(Some(now));
        if matches!(state, TaskState::Completed | TaskState::Failed) {
            task.completed_at = Some(now);
        }
        task.message = message;
    }

    pub(super) fn complete(&mut self, index: usize, message: impl Into<String>) {
        self.touch(index, TaskState::Completed, Some(message.into()));
    }

    pub(super) fn trouble(&mut self, index: usize, message: impl Into<String>) {
        self.touch(index, TaskState::InProgress, Some(message.into()));
    }

    /// Ends the step, and the task that brought it down.
    pub(super) fn fail(&mut self, task: Option<usize>, message: impl Into<String>) {
        let message = message.into();
        let running = self.status.steps.iter().rposition(|task| task.state == TaskState::InProgress);
        if let Some(index) = task.or(running) {
            self.touch(index, TaskState::Failed, Some(message.clone()));
        }
        for task in self.status.steps.iter_mut().filter(|task| task.state == TaskState::InProgress) {
            task.state = TaskState::Pending;
            task.started_at = None;
        }
        self.unblock();
        self.status.failed_at.get_or_insert(self.snapshot.now);
        self.end(PromotionState::Failed, message);
    }

    /// Ends a step that cannot be carried out as it is written. People correct one problem after the other.
    pub(super) fn refuse(&mut self, problems: &[Problem]) {
        if let Some(problem) = problems.first() {
            self.fail(problem.task, problem.message.clone());
        }
    }

    /// Goes on to the next task: its kind decides the state. `previous` is what has come of the one before, if anything.
    pub(super) fn advance(&mut self, previous: &str) {
        let checked = match self.checked {
            Ok(checked) => checked,
            Err(problems) => return self.refuse(problems),
        };
        let tasks = checked.tasks.as_slice();
        // A record that does not fit must never look like a record of which nothing is left to do.
        if tasks.is_empty() || tasks.len() != self.status.steps.len() {
            self.fail(None, "the record of tasks in `status.steps` does not fit the tasks of this step");
            return;
        }
        let Some((index, task)) = next(tasks, &self.status) else {
            self.status.current_step_index = None;
            self.status.verified_at = Some(self.snapshot.now);
            self.status.seal = self.seal();
            self.verified(if previous.is_empty() { "all tasks are done" } else { previous });
            return;
        };
        self.status.current_step_index = u32::try_from(index).ok();
        for (index, other) in tasks.iter().enumerate().take(index + 1) {
            let with_it = other.kind.is_gathered() && task.kind == TaskKind::Push;
            if (with_it || std::ptr::eq(other, task)) && !is_complete(&self.status, index) {
                self.touch(index, TaskState::InProgress, None);
            }
        }
        let next = |message: &str| (PromotionState::Promoting, why::next(message));
        let (state, wait) = match &task.kind {
            TaskKind::WaitForMerge => (PromotionState::WaitingForMerge, why::next("waiting for the merge")),
            TaskKind::HealthCheck => {
                let now = self.snapshot.now;
                self.status.promoted_at = self.status.promoted_at.or(Some(now));
                (
                    PromotionState::HealthChecking,
                    why::health(&checked.environment, why::reason::BEGUN, previous),
                )
            }
            TaskKind::Push => next(&format!("pushing the change to `{}`", checked.branch)),
            TaskKind::OpenPullRequest => next("opening the pull request"),
            _ => next(&format!("calling `{}`", task.name)),
        };
        self.enter(state, [wait]);
    }

    /// Proves that the controller itself has come to this end.
    fn seal(&self) -> Option<String> {
        let Snapshot { step, bundle, key, now, .. } = *self.snapshot;
        let (pipeline, environment) = (&step.spec.pipeline, &step.spec.environment);
        let bundle = bundle?;
        let place = target::place_of(step, self.checked);
        let place = if self.was_forced() { place.forced() } else { place };
        key?.seal(&Claim { bundle, pipeline, environment, place, verified_at: now })
    }

    /// Whether the change came in spite of a closed gate.
    fn was_forced(&self) -> bool {
        let evidence = self.status.evidence.as_ref();
        let gates = evidence.and_then(|evidence| evidence.policy_gates.as_ref());
        gates.into_iter().flatten().any(|gate| gate.forced_by.is_some())
    }

    pub(super) fn block(&mut self, barrier: Barrier, message: &str) {
        self.judge(NewCondition::new(BLOCKED, Truth::True, why::blocked_reason(barrier), message));
        self.warn_if_new(BLOCKED, message);
        // What a step has come to stays its message, even if clearing up after it is not permitted.
        if self.status.state != Some(PromotionState::Failed) {
            let step = PromotionStep { status: Some(self.status.clone()), ..self.snapshot.step.clone() };
            self.wait([why::blocked(barrier, message).basis(remedy::of(&step, barrier))]);
        }
    }

    /// Whether somebody must act before the step goes on, as far as is known.
    pub(super) fn is_blocked(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.type_ == BLOCKED)
    }

    pub(super) fn unblock(&mut self) {
        self.status.conditions.retain(|condition| condition.type_ != BLOCKED);
    }

    /// Writes down that the cluster cannot be reached; answers since when.
    pub(super) fn unreachable(&mut self, why: &str, code: Option<u16>) -> Timestamp {
        let before = condition::find(&self.old.conditions, UNREACHABLE);
        if before.is_none() {
            self.warn(UNREACHABLE, why);
        }
        self.judge(NewCondition::new(UNREACHABLE, Truth::True, why::unreachable_reason(code), why));
        let found = condition::find(&self.status.conditions, UNREACHABLE);
        found.map_or(self.snapshot.now, |condition| condition.last_transition_time.0)
    }

    /// Writes down that the environment is well, and nothing shows with which version.
    pub(super) fn not_proven(&mut self, why: &str) {
        self.judge(NewCondition::new(PROVEN, Truth::False, "NotProven", why));
    }

    /// The cluster answers again.
    pub(super) fn reachable(&mut self) {
        self.status.conditions.retain(|condition| condition.type_ != UNREACHABLE);
    }

    fn warn_if_new(&mut self, type_: &str, message: &str) {
        let before = condition::find(&self.old.conditions, type_);
        if before.is_none_or(|before| before.message != message) {
            self.warn(type_, message);
        }
    }

    fn judge(&mut self, new: NewCondition) {
        let Snapshot { step, now, .. } = *self.snapshot;
        let condition = new.since(&self.old.conditions, step.metadata.generation, now);
        self.status.conditions.retain(|before| before.type_ != condition.type_);
        self.status.conditions.push(condition);
    }

    /// The status, if it differs from the observed, and what is news in it.
    pub(super) fn finish(mut self) -> (Option<PromotionStepStatus>, Vec<Note>) {
        // The seal makes all of it the controller's word, what was there before included.
        if self.snapshot.key.is_some() && !super::is_proven(self.snapshot) {
            return (None, Vec::new());
        }
        self.status.observed_generation = self.snapshot.step.metadata.generation;
        let message = self.status.message.clone().unwrap_or_default();
        if let Some(state) = self.status.state {
            let (truth, reason) = match state {
                PromotionState::Verified => (Truth::True, "Verified"),
                PromotionState::Failed if self.output(REJECTED).is_some() => (Truth::False, "Rejected"),
                PromotionState::Failed => (Truth::False, "Failed"),
                PromotionState::Pending
                | PromotionState::Promoting
                | PromotionState::WaitingForMerge
                | PromotionState::HealthChecking => (Truth::Unknown, state.as_str()),
            };
            // The message of the condition would change with every detail; the state is enough.
            let said = if truth == Truth::Unknown { "" } else { message.as_str() };
            self.judge(NewCondition::new(VERIFIED, truth, reason, said));
            if self.old.state != Some(state) && is_news(state) {
                let warning = state == PromotionState::Failed;
                self.notes.push(Note { warning, reason: state.as_str().to_owned(), message });
            }
        }
        self.status.conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
        if let Some(key) = self.snapshot.key {
            self.status.progress_seal = key.seal_progress(self.snapshot.step, &self.status);
        }
        let changed = self.status != self.old;
        (changed.then_some(self.status), self.notes)
    }

    pub(super) fn plan(self) -> Plan {
        let (status, notes) = self.finish();
        Plan { status, notes, ..Plan::default() }
    }
}

/// The task that comes next. Those that a push carries out together are passed over.
pub(super) fn next<'a>(tasks: &'a [Task], status: &PromotionStepStatus) -> Option<(usize, &'a Task)> {
    tasks.iter().enumerate().find(|(index, task)| !task.kind.is_gathered() && !is_complete(status, *index))
}

pub(super) fn is_complete(status: &PromotionStepStatus, index: usize) -> bool {
    status.steps.get(index).is_some_and(|task| task.state == TaskState::Completed)
}

/// Whether people want to hear of it. What is merely under way stands in the status.
fn is_news(state: PromotionState) -> bool {
    match state {
        PromotionState::Pending
        | PromotionState::WaitingForMerge
        | PromotionState::Verified
        | PromotionState::Failed => true,
        PromotionState::Promoting | PromotionState::HealthChecking => false,
    }
}
