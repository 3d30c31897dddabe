//! What a step does next.

use kardinal_api::kardinal::{PromotionState, PromotionStepStatus};
use kardinal_planner::sentence;

use super::check::{Checked, check_current};
use super::state::is_under_way;
use super::{
    Barrier, Effect, Organisation, Outcome, Snapshot, StepEffect, closing, commit_check,
    is_before_the_change, is_of_another, is_over, organisation, pending, promoting, removal, target,
    verifying, waiting, why,
};
use crate::bundle::gate_kind;

/// What to do next: one thing at a time, or else what to tell.
pub type Plan = sentence::Plan<Effect, PromotionStepStatus>;

/// Decides what to do next. Whatever led there, nothing changes in Git that the organisation's gates hold.
///
/// A status that the controller did not write is nobody's word: the step begins again, and finds what it really has done.
/// One that is over stays as it is; only a pull request of the step's own that is still open is closed.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let step = snapshot.step;
    if let Some(effect) = commit_check::left_green(snapshot) {
        return Plan::act(effect);
    }
    let checked = check_current(snapshot);
    let unknown = snapshot.organisation.err().filter(|_| !is_over(step));
    match (snapshot.key, unknown) {
        // Nobody knows whose the record is, so nothing is done or cleared up by it. Why may be said: a message is no claim.
        (None, Some(why)) => return organisation::unknown(snapshot, &checked, why),
        (None, None) => return Plan { wake: Some(organisation::ask_again(snapshot)), ..Plan::default() },
        (Some(_), _) if !is_proven(snapshot) => return unproven(snapshot),
        (Some(_), Some(why)) => return organisation::unknown(snapshot, &checked, why),
        (Some(_), None) => {}
    }
    let mut plan = decide(snapshot, &checked);
    if plan.effects().into_iter().any(organisation::changes_git) {
        match organisation::blocker(snapshot) {
            Some(why) => plan = organisation::hold(snapshot, &checked, why),
            // What is known of the gates must not be old then.
            None => plan.fresh = vec![gate_kind()],
        }
    }
    if plan.effects().is_empty() && is_before_the_change(snapshot.step) {
        let again = snapshot.organisation.ok().and_then(Organisation::wake);
        plan.wake = plan.wake.into_iter().chain(again).min();
    }
    plan
}

/// What is done about a status that the controller did not write.
fn unproven(snapshot: &Snapshot<'_>) -> Plan {
    let step = snapshot.step;
    match is_over(step) && step.metadata.deletion_timestamp.is_none() {
        true => closing::orphan(snapshot),
        // A step that begins again may be held before it comes to its pull request: until then nothing must be green there.
        false => {
            Plan::act(commit_check::withdraw(snapshot).unwrap_or(Effect::Step(StepEffect::ForgetStatus)))
        }
    }
}

/// Whether the controller itself wrote the status, for the step and the Bundle as they are now.
pub(super) fn is_proven(snapshot: &Snapshot<'_>) -> bool {
    let same = snapshot.bundle.is_none_or(|bundle| !is_of_another(snapshot.step, bundle));
    same && snapshot.key.is_some_and(|key| key.proves_progress(snapshot.step))
}

/// What speaks against an effect that was planned a while ago, when nothing but the push is left to do. `files` are those
/// that really change: a gate that guards a place must not depend on how a step describes what it writes.
pub fn objection(snapshot: &Snapshot<'_>, effect: &Effect, files: &[String]) -> Option<Outcome> {
    let again = plan(snapshot);
    if again.effects() != [effect] {
        let mut waits = again.status.map(|status| status.waits).unwrap_or_default();
        if waits.is_empty() {
            waits.push(why::next("what is to be done has changed in the meantime"));
        }
        return Some(Outcome::Held { why: waits });
    }
    let Some(bundle) = snapshot.bundle else {
        return Some(Outcome::Held { why: vec![why::next("the Bundle is gone")] });
    };
    let target = target(snapshot.step, bundle.spec.kind());
    let strange = files.iter().find(|file| !target.covers(file))?;
    let message =
        format!("the change would write `{strange}`, which is not where this step says that it writes");
    Some(Outcome::Refused { task: None, barrier: Barrier::Other, message })
}

fn decide(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    if snapshot.step.metadata.deletion_timestamp.is_some() {
        return removal::plan(snapshot, checked);
    }
    let state = snapshot.step.status.as_ref().and_then(|status| status.state);
    if is_under_way(snapshot.step) && pending::was_verified(snapshot, checked) {
        // An older status was put back: what was verified is not done once more, and its evidence is not rewritten.
        return Plan::act(Effect::Step(StepEffect::ForgetStatus));
    }
    match state {
        None | Some(PromotionState::Pending) => pending::plan(snapshot, checked),
        Some(PromotionState::Promoting) => promoting::plan(snapshot, checked),
        Some(PromotionState::WaitingForMerge) => waiting::plan(snapshot, checked),
        Some(PromotionState::HealthChecking) => verifying::plan(snapshot, checked),
        Some(PromotionState::Failed) => closing::abandon(snapshot, checked),
        Some(PromotionState::Verified) => Plan::default(),
    }
}
