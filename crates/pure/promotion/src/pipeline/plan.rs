//! What to write down about a Pipeline: how its environments stand.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{
    Bundle, BundleStatus, EnvironmentStatus, Pipeline, PipelinePhase, PipelineStatus, Presence,
    PromotionState, PromotionStep,
};
use kardinal_object::name_of;
use kardinal_planner::condition::{self, NewCondition, Truth};
use kardinal_planner::problem::Problem;
use kardinal_planner::why::Wait;

use super::check::{check_names, secrets, way};
use super::report::Comparison;
use super::{Plan, SECRETS_FOUND, Snapshot, why};
use crate::bundle::report::newest;
use crate::bundle::{READY, Route};
use crate::intent::{arrived, ended_at, present, with_before};

/// What has to be known of a Bundle that is gone until its arrivals are on record. People can put much into a Bundle. Absent:
/// it came nowhere.
pub fn arrivals_only(bundle: Bundle) -> Option<Bundle> {
    let mut kept = Bundle { metadata: Default::default(), ..bundle };
    kept.metadata.name = bundle.metadata.name;
    kept.metadata.namespace = bundle.metadata.namespace;
    kept.metadata.creation_timestamp = bundle.metadata.creation_timestamp;
    let status = kept.status.take().unwrap_or_default();
    let short = |(name, entry): (String, EnvironmentStatus)| {
        let EnvironmentStatus { state, promoted_at, verified_at, .. } = entry;
        (name, EnvironmentStatus { state, promoted_at, verified_at, ..EnvironmentStatus::default() })
    };
    let environments: BTreeMap<String, EnvironmentStatus> =
        status.environments.into_iter().map(short).collect();
    let has_arrived = environments.values().any(|entry| entry.promoted_at.or(entry.verified_at).is_some());
    kept.status = Some(BundleStatus { phase: status.phase, environments, ..BundleStatus::default() });
    has_arrived.then_some(kept)
}
/// How long arrivals may stay unrecorded while a Bundle is on its way: mostly it arrives in more places soon.
const GATHERING: SignedDuration = SignedDuration::from_secs(5);
/// How long until somebody looks again for a Secret that is missing.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// Whether the Secrets have to be looked for: nobody has since the Pipeline was written, or one was missing then.
pub fn wants_secrets(pipeline: &Pipeline) -> bool {
    let status = pipeline.status.as_ref();
    let found = status.and_then(|status| condition::find(&status.conditions, SECRETS_FOUND));
    let known = found.is_some_and(|one| {
        condition::is(one, Truth::True) && one.observed_generation == pipeline.metadata.generation
    });
    !known && !secrets(pipeline).is_empty()
}

/// Decides what to tell.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let pipeline = snapshot.pipeline;
    let route = way(pipeline);
    let phase = route.as_ref().map_or(PipelinePhase::Unknown, |route| phase(route, snapshot));
    // A wrong name is told, and Bundles are on their way all the same.
    let checked =
        route.as_ref().map_err(Problem::clone).and_then(|route| check_names(pipeline).map(|()| route));
    let mut waits: Vec<Wait> = checked.as_ref().err().map(why::wrong).into_iter().collect();
    let ready = match checked {
        Ok(route) => NewCondition::new(READY, Truth::True, "Valid", order(route)),
        Err(problem) => {
            NewCondition::new(READY, Truth::False, why::reason::VALIDATION_FAILED, problem.to_string())
        }
    };
    let old = pipeline.status.clone().unwrap_or_default();
    let mut notes = Vec::new();
    let mut comparison = Comparison { old: &old.conditions, pipeline, now: snapshot.now, notes: &mut notes };
    let ready = comparison.compare(ready);
    let found =
        |truth, reason: &'static str, message| NewCondition::new(SECRETS_FOUND, truth, reason, message);
    let looked = if secrets(pipeline).is_empty() { Some([].as_slice()) } else { snapshot.missing };
    let missing = why::secrets(looked, &old.waits);
    let secrets = match snapshot.missing {
        _ if secrets(pipeline).is_empty() => None,
        None => old.conditions.iter().find(|one| one.type_ == SECRETS_FOUND).cloned(),
        Some([]) => Some(comparison.compare(found(Truth::True, "Found", "all Secrets exist".to_owned()))),
        Some(_) => {
            let said = why::message(pipeline, &missing);
            Some(comparison.compare(found(Truth::False, why::reason::SECRET_MISSING, said)))
        }
    };
    waits.extend(missing);
    let wake = wants_secrets(pipeline).then(|| snapshot.now.saturating_add(LOOK_AGAIN).ok()).flatten();
    let wake = wake.filter(|_| !snapshot.missing.is_some_and(<[String]>::is_empty));
    let ours = [READY, SECRETS_FOUND];
    let others = old.conditions.iter().filter(|condition| !ours.contains(&condition.type_.as_str())).cloned();
    let mut status = PipelineStatus {
        observed_generation: pipeline.metadata.generation,
        phase: Some(phase),
        conditions: others.chain([ready]).chain(secrets).collect(),
        waits,
        environments: route
            .as_ref()
            .map_or_else(|_| old.environments.clone(), |route| presences(route, snapshot)),
    };
    let due = gathered(&status.environments, snapshot);
    if due.is_some() && (PipelineStatus { environments: old.environments.clone(), ..status.clone() }) == old {
        status.environments.clone_from(&old.environments);
    }
    let due = due.filter(|_| status == old);
    let wake = wake.into_iter().chain(due).min();
    Plan { status: (status != old).then_some(status), notes, wake, ..Plan::default() }
}

/// Whether every arrival that was seen is on record in a status of the Pipeline; `None`: in the one that it has.
pub fn has_all(snapshot: &Snapshot<'_>, status: Option<&PipelineStatus>) -> bool {
    let Ok(route) = way(snapshot.pipeline) else { return false };
    let recorded = status.or(snapshot.pipeline.status.as_ref()).map(|status| status.environments.as_slice());
    recorded.unwrap_or_default() == presences(&route, snapshot)
}

/// What the environments have, Bundles that are gone included.
fn presences(route: &Route<'_>, snapshot: &Snapshot<'_>) -> Vec<Presence> {
    let of = |name| {
        let present = present(snapshot.pipeline, snapshot.bundles, name);
        present.into_iter().map(move |one| with_before(snapshot.pipeline, snapshot.bundles, &one, name))
    };
    route.names().flat_map(of).collect()
}

/// When arrivals that are not on record yet have to be, while more may follow at once.
fn gathered(environments: &[Presence], snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    let known = snapshot.pipeline.status.as_ref().map(|status| status.environments.as_slice());
    let new = environments.iter().filter(|one| !known.unwrap_or_default().contains(one));
    let due = new.filter_map(arrived).min()?.saturating_add(GATHERING).ok()?;
    (snapshot.promoting && due > snapshot.now).then_some(due)
}

/// By the newest step of each environment, or what was verified there since: one failed is enough to be degraded, all must
/// be verified to be ready, and nothing may be on its way.
fn phase(route: &Route<'_>, snapshot: &Snapshot<'_>) -> PipelinePhase {
    let newest = newest(snapshot.steps);
    let state = |name: &str| {
        let step = newest.iter().find(|step| step.spec.environment == name)?;
        let state = step.status.as_ref()?.state?;
        let past = state == PromotionState::Failed && is_past(step, snapshot.bundles);
        Some(if past { PromotionState::Verified } else { state })
    };
    let states: Vec<Option<PromotionState>> = route.names().map(state).collect();
    if states.contains(&Some(PromotionState::Failed)) {
        PipelinePhase::Degraded
    } else if !snapshot.promoting && states.iter().all(|state| *state == Some(PromotionState::Verified)) {
        PipelinePhase::Ready
    } else {
        PipelinePhase::Unknown
    }
}

/// Whether another Bundle was verified in the environment after the one of this step came to its end, although its own
/// step was made before.
pub(super) fn is_past(step: &PromotionStep, bundles: &[&Bundle]) -> bool {
    let environment = &step.spec.environment;
    let Some(failed) = bundles.iter().find(|one| name_of(&one.metadata) == step.spec.bundle_ref) else {
        return false;
    };
    let verified = |bundle: &Bundle| {
        let entry = bundle.status.as_ref().and_then(|status| status.environments.get(environment));
        entry.and_then(|entry| entry.state) == Some(PromotionState::Verified)
    };
    // Without a record nobody knows when it failed, and that is no reason to call it past.
    let Some(end) = ended_at(failed, environment) else { return false };
    bundles.iter().any(|one| verified(one) && ended_at(one, environment) > Some(end))
}

/// `dev → staging → prod`, or how many environments where they branch.
fn order(route: &Route<'_>) -> String {
    let names: Vec<&str> = route.names().collect();
    let line = route.stops().iter().zip(names.iter().skip(1)).all(|(stop, next)| {
        route.stop(next).is_some_and(|after| after.upstreams == [stop.environment.name.as_str()])
    });
    if line { names.join(" → ") } else { format!("{} environments in order", names.len()) }
}
