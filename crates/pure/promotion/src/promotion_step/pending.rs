//! A step that has done nothing yet, and what it waits for.

use kardinal_api::kardinal::{Bundle, BundlePhase, EnvironmentStatus, PromotionState, PromotionStep};

use super::check::{Checked, CheckedStep};
use super::draft::{self, Draft};
use super::{Plan, Snapshot, gates, lane, late, organisation, promoting, target, why};
use crate::bundle::UPSTREAMS_ANNOTATION;
use crate::seal::proven_at;
use kardinal_planner::why::Wait;

/// What the step before must have come to.
const VERIFIED: &str = "Verified";

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    if let Some((bundle, record)) = over(snapshot, checked) {
        take_over(&mut draft, bundle, record);
        return draft.plan();
    }
    if (promoting::has_finalizer(snapshot.step) || snapshot.heard_of_pull_request)
        && let Some(plan) = late::take_up(snapshot, checked)
    {
        return plan;
    }
    match ready(snapshot) {
        Err(waits) => draft.enter(PromotionState::Pending, waits),
        Ok(bundle) => {
            draft.remember_bundle(bundle);
            match checked {
                Ok(checked) => start(&mut draft, snapshot, checked),
                Err(problems) => draft.refuse(problems),
            }
        }
    }
    draft.plan()
}

/// What the Bundle's record says of this environment, if the promotion was over before the step was made: an earlier step
/// has been deleted. To do it once more could bring back what was replaced since, and would rewrite the evidence.
fn over<'a>(snapshot: &Snapshot<'a>, checked: &Checked) -> Option<(&'a Bundle, &'a EnvironmentStatus)> {
    let Snapshot { step, bundle, key, .. } = *snapshot;
    let (bundle, environment) = (bundle?, step.spec.environment.as_str());
    let record = bundle.status.as_ref()?.environments.get(environment)?;
    let over = match record.state? {
        PromotionState::Verified => {
            let place = target::place_of(step, checked);
            proven_at(key?, (&step.spec.pipeline, environment), bundle, place).is_some()
        }
        PromotionState::Failed => true,
        PromotionState::Pending
        | PromotionState::Promoting
        | PromotionState::WaitingForMerge
        | PromotionState::HealthChecking => false,
    };
    over.then_some((bundle, record))
}

/// Whether the Bundle's record proves that the promotion has come to its good end.
pub(super) fn was_verified(snapshot: &Snapshot<'_>, checked: &Checked) -> bool {
    over(snapshot, checked).is_some_and(|(_, record)| record.state == Some(PromotionState::Verified))
}

/// Only what the seal proves becomes the step's own word. The rest of the record stays in the Bundle, where it is.
fn take_over(draft: &mut Draft<'_>, bundle: &Bundle, record: &EnvironmentStatus) {
    draft.remember_bundle(bundle);
    if record.state == Some(PromotionState::Verified) {
        draft.status.verified_at = record.verified_at;
        draft.status.seal = record.seal.clone();
        draft.verified("verified before, by a step that is gone");
        return;
    }
    if record.rejected == Some(true) {
        draft.set_output(draft::REJECTED, "true");
        draft.status.rejected_at = record.rejected_at;
        draft.status.rejected_by.clone_from(&record.rejected_by);
    }
    // Otherwise a merge between the end and now would seem to have come before it.
    draft.status.failed_at = record.failed_at;
    let why = record.message.as_deref().unwrap_or("it has failed here before");
    draft.fail(None, why);
}

fn start(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, checked: &CheckedStep) {
    draft.list_tasks(checked);
    draft.status.evidence = Some(gates::evidence(snapshot));
    draft.advance("");
}

/// The Bundle, when it may be promoted now; else what is waited for.
fn ready<'a>(snapshot: &Snapshot<'a>) -> Result<&'a Bundle, Vec<Wait>> {
    let bundle = usable_bundle(snapshot).map_err(one)?;
    let spec = &snapshot.step.spec;
    if let Some(upstream) = spec.upstream_verified.as_deref().filter(|state| *state != VERIFIED) {
        let names = upstreams(snapshot);
        let names = names.split(',').filter(|name| !name.is_empty());
        return Err(why::upstreams(names, upstream));
    }
    may_begin(snapshot).map_err(one)?;
    lane::taken(snapshot).map_or(Ok(bundle), |taken| Err(one(taken.wait)))
}

fn one(wait: Wait) -> Vec<Wait> {
    vec![wait]
}

/// The Bundle, unless it is gone or a newer one has taken its place.
pub(super) fn usable_bundle<'a>(snapshot: &Snapshot<'a>) -> Result<&'a Bundle, Wait> {
    let name = &snapshot.step.spec.bundle_ref;
    let Some(bundle) = snapshot.bundle else {
        return Err(why::bundle(name, why::reason::MISSING));
    };
    match bundle.status.as_ref().and_then(|status| status.phase) {
        Some(BundlePhase::Superseded) => Err(why::bundle(name, why::reason::SUPERSEDED)),
        _ => Ok(bundle),
    }
}

/// What must hold right before the first side effect, and not only when the step left Pending.
pub(super) fn may_begin(snapshot: &Snapshot<'_>) -> Result<(), Wait> {
    if let Some(held) = held(snapshot) {
        return Err(held);
    }
    organisation::blocker(snapshot).or_else(|| gates::blocker(snapshot)).map_or(Ok(()), Err)
}

/// What is waited for while the Pipeline is paused.
pub(super) fn held(snapshot: &Snapshot<'_>) -> Option<Wait> {
    let hold = snapshot.hold.as_ref()?;
    Some(why::paused(&snapshot.step.spec.pipeline, &hold.why))
}

/// The direct upstream environments, as the step's annotation names them.
pub(super) fn upstreams(snapshot: &Snapshot<'_>) -> String {
    upstreams_of(snapshot.step)
}

/// The same for any step.
pub(super) fn upstreams_of(step: &PromotionStep) -> String {
    let annotations = step.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(UPSTREAMS_ANNOTATION)).cloned().unwrap_or_default()
}
