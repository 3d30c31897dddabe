//! A step whose change is in, while the environment is watched.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{
    Bundle, BundleType, DeliveryDelegate, PromotionState, PromotionStep, PromotionStepSpec,
    PromotionStepStatus,
};
use serde_json::Value;

use super::check::Checked;
use super::draft::{self, Draft, output};
use super::tasks::TaskKind;
use super::{Plan, Snapshot, change, gates, promoted_commit, why};

use crate::health::{self, Adapter, Baseline, Expected, HealthFacts, Unknown, Verdict};

/// How long an environment may take to become healthy.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// When to look again after a time at which nothing could be seen.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(8);
/// How long a push waits for a look at what was there before, when nothing was looked at until then.
const FIRST_LOOK: SignedDuration = SignedDuration::from_secs(2);
/// How often another cluster is asked whether it is still there, and its Secret whether it still leads there.
const ELSEWHERE: SignedDuration = SignedDuration::from_secs(15);
/// Why nothing proves yet that the environment runs what was promoted, while that is so.
const UNPROVEN: &str = "healthUnproven";
/// The task that checks health; no other one may have this name.
const HEALTH_CHECK: &str = "health-check";

/// How the check of an environment ends if nothing of what is seen changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not at all: nothing is known of the environment, and meanwhile the time does not run.
    Open,
    /// The step fails then.
    Fails(Timestamp),
    /// All is well, but nothing proves it: the step counts as verified then.
    Counts(Timestamp),
}

/// How the check of a step ends, as far as its status tells. Absent: it has not begun.
pub(crate) fn ending(step: &PromotionStep) -> Option<Ending> {
    let status = step.status.as_ref()?;
    if output(status, draft::HEALTH_UNKNOWN).is_some() {
        return Some(Ending::Open);
    }
    let deadline = deadline(&step.spec, status)?;
    Some(match output(status, UNPROVEN) {
        Some(_) => Ending::Counts(deadline),
        None => Ending::Fails(deadline),
    })
}

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    let Some(facts) = snapshot.health else {
        let deadline = deadline(&snapshot.step.spec, &draft.status).unwrap_or(snapshot.now);
        return Plan { wake: Some(deadline.max(soon(snapshot, LOOK_AGAIN))), ..Plan::default() };
    };
    if let Some(why) = &facts.unknown {
        return unknown(draft, why);
    }
    known_again(&mut draft);
    let since_now = || soon(snapshot, timeout(&snapshot.step.spec));
    let deadline = deadline(&snapshot.step.spec, &draft.status).unwrap_or_else(since_now);
    if let Some(fallback) =
        facts.fell_back.as_ref().filter(|text| draft.output(draft::HEALTH_FALLBACK) != Some(text))
    {
        draft.set_output(draft::HEALTH_FALLBACK, fallback.clone());
        draft.warn("HealthFallback", fallback.clone());
    }
    if baseline(&draft.status).is_none() && brings_no_image(snapshot) {
        draft.set_output(draft::HEALTH_BASELINE, health::marks(&facts.objects));
    }
    let verdict = verdict(snapshot, &draft, facts);
    delegation(&mut draft, snapshot, facts, &verdict);
    match &verdict {
        Verdict::Unproven(reason) => draft.set_output(UNPROVEN, reason.clone()),
        _ => drop(draft.status.outputs.remove(UNPROVEN)),
    }
    let mut wake = None;
    let seen = |reason: &str, detail: &str| why::health(&snapshot.step.spec.environment, reason, detail);
    // A cluster elsewhere can go away without a word.
    let elsewhere = snapshot.step.spec.health.as_ref().is_some_and(|health| health.cluster.is_some());
    let next_look = if elsewhere { deadline.min(soon(snapshot, ELSEWHERE)) } else { deadline };
    match verdict {
        Verdict::Healthy(reason) => {
            if let Some(index) = health_task(&draft) {
                draft.complete(index, reason.clone());
            }
            draft.advance(&reason);
        }
        Verdict::Unproven(reason) if snapshot.now >= deadline => {
            let message = format!("not proven: {reason}");
            if let Some(index) = health_task(&draft) {
                draft.complete(index, message.clone());
            }
            draft.not_proven(&reason);
            draft.status.evidence.get_or_insert_default().not_proven = Some(reason);
            draft.advance(&message);
        }
        Verdict::Unproven(reason) => {
            let counts = Some(Ending::Counts(deadline));
            draft.wait([why::ends(seen(why::reason::NOT_PROVEN, &reason), counts)]);
            wake = Some(next_look);
        }
        other if snapshot.now >= deadline => {
            let timeout = gates::duration(timeout(&snapshot.step.spec));
            draft.fail(health_task(&draft), format!("not healthy after {timeout}: {}", other.reason()));
        }
        Verdict::Degraded(reason) => {
            let fails = Some(Ending::Fails(deadline));
            draft.wait([why::ends(seen(why::reason::DEGRADED, &reason), fails)]);
            wake = Some(next_look);
        }
        other => {
            let fails = Some(Ending::Fails(deadline));
            draft.wait([why::ends(seen(why::reason::CHECKING, other.reason()), fails)]);
            wake = Some(next_look);
        }
    }
    Plan { wake, ..draft.plan() }
}

fn soon(snapshot: &Snapshot<'_>, after: SignedDuration) -> Timestamp {
    snapshot.now.saturating_add(after).unwrap_or(Timestamp::MAX)
}

/// Nothing is known of the environment, so nothing is decided: not even the deadline fails a step whose cluster cannot be
/// asked.
fn unknown(mut draft: Draft<'_>, why: &Unknown) -> Plan {
    let wake = soon(draft.snapshot(), LOOK_AGAIN);
    // What a person can do about it depends on this.
    draft.set_output(draft::HEALTH_UNKNOWN, "true");
    match why {
        Unknown::Problem { message, barrier } => {
            draft.reachable();
            draft.block(*barrier, message);
        }
        Unknown::Unreachable { why, code } => {
            draft.unblock();
            let since = draft.unreachable(why, *code);
            // Nobody knows when it went away, only when it was asked in vain.
            let environment = &draft.snapshot().step.spec.environment;
            draft.wait([why::unreachable(environment, why, *code, since)]);
        }
    }
    Plan { wake: Some(wake), ..draft.plan() }
}

/// Something is known again. The time in which nothing was known does not count: the whole time is left for the check.
fn known_again(draft: &mut Draft<'_>) {
    if draft.status.outputs.remove(draft::HEALTH_UNKNOWN).is_none() {
        return;
    }
    draft.unblock();
    draft.reachable();
    let now = draft.snapshot().now;
    draft.set_output(draft::HEALTH_SINCE, now.to_string());
}

fn verdict(snapshot: &Snapshot<'_>, draft: &Draft<'_>, facts: &HealthFacts) -> Verdict {
    let status = &draft.status;
    let mut images = snapshot.bundle.and_then(|bundle| change::images(bundle).ok()).unwrap_or_default();
    // The images of a mixed Bundle may be there before its configuration is; to Argo CD they would be proof enough.
    let mixed = snapshot.bundle.is_some_and(|bundle| bundle.spec.kind() == BundleType::Mixed);
    if mixed && facts.target.adapter == Adapter::ArgoCd {
        images.clear();
    }
    let expected = Expected {
        images: &images,
        commit: promoted_commit(status),
        contains: &facts.contains,
        since: changed_since(draft),
        baseline: baseline(status),
    };
    health::verdict(&facts.target, &facts.objects, &expected)
}

/// Since when at the earliest the environment can have the change; `None` where nothing was to be changed. A push that was
/// made shows at once, even if it is written down only after a second try.
fn changed_since(draft: &Draft<'_>) -> Option<Timestamp> {
    let status = &draft.status;
    let promoted_at = status.promoted_at.filter(|_| output(status, draft::CHANGED) != Some("false"))?;
    // What was there right before the push is known: whatever came until then is not its doing, however often it was tried.
    if status.merged_at.is_some() || output(status, draft::HEALTH_BEFORE).is_some() {
        return Some(promoted_at);
    }
    let pushing = draft
        .position(&TaskKind::Push)
        .and_then(|index| status.steps.get(index))
        .and_then(|task| task.started_at);
    Some(pushing.map_or(promoted_at, |pushing| pushing.min(promoted_at)))
}

fn baseline(status: &PromotionStepStatus) -> Option<Baseline<'_>> {
    let earlier = |key: &str, before_push| output(status, key).map(|marks| Baseline { marks, before_push });
    earlier(draft::HEALTH_BEFORE, true).or_else(|| earlier(draft::HEALTH_BASELINE, false))
}

/// What the workloads look like, for the record of a push that is being made.
pub(super) fn before_push(snapshot: &Snapshot<'_>) -> Option<String> {
    let facts = snapshot.health.filter(|facts| facts.unknown.is_none() && brings_no_image(snapshot))?;
    Some(health::marks(&facts.objects))
}

/// Whether the environment is looked at before the change, too: configuration leaves no proof of its own.
pub fn looks_before_push(step: &PromotionStep, bundle: &Bundle) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    state == Some(PromotionState::Promoting) && bundle.spec.artifacts.images.is_empty()
}

/// Whether a push that has just begun waits for that look. What cannot be seen soon does not hold it up.
pub fn awaits_look(step: &PromotionStep, now: Timestamp) -> bool {
    let tasks = step.status.iter().flat_map(|status| &status.steps);
    let begun = tasks.filter_map(|task| task.started_at).max();
    begun.is_some_and(|begun| now.duration_since(begun) < FIRST_LOOK)
}

fn brings_no_image(snapshot: &Snapshot<'_>) -> bool {
    snapshot.bundle.is_some_and(|bundle| bundle.spec.artifacts.images.is_empty())
}

/// Says which tool delivers inside the cluster, and what it says.
fn delegation(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, facts: &HealthFacts, verdict: &Verdict) {
    let delegate = snapshot.step.spec.delivery.as_ref().and_then(|delivery| delivery.delegate);
    let name = match delegate {
        Some(DeliveryDelegate::ArgoRollouts) => "argoRollouts",
        Some(DeliveryDelegate::Flagger) => "flagger",
        Some(DeliveryDelegate::None) | None => return,
    };
    let own = facts.objects.first().filter(|_| facts.target.adapter.name() == name);
    let phase = own.and_then(|object| object.pointer("/status/phase")).and_then(Value::as_str);
    draft.status.delegated_to = Some(name.to_owned());
    draft.status.delegated_status = Some(phase.unwrap_or(verdict.word()).to_owned());
}

fn timeout(spec: &PromotionStepSpec) -> SignedDuration {
    let wanted = spec.health.as_ref().and_then(|health| health.timeout.as_ref());
    wanted.and_then(|timeout| timeout.parse().ok()).unwrap_or(TIMEOUT)
}

/// The time counts from when the change was in, or from when the check began where other tasks came between, or from
/// when something was known again.
fn deadline(spec: &PromotionStepSpec, status: &PromotionStepStatus) -> Option<Timestamp> {
    let begun = status.steps.iter().find(|task| task.name == HEALTH_CHECK).and_then(|task| task.started_at);
    let known = output(status, draft::HEALTH_SINCE).and_then(|since| since.parse().ok());
    let since = begun.max(status.promoted_at).max(known)?;
    Some(since.saturating_add(timeout(spec)).unwrap_or(Timestamp::MAX))
}

fn health_task(draft: &Draft<'_>) -> Option<usize> {
    draft.position(&TaskKind::HealthCheck)
}
