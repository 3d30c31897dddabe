//! What a step says, checked: its tasks with their settings, and where its change goes.
//!
//! The spec of a step is a frozen copy of what its team wrote, so anything can be in it. Nothing but this reads the tasks.

mod order;
mod settings;

use std::fmt;

use kardinal_api::kardinal::{BundleType, PromotionStep, PromotionStepSpec};

use super::tasks::{Task, TaskKind, defaults};
use super::{Snapshot, change};

/// Every type that a Bundle can have.
pub(crate) const TYPES: [BundleType; 3] = [BundleType::Image, BundleType::Config, BundleType::Mixed];

/// What is wrong with a step or its Bundle, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field that is wrong, for example `spec.steps[2].config.url`.
    pub field: String,
    /// The task that is wrong, counted from 0.
    pub task: Option<usize>,
    /// Why, and what to change.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// What a step does for a Bundle of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckedStep {
    /// The type.
    pub bundle_type: BundleType,
    /// The environment.
    pub environment: String,
    /// The branch that the environment is read from.
    pub base: String,
    /// The branch that the change is pushed to.
    pub branch: String,
    /// The directory of the environment; `.` is the root.
    pub directory: String,
    /// What is to be done, in order.
    pub tasks: Vec<Task>,
}

/// A step that was checked for one decision, or what is wrong with it; there is at least one problem then.
pub(super) type Checked = Result<CheckedStep, Vec<Problem>>;

impl CheckedStep {
    /// Where the task of this kind stands.
    pub(super) fn position(&self, kind: &TaskKind) -> Option<usize> {
        self.tasks.iter().position(|task| task.kind == *kind)
    }

    /// Whether the change goes through a pull request.
    pub(super) fn opens_pull_request(&self) -> bool {
        opens_pull_request(&self.tasks)
    }
}

/// Checks a step for a Bundle of the given type.
pub fn check(step: &PromotionStep, bundle_type: BundleType) -> Result<CheckedStep, Vec<Problem>> {
    let tasks = read(&step.spec, bundle_type)?;
    let problems = order::problems(&step.spec, &tasks, bundle_type);
    if !problems.is_empty() {
        return Err(problems);
    }
    let base = change::base_branch(step);
    let branch = if opens_pull_request(&tasks) { change::branch_of(step) } else { base.clone() };
    Ok(CheckedStep {
        bundle_type,
        environment: step.spec.environment.clone(),
        base,
        branch,
        directory: change::directory(step),
        tasks,
    })
}

/// Checks a step for the Bundle that it began with, or would begin with now. The type that was written down at the start
/// is known also when the Bundle is gone; a status from before there was such a record does not have it.
pub(super) fn check_current(snapshot: &Snapshot<'_>) -> Checked {
    let step = snapshot.step;
    let recorded = step.status.as_ref().and_then(|status| status.bundle_type);
    match recorded.or_else(|| snapshot.bundle.map(|bundle| bundle.spec.kind())) {
        Some(bundle_type) => check(step, bundle_type),
        None => Err(vec![unknown_type(step)]),
    }
}

/// Whether a step opens a pull request for a Bundle of some type; others may be in a repository that no forge serves. Its
/// finalizer says less: who may write the step can take it away. The Bundle may be gone.
pub(super) fn may_open_pull_request(step: &PromotionStep) -> bool {
    TYPES.into_iter().any(|kind| check(step, kind).is_ok_and(|checked| checked.opens_pull_request()))
}

/// All tasks, or what is wrong with each of them.
fn read(spec: &PromotionStepSpec, bundle_type: BundleType) -> Result<Vec<Task>, Vec<Problem>> {
    let Some(listed) = &spec.steps else { return Ok(defaults(spec, bundle_type)) };
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    for (index, task) in listed.iter().enumerate() {
        match settings::read(index, task) {
            Ok(task) => tasks.push(task),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(tasks) } else { Err(problems) }
}

fn opens_pull_request(tasks: &[Task]) -> bool {
    tasks.iter().any(|task| task.kind == TaskKind::OpenPullRequest)
}

fn unknown_type(step: &PromotionStep) -> Problem {
    let name = &step.spec.bundle_ref;
    let message = format!(
        "the Bundle `{name}` does not exist any more, and its type is not in `status.bundleType`, so nobody knows which \
         tasks this promotion has: create the Bundle again to promote it"
    );
    Problem { field: "status.bundleType".to_owned(), task: None, message }
}
