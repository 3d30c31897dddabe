//! Whether a workload has changed since the push. Where a Bundle brings an image, the image is the proof; configuration
//! leaves none of its own, and a workload that is well may simply not have been touched yet.

use jiff::Timestamp;
use serde_json::Value;

use super::{Baseline, Expected, Verdict, condition, number, text};

/// What tells whether the objects have changed since they were looked at: who they are, which spec they have, and which
/// rollout they are at.
pub fn marks(objects: &[Value]) -> String {
    let marks: Vec<String> = objects.iter().map(mark).collect();
    marks.join(";")
}

fn mark(object: &Value) -> String {
    let parts = [
        text(object, "/metadata/uid").map(str::to_owned),
        number(object, "/metadata/generation").map(|generation| generation.to_string()),
        text(object, "/metadata/annotations/deployment.kubernetes.io~1revision").map(str::to_owned),
        text(object, "/status/updateRevision").map(str::to_owned),
        text(object, "/status/currentPodHash").map(str::to_owned),
        progressed(object).map(str::to_owned),
    ];
    parts.map(Option::unwrap_or_default).join(",")
}

/// When the rollout last got on, by its own record.
fn progressed(object: &Value) -> Option<&str> {
    text(condition(object, "Progressing")?, "/lastUpdateTime")
}

/// Turns a healthy verdict into one that is not proven, where nothing in the object has changed since the push.
pub(super) fn weigh(verdict: Verdict, object: &Value, expected: &Expected<'_>) -> Verdict {
    match (verdict, expected.since) {
        (Verdict::Healthy(reason), Some(since)) if !has_changed(object, since, expected.baseline) => {
            Verdict::Unproven(format!("{reason}, but nothing in it has changed since the push"))
        }
        (verdict, _) => verdict,
    }
}

fn has_changed(object: &Value, since: Timestamp, baseline: Option<Baseline<'_>>) -> bool {
    let mark = mark(object);
    if baseline.is_some_and(|baseline| !baseline.marks.split(';').any(|earlier| earlier == mark)) {
        return true;
    }
    // Kubernetes times have whole seconds: what was written in the second of the push may be older than the push. That does
    // not matter only where the objects were not looked at before.
    let ambiguous = i64::from(baseline.is_some_and(|baseline| baseline.before_push));
    let earliest = since.as_second().saturating_add(ambiguous);
    let written = object.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    // What is written to the status tells of pods, not of the spec.
    let written = written.filter(|entry| text(entry, "/subresource").is_none());
    let mut times = written
        .filter_map(|entry| text(entry, "/time"))
        .chain(text(object, "/metadata/creationTimestamp"))
        .chain(progressed(object))
        .filter_map(|time| time.parse::<Timestamp>().ok());
    times.any(|time| time.as_second() >= earliest)
}
