//! The status of CRDs: accepted names and conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::meta;
use crate::object::{Object, text};

/// The words of Kubernetes for whether a condition holds. The planners have a type for them; this crate is the API server's
/// and knows no planner.
pub const TRUE: &str = "True";
/// See [`TRUE`].
pub const FALSE: &str = "False";

/// Decides names and conditions of `crd` among the other CRDs of its group; true if the status changed.
pub fn update_status(crd: &mut Value, others: &[Arc<Object>], now: Timestamp) -> bool {
    let before = crd.get("status").cloned();
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let own = text(crd.get("metadata").unwrap_or(&Value::Null), "name");
    let (resources, kinds) = taken_names(group, own, others);
    let requested = crd.pointer("/spec/names").cloned().unwrap_or(Value::Null);
    let mut accepted = match crd.pointer("/status/acceptedNames") {
        Some(Value::Object(names)) => names.clone(),
        _ => Map::new(),
    };
    let conflict = accept(&requested, &mut accepted, &resources, &kinds);
    let (status, reason, message) = match &conflict {
        None => (TRUE, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => (FALSE, *reason, message.as_str()),
    };
    set_condition(crd, "NamesAccepted", status, reason, message, now);
    let was_established = holds(crd, "Established");
    if conflict.is_none() && !was_established {
        set_condition(
            crd,
            "Established",
            TRUE,
            "InitialNamesAccepted",
            "the initial names have been accepted",
            now,
        );
    } else if !was_established {
        set_condition(crd, "Established", FALSE, "NotAccepted", "not all names are accepted", now);
    }
    meta::child_map(crd, "status").insert("acceptedNames".into(), Value::Object(accepted));
    before.as_ref() != crd.get("status")
}

/// The status of one condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let list = object.pointer("/status/conditions").and_then(Value::as_array)?;
    list.iter().find(|c| text(c, "type") == kind).map(|c| text(c, "status"))
}

/// Whether one condition is true.
pub fn holds(object: &Value, kind: &str) -> bool {
    condition(object, kind) == Some(TRUE)
}

/// Sets one condition in `status.conditions`; the transition time moves only when the status does.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let map = meta::child_map(object, "status");
    let slot = map.entry("conditions").or_insert(Value::Null);
    if !slot.is_array() {
        *slot = json!([]);
    }
    let Value::Array(list) = slot else { return };
    let found = list.iter_mut().find(|c| text(c, "type") == kind);
    let same = found.as_ref().is_some_and(|c| text(c, "status") == status);
    let time = match &found {
        Some(old) if same => old.get("lastTransitionTime").cloned().unwrap_or(Value::Null),
        _ => meta::stamp(now).into(),
    };
    let new = json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time});
    match found {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

fn taken_names(group: &str, own: &str, others: &[Arc<Object>]) -> (BTreeSet<String>, BTreeSet<String>) {
    let mut resources = BTreeSet::new();
    let mut kinds = BTreeSet::new();
    for other in others {
        let value = &other.value();
        if other.name() == own || value.pointer("/spec/group").and_then(Value::as_str) != Some(group) {
            continue;
        }
        let names = value.pointer("/status/acceptedNames").unwrap_or(&Value::Null);
        for field in ["plural", "singular"] {
            resources.insert(text(names, field).to_owned());
        }
        let short = names.get("shortNames").and_then(Value::as_array).into_iter().flatten();
        resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
        for field in ["kind", "listKind"] {
            kinds.insert(text(names, field).to_owned());
        }
    }
    resources.remove("");
    kinds.remove("");
    (resources, kinds)
}

/// Moves requested names over to the accepted ones where they are free; the last conflict wins, as in kube.
fn accept(
    requested: &Value,
    accepted: &mut Map<String, Value>,
    resources: &BTreeSet<String>,
    kinds: &BTreeSet<String>,
) -> Option<(&'static str, String)> {
    let mut conflict = None;
    let in_use = |name: &str| format!("{} is already in use", crate::status::quoted(name));
    let fields = [
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ];
    for (field, taken, reason) in fields {
        let asked = requested.get(field).cloned().unwrap_or(Value::Null);
        if accepted.get(field) == Some(&asked) {
            continue;
        }
        let names: Vec<&str> = match &asked {
            Value::String(name) => vec![name],
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let own: Vec<&str> = match accepted.get(field) {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let used: Vec<String> =
            names.iter().filter(|n| taken.contains(**n) && !own.contains(n)).map(|n| in_use(n)).collect();
        if used.is_empty() {
            if asked.is_null() {
                accepted.remove(field);
            } else {
                accepted.insert(field.into(), asked);
            }
        } else {
            let message = if used.len() == 1 { used.concat() } else { format!("[{}]", used.join(", ")) };
            conflict = Some((reason, message));
        }
    }
    match requested.get("categories") {
        Some(categories) => accepted.insert("categories".into(), categories.clone()),
        None => accepted.remove("categories"),
    };
    conflict
}
