//! The bridge from `kubectl apply` on the client side to server-side apply.
//!
//! Client-side apply remembers its configuration in an annotation. When kubectl then applies on the server side, the
//! fields that still are as that annotation has them are its own, so they are no conflict; and the annotation is kept
//! in step for clients that still read it.

use serde_json::Value;

use super::Conflict;
use crate::fields::{compare, field_set};
use crate::managed::Manager;
use crate::schema::Schema;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The limit that all annotations of an object have together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The conflicts that the annotation does not excuse.
pub(super) fn without_allowed(
    schema: &Schema,
    live: &Value,
    conflicts: Vec<Conflict>,
    manager: &Manager<'_>,
) -> Vec<Conflict> {
    let Some(last) = annotation(live).and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return conflicts;
    };
    if last.get("apiVersion").and_then(Value::as_str) != Some(manager.api_version)
        || super::verify::verify(schema, &last).is_err()
    {
        return conflicts;
    }
    let (removed, written) = compare(schema, &last, live).split();
    let mut allowed = field_set(schema, &last);
    allowed.subtract(&written);
    allowed.subtract(&removed);
    conflicts.into_iter().filter(|conflict| !allowed.has(&conflict.path)).collect()
}

/// Writes the applied configuration into the annotation, if the object has it.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    // The encoder that writes it upstream ends every document with a line feed.
    annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{applied}\n")));
    let size: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_LIMIT {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}
