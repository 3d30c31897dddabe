//! What the status of a step tells others.

use kardinal_api::kardinal::{Bundle, PromotionState, PromotionStep, PromotionStepStatus};

use super::{check, draft};

/// Whether a step was begun for another Bundle, which had the name of this one: what it did says nothing of this one.
pub fn is_of_another(step: &PromotionStep, bundle: &Bundle) -> bool {
    let begun_with = step.status.as_ref().and_then(|status| draft::output(status, draft::BUNDLE_UID));
    begun_with.is_some() && bundle.metadata.uid.is_some() && begun_with != bundle.metadata.uid.as_deref()
}

/// Whether a step may still have to ask gates.
pub fn is_before_the_change(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    state != Some(PromotionState::HealthChecking) && !is_over(step)
}

/// Whether what the gates say may still have to be told: while they can hold the step, and as long as somebody can merge
/// the pull request of a promotion that has failed or is being deleted.
pub fn asks_gates(step: &PromotionStep) -> bool {
    let status = step.status.as_ref();
    let has_failed = status.and_then(|status| status.state) == Some(PromotionState::Failed);
    let is_merged = status.and_then(|status| draft::output(status, draft::PR_STATE)) == Some(draft::MERGED);
    let is_leaving = step.metadata.deletion_timestamp.is_some();
    is_before_the_change(step) || ((has_failed || is_leaving) && !is_merged)
}

/// Whether nothing but clearing up is left to do.
pub(super) fn is_over(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    matches!(state, Some(PromotionState::Verified | PromotionState::Failed))
        || step.metadata.deletion_timestamp.is_some()
}

/// Whether a step has begun and not ended.
pub(super) fn is_under_way(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    !is_over(step) && !matches!(state, None | Some(PromotionState::Pending))
}

/// Whether somebody closed the step's pull request without merging it: a no to the Bundle here, and no word about the
/// environments before.
pub fn is_rejected(step: &PromotionStep) -> bool {
    let status = step.status.as_ref().filter(|status| status.state == Some(PromotionState::Failed));
    status.is_some_and(|status| draft::output(status, draft::REJECTED).is_some())
}

/// Whether the step may have to tell people what was verified before it.
pub fn tells_people(step: &PromotionStep, bundle: &Bundle) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    match state {
        Some(PromotionState::WaitingForMerge) => true,
        Some(PromotionState::Promoting) => {
            check(step, bundle.spec.kind()).is_ok_and(|checked| checked.opens_pull_request())
        }
        _ => false,
    }
}

/// The number of the step's pull request.
pub(crate) fn pull_request_number(status: &PromotionStepStatus) -> Option<&str> {
    draft::output(status, draft::PR_NUMBER)
}

/// The commit whose arrival in the environment is waited for.
pub fn promoted_commit(status: &PromotionStepStatus) -> Option<&str> {
    draft::output(status, draft::MERGE_COMMIT).or_else(|| draft::output(status, draft::COMMIT))
}
