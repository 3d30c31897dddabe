//! Kubernetes Events: one per transition, counted when it repeats.

use jiff::Timestamp;
use kardinal_object::ObjectId;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::write::{Answer, Writer};

/// Whether an event tells of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether it is trouble.
    pub event_type: EventType,
    /// One word, the same as the condition's reason.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// Writes the note as an Event on `regarding` (with this uid). A lost event is logged and never retried.
pub async fn record(
    writer: &Writer,
    component: &str,
    regarding: &ObjectId,
    uid: &str,
    note: &Note,
    now: Timestamp,
) {
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let Some(gvk) = kardinal_object::Gvk::parse("v1", "Event") else { return };
    let id = ObjectId { gvk, namespace: Some(namespace.clone()), name: event_name(regarding, uid, note) };
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": id.name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": regarding.gvk.api_version(),
            "kind": regarding.gvk.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": uid,
        },
        "type": match note.event_type { EventType::Normal => "Normal", EventType::Warning => "Warning" },
        "reason": note.reason,
        "message": note.message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    });
    let answer = match writer.create(&id, &event, component).await {
        Answer::Conflict(_) => count_again(writer, component, &id, now).await,
        answer => answer,
    };
    if let Answer::Refused(message) | Answer::Fault(message) | Answer::Gone(message) = answer {
        tracing::warn!(reason = %note.reason, object = %regarding, error = %message, "event not recorded");
    }
}

async fn count_again(writer: &Writer, component: &str, id: &ObjectId, now: Timestamp) -> Answer {
    let count = match writer.get(id).await {
        Answer::Done(event) => event.get("count").and_then(Value::as_i64).unwrap_or(1),
        answer => return answer,
    };
    let patch = json!({"count": count.saturating_add(1), "lastTimestamp": seconds(now)});
    writer.merge(id, None, &patch, component).await
}

/// The same transition of the same object has the same name, so a repetition is counted, not added.
fn event_name(regarding: &ObjectId, uid: &str, note: &Note) -> String {
    let digest = Sha256::digest(format!("{uid}\n{}\n{}", note.reason, note.message));
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let head: String = regarding.name.chars().take(200).collect();
    format!("{}.{hash}", head.trim_end_matches(['.', '-']))
}

fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
