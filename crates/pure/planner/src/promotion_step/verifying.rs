//! A step whose change is in, while the environment is watched.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{BundleType, DeliveryDelegate, PromotionStepStatus};
use serde_json::Value;

use super::draft::{self, Draft, output};
use super::tasks::{Task, TaskKind};
use super::{Plan, Snapshot, change, gates, promoted_commit, waiting};
use crate::health::{self, Adapter, Expected, HealthFacts, Verdict};

/// How long an environment may take to become healthy.
const TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
/// When to look again after a time at which nothing could be seen.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(8);

pub(super) fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let mut draft = Draft::new(snapshot);
    let tasks = waiting::current_tasks(snapshot);
    let deadline = deadline(snapshot, &draft.status, &tasks);
    let Some(facts) = snapshot.health else {
        let soon = snapshot.now.saturating_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        return Plan { wake: Some(deadline.max(soon)), ..Plan::default() };
    };
    if let Some(fallback) =
        facts.fell_back.as_ref().filter(|text| draft.output(draft::HEALTH_FALLBACK) != Some(text))
    {
        draft.set_output(draft::HEALTH_FALLBACK, fallback.clone());
        draft.warn("HealthFallback", fallback.clone());
    }
    let verdict = verdict(snapshot, &draft.status, facts);
    delegation(&mut draft, snapshot, facts, &verdict);
    let mut wake = None;
    match verdict {
        Verdict::Healthy(reason) => {
            if let Some(index) = health_task(&tasks) {
                draft.complete(index, reason.clone());
            }
            draft.advance(&tasks, &reason);
        }
        other if snapshot.now >= deadline => {
            let timeout = gates::duration(timeout(snapshot));
            draft.fail(health_task(&tasks), format!("not healthy after {timeout}: {}", other.reason()));
        }
        Verdict::Degraded(reason) => {
            draft.say(format!("degraded: {reason}"));
            wake = Some(deadline);
        }
        other => {
            draft.say(format!("checking health: {}", other.reason()));
            wake = Some(deadline);
        }
    }
    Plan { wake, ..draft.plan() }
}

fn verdict(snapshot: &Snapshot<'_>, status: &PromotionStepStatus, facts: &HealthFacts) -> Verdict {
    if let Some(problem) = &facts.cluster_problem {
        return Verdict::Progressing(format!("the cluster cannot be asked: {problem}"));
    }
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
    };
    health::verdict(&facts.target, &facts.objects, &expected)
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
    let since = begun.max(status.promoted_at).unwrap_or(snapshot.now);
    since.saturating_add(timeout(snapshot)).unwrap_or(Timestamp::MAX)
}

fn health_task(tasks: &[Task]) -> Option<usize> {
    tasks.iter().position(|task| task.kind == TaskKind::HealthCheck)
}
