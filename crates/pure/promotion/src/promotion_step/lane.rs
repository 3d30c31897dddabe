//! One Bundle at a time: an environment belongs to one step until it is through, and the others wait.
//!
//! A step takes an environment by writing down that it is Promoting, and looks once more before its first write. Of two
//! that did so at the same time, at least the later one sees the other; the younger one steps back.

use kardinal_api::kardinal::{PromotionState, PromotionStep, TaskState};
use kardinal_object::age;
use kardinal_planner::why::Wait;

use super::draft::{self, output};
use super::{Snapshot, why};

/// Why a step has to wait for another one.
pub(super) struct Taken {
    /// Who is in the way, and with what.
    pub(super) wait: Wait,
    /// Whether the step keeps its own claim while it waits: it was there first, and the others have done nothing yet.
    pub(super) keeps_claim: bool,
}

/// Who has the environment, when it is somebody else.
pub(super) fn taken(snapshot: &Snapshot<'_>) -> Option<Taken> {
    let all = || snapshot.others.iter().copied().filter(|other| occupies(other, snapshot.takes_back));
    let holder = all().min_by_key(|other| age(&other.metadata))?;
    let keeps_claim =
        all().all(|other| !has_begun(other) && age(&snapshot.step.metadata) < age(&other.metadata));
    let (name, environment) = (&holder.spec.bundle_ref, &holder.spec.environment);
    Some(Taken { wait: why::ahead(name, environment, &describe_holder(holder)), keeps_claim })
}

/// What a Bundle waits for that wants to get in while one of these steps has the environment; of several the one that came
/// first.
pub(crate) fn ahead<'a>(takes_back: bool, others: impl Iterator<Item = &'a PromotionStep>) -> Option<Wait> {
    let holder =
        others.filter(|other| occupies(other, takes_back)).min_by_key(|other| age(&other.metadata))?;
    Some(why::ahead(&holder.spec.bundle_ref, &holder.spec.environment, &describe_holder(holder)))
}

/// Whether a step has not claimed its environment yet, so that it may still have to wait for others.
pub fn has_no_claim(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    matches!(state, None | Some(PromotionState::Pending | PromotionState::Promoting))
}

/// What a step does in the environment that it has.
fn describe_holder(step: &PromotionStep) -> String {
    let status = step.status.as_ref();
    let number = status.and_then(|status| output(status, draft::PR_NUMBER)).unwrap_or("?");
    match status.and_then(|status| status.state) {
        Some(PromotionState::HealthChecking) => "its health is being checked".to_owned(),
        Some(PromotionState::WaitingForMerge) => format!("its PR #{number} is open"),
        Some(PromotionState::Failed) => format!("its PR #{number} is being closed"),
        None | Some(PromotionState::Pending | PromotionState::Verified) => {
            format!("its PR #{number} is open")
        }
        Some(PromotionState::Promoting) => "its change is being written".to_owned(),
    }
}

/// Whether a step has its environment to itself. A rollback does not wait for a version to become healthy: it may be
/// made because that version never will.
fn occupies(step: &PromotionStep, takes_back: bool) -> bool {
    let Some(status) = &step.status else { return false };
    match status.state {
        Some(PromotionState::Promoting | PromotionState::WaitingForMerge) => true,
        Some(PromotionState::HealthChecking) => !takes_back,
        None | Some(PromotionState::Pending | PromotionState::Verified | PromotionState::Failed) => {
            output(status, draft::PR_STATE) == Some("open")
        }
    }
}

/// Whether a step has done something that can be seen.
pub(crate) fn has_begun(step: &PromotionStep) -> bool {
    let tasks = step.status.iter().flat_map(|status| &status.steps);
    tasks.into_iter().any(|task| task.state == TaskState::Completed)
}
