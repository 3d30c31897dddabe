//! A step whose change is in, while the environment is watched.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{BundleType, DeliveryDelegate, PromotionStepStatus};
use serde_json::Value;

use super::draft::{self, Draft, output};
use super::tasks::{Task, TaskKind};
use super::{Plan, Snapshot, change, gates, promoted_commit, waiting};
use crate::health::{self, Adapter, Expected, HealthFacts, Unknown, Verdict};

/// How long an environment may take to become healthy.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// When to look again after a time at which nothing could be seen.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(8);
/// How often another cluster is asked whether it is still there, and its Secret whether it still leads there.
const ELSEWHERE: SignedDuration = SignedDuration::from_secs(15);

pub(super) fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let mut draft = Draft::new(snapshot);
    let tasks = waiting::current_tasks(snapshot);
    let Some(facts) = snapshot.health else {
        let deadline = deadline(snapshot, &draft.status, &tasks);
        return Plan { wake: Some(deadline.max(soon(snapshot, LOOK_AGAIN))), ..Plan::default() };
    };
    if let Some(why) = &facts.unknown {
        return unknown(draft, why);
    }
    known_again(&mut draft);
    let deadline = deadline(snapshot, &draft.status, &tasks);
    if let Some(fallback) =
        facts.fell_back.as_ref().filter(|text| draft.output(draft::HEALTH_FALLBACK) != Some(text))
    {
        draft.set_output(draft::HEALTH_FALLBACK, fallback.clone());
        draft.warn("HealthFallback", fallback.clone());
    }
    if draft.output(draft::HEALTH_BASELINE).is_none() && brings_no_image(snapshot) {
        draft.set_output(draft::HEALTH_BASELINE, health::marks(&facts.objects));
    }
    let verdict = verdict(snapshot, &draft.status, facts);
    delegation(&mut draft, snapshot, facts, &verdict);
    let mut wake = None;
    // A cluster elsewhere can go away without a word.
    let elsewhere = snapshot.step.spec.health.as_ref().is_some_and(|health| health.cluster.is_some());
    let next_look = if elsewhere { deadline.min(soon(snapshot, ELSEWHERE)) } else { deadline };
    match verdict {
        Verdict::Healthy(reason) => {
            if let Some(index) = health_task(&tasks) {
                draft.complete(index, reason.clone());
            }
            draft.advance(&tasks, &reason);
        }
        Verdict::Unproven(reason) if snapshot.now >= deadline => {
            let told = format!("not proven: {reason}");
            if let Some(index) = health_task(&tasks) {
                draft.complete(index, told.clone());
            }
            draft.not_proven(&reason);
            draft.advance(&tasks, &told);
        }
        Verdict::Unproven(reason) => {
            draft.say(format!("not proven yet: {reason}; without a proof it counts from {deadline} on"));
            wake = Some(next_look);
        }
        other if snapshot.now >= deadline => {
            let timeout = gates::duration(timeout(snapshot));
            draft.fail(health_task(&tasks), format!("not healthy after {timeout}: {}", other.reason()));
        }
        Verdict::Degraded(reason) => {
            draft.say(format!("degraded: {reason}"));
            wake = Some(next_look);
        }
        other => {
            draft.say(format!("checking health: {}", other.reason()));
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
    match why {
        Unknown::Problem(problem) => {
            draft.reachable();
            draft.block(problem);
        }
        Unknown::Unreachable(why) => {
            draft.unblock();
            let since = draft.unreachable(why);
            draft.say(format!("health is unknown: the cluster has been unreachable since {since}: {why}"));
        }
    }
    draft.set_output(draft::HEALTH_UNKNOWN, "true");
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

fn verdict(snapshot: &Snapshot<'_>, status: &PromotionStepStatus, facts: &HealthFacts) -> Verdict {
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
        since: status.promoted_at.filter(|_| output(status, draft::CHANGED) != Some("false")),
        baseline: output(status, draft::HEALTH_BASELINE),
    };
    health::verdict(&facts.target, &facts.objects, &expected)
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

fn timeout(snapshot: &Snapshot<'_>) -> SignedDuration {
    let health = snapshot.step.spec.health.as_ref();
    let timeout = health.and_then(|health| health.timeout.as_ref()).and_then(|timeout| timeout.parse().ok());
    timeout.unwrap_or(TIMEOUT)
}

/// The time counts from when the change was in, or from when the check began where other tasks came between.
fn deadline(snapshot: &Snapshot<'_>, status: &PromotionStepStatus, tasks: &[Task]) -> Timestamp {
    let begun = health_task(tasks).and_then(|index| status.steps.get(index)?.started_at);
    let known = output(status, draft::HEALTH_SINCE).and_then(|since| since.parse().ok());
    let since = begun.max(status.promoted_at).max(known).unwrap_or(snapshot.now);
    since.saturating_add(timeout(snapshot)).unwrap_or(Timestamp::MAX)
}

fn health_task(tasks: &[Task]) -> Option<usize> {
    tasks.iter().position(|task| task.kind == TaskKind::HealthCheck)
}
