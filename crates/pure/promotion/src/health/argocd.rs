//! The `argocd` adapter: an Application that is Healthy and Synced to the promoted revision.

use serde_json::Value;

use super::{Expected, Verdict, has_commit, images, label, short, text};

pub(super) fn revision(object: &Value) -> Option<String> {
    text(object, "/status/sync/revision")
        .or_else(|| text(object, "/status/sync/revisions/0"))
        .map(str::to_owned)
}

pub(super) fn judge(object: &Value, expected: &Expected<'_>) -> Verdict {
    let name = label(object);
    if let Some(phase) = text(object, "/status/operationState/phase").filter(|phase| *phase != "Succeeded") {
        let message = text(object, "/status/operationState/message").unwrap_or("no reason given");
        let reason = format!("{name}: the sync is {phase}: {message}");
        return match phase {
            "Failed" | "Error" => Verdict::Degraded(reason),
            _ => Verdict::Progressing(reason),
        };
    }
    if let Some(old) = outdated(object, expected) {
        return Verdict::Progressing(format!("{name} {old}"));
    }
    match text(object, "/status/sync/status") {
        Some("Synced") => {}
        other => return Verdict::Progressing(format!("{name} is {}", other.unwrap_or("not synced yet"))),
    }
    let message = text(object, "/status/health/message").map(|text| format!(": {text}")).unwrap_or_default();
    match text(object, "/status/health/status") {
        Some("Healthy") => Verdict::Healthy(format!("{name} is Healthy and Synced")),
        Some("Degraded") => Verdict::Degraded(format!("{name} is Degraded{message}")),
        Some(other) => Verdict::Progressing(format!("{name} is {other}{message}")),
        None => Verdict::Progressing(format!("{name} has no health yet")),
    }
}

/// Why the Application does not have the promoted version yet. Either proof is enough: the commit, or the images.
fn outdated(object: &Value, expected: &Expected<'_>) -> Option<String> {
    if expected.commit.is_none() && expected.images.is_empty() {
        return None;
    }
    let revisions = object.pointer("/status/sync/revisions").and_then(Value::as_array);
    let revisions: Vec<&str> = text(object, "/status/sync/revision")
        .into_iter()
        .chain(revisions.into_iter().flatten().filter_map(Value::as_str))
        .collect();
    if revisions.iter().any(|revision| has_commit(revision, expected)) {
        return None;
    }
    let listed = object.pointer("/status/summary/images").and_then(Value::as_array);
    if !expected.images.is_empty() {
        let listed = listed.into_iter().flatten().filter_map(Value::as_str);
        let old = images::missing_in(listed, expected.images);
        if old.is_none() || expected.commit.is_none() {
            return old;
        }
    }
    let at = revisions.first().map_or("no revision", |revision| short(revision));
    Some(format!("is at {at}, not yet at {}", expected.commit.map_or("the promoted version", short)))
}
