//! The `resource` adapter: the conditions and counts of a workload.

use kardinal_planner::condition::Truth;
use serde_json::Value;

use super::{Expected, Target, Verdict, condition, images, is_current, label, number, proof, said, text};

/// The condition of a Deployment that has enough ready pods.
const AVAILABLE: &str = "Available";

pub(super) fn judge(target: &Target, object: &Value, expected: &Expected<'_>) -> Verdict {
    let verdict = judge_counts(target, object, expected);
    match expected.images.is_empty() || !has_pods(object) {
        true => proof::weigh(verdict, object, expected),
        false => verdict,
    }
}

fn judge_counts(target: &Target, object: &Value, expected: &Expected<'_>) -> Verdict {
    if !is_current(object) {
        return Verdict::Progressing(format!("{} has not acted on its newest spec yet", label(object)));
    }
    if let Some(old) = images::missing(object, expected.images).filter(|_| has_pods(object)) {
        return Verdict::Progressing(old);
    }
    if let Some(stuck) = deadline_exceeded(object) {
        return Verdict::Degraded(stuck);
    }
    if let Some(counts) = unfinished(target, object) {
        return Verdict::Progressing(counts);
    }
    let wanted = target.condition.as_deref();
    match wanted.or_else(|| default_condition(&target.kind)) {
        Some(wanted) => judge_condition(object, wanted),
        None => Verdict::Healthy(format!("{} is rolled out", label(object))),
    }
}

fn judge_condition(object: &Value, wanted: &str) -> Verdict {
    match condition(object, wanted) {
        Some(found) if text(found, "/status") == Some(Truth::True.as_str()) => {
            Verdict::Healthy(format!("{} is {wanted}", label(object)))
        }
        Some(found) => Verdict::Progressing(format!("{} is not {wanted}: {}", label(object), said(found))),
        None => Verdict::Progressing(format!("{} has no condition {wanted} yet", label(object))),
    }
}

/// Sets that count pods have no condition of their own.
fn default_condition(kind: &str) -> Option<&'static str> {
    match kind {
        "StatefulSet" | "DaemonSet" => None,
        _ => Some(AVAILABLE),
    }
}

fn has_pods(object: &Value) -> bool {
    object.pointer("/spec/template/spec").is_some()
}

fn deadline_exceeded(object: &Value) -> Option<String> {
    let progressing = condition(object, "Progressing")?;
    let stuck = text(progressing, "/status") == Some(Truth::False.as_str())
        && text(progressing, "/reason") == Some("ProgressDeadlineExceeded");
    stuck.then(|| format!("{} is stuck: {}", label(object), said(progressing)))
}

/// What of the rollout is left to do, counted as `kubectl rollout status` counts.
fn unfinished(target: &Target, object: &Value) -> Option<String> {
    let count = |pointer: &str| number(object, pointer).unwrap_or(0);
    let (desired, updated, total, available) = match target.kind.as_str() {
        "Deployment" => (
            number(object, "/spec/replicas").unwrap_or(1),
            count("/status/updatedReplicas"),
            count("/status/replicas"),
            count("/status/availableReplicas"),
        ),
        "StatefulSet" => {
            let updated = count("/status/updatedReplicas");
            // A StatefulSet replaces its pods in place: there are never more of them than wanted.
            let ready = count("/status/availableReplicas").max(count("/status/readyReplicas"));
            (number(object, "/spec/replicas").unwrap_or(1), updated, updated, ready)
        }
        "DaemonSet" => {
            let updated = count("/status/updatedNumberScheduled");
            let desired = count("/status/desiredNumberScheduled");
            (desired, updated, updated, count("/status/numberAvailable"))
        }
        _ => return None,
    };
    let name = label(object);
    if updated < desired {
        Some(format!("{name}: {updated} of {desired} replicas are updated"))
    } else if total > updated {
        Some(format!("{name}: {} old replicas are still there", total - updated))
    } else if available < updated {
        Some(format!("{name}: {available} of {updated} replicas are available"))
    } else {
        None
    }
}
