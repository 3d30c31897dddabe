//! What the API does to particular built-in kinds on the way in.

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde_json::{Map, Value, json};

use super::pipeline::Place;
use crate::meta;
use crate::object::text;
use crate::registry::{CRD_RESOURCE, crd};
use crate::status::{Status, quoted};

/// Rewrites input forms that are never stored: `stringData` of Secrets, defaults of CRDs.
pub(super) fn normalise(place: &Place, object: &mut Value) -> Result<(), Status> {
    if !place.definition.custom {
        drop_nulls(object);
    }
    if place.is("secrets") {
        merge_string_data(object);
        check_base64(place, object)?;
    }
    if place.is(CRD_RESOURCE) {
        crd::apply_defaults(object);
    }
    Ok(())
}

/// In typed kinds a null is the same as nothing, and Go clients send many.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, field| !field.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn merge_string_data(object: &mut Value) {
    let Value::Object(map) = object else { return };
    let Some(Value::Object(plain)) = map.remove("stringData") else { return };
    let data = meta::as_map(map.entry("data").or_insert(Value::Null));
    for (key, value) in plain {
        if let Value::String(text) = value {
            data.insert(key, STANDARD.encode(text).into());
        }
    }
}

fn check_base64(place: &Place, object: &Value) -> Result<(), Status> {
    let data = object.get("data").and_then(Value::as_object);
    for value in data.into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
        if let Err(error) = STANDARD.decode(value) {
            let offset = match error {
                DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol(offset, _) => offset,
                DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => value.len(),
            };
            return Err(Status::bad_request(format!(
                "Secret in version {} cannot be handled as a Secret: illegal base64 data at input byte {offset}",
                quoted(&place.version.name)
            )));
        }
    }
    Ok(())
}

/// Takes back defaults that the server itself owns; [`prepare_new`] sets them again.
pub(super) fn forget_additions(place: &Place, object: &mut Value) {
    if place.is("namespaces")
        && let Value::Object(map) = object
        && map.get("spec").is_some_and(|spec| *spec == json!({"finalizers": ["kubernetes"]}))
    {
        map.remove("spec");
    }
}

/// Sets what the server sets on new objects.
pub(super) fn prepare_new(place: &Place, object: &mut Value) {
    match &*place.definition.name {
        "namespaces" => prepare_namespace(object),
        name => {
            if let Some(status) = first_status(name) {
                meta::as_map(object).insert("status".into(), status);
            }
        }
    }
}

/// The status that typed kinds begin with.
fn first_status(resource: &str) -> Option<Value> {
    Some(match resource {
        "deployments.apps" | "jobs.batch" | "cronjobs.batch" => json!({}),
        "replicasets.apps" => json!({"replicas": 0}),
        "statefulsets.apps" => json!({"availableReplicas": 0, "replicas": 0}),
        "daemonsets.apps" => {
            json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0})
        }
        "services" | "ingresses.networking.k8s.io" => json!({"loadBalancer": {}}),
        "persistentvolumeclaims" | "pods" => json!({"phase": "Pending"}),
        CRD_RESOURCE => json!({"acceptedNames": {"kind": "", "plural": ""}}),
        _ => return None,
    })
}

fn prepare_namespace(object: &mut Value) {
    let name = text(object.get("metadata").unwrap_or(&Value::Null), "name").to_owned();
    label_namespace(object, &name);
    let spec = meta::child_map(object, "spec");
    let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(list) = finalizers
        && !list.iter().any(|f| f == "kubernetes")
    {
        list.push("kubernetes".into());
    }
    meta::as_map(object).insert("status".into(), json!({"phase": "Active"}));
}

fn label_namespace(object: &mut Value, name: &str) {
    let metadata = meta::metadata_mut(object);
    let labels = meta::as_map(metadata.entry("labels").or_insert_with(|| Value::Object(Map::new())));
    labels.insert("kubernetes.io/metadata.name".into(), name.into());
}

/// Keeps what updates of particular kinds cannot change.
pub(super) fn prepare_update(place: &Place, old: &Value, new: &mut Value) {
    match &*place.definition.name {
        "namespaces" => {
            if let Some(finalizers) = old.pointer("/spec/finalizers") {
                meta::child_map(new, "spec").insert("finalizers".into(), finalizers.clone());
            }
            label_namespace(new, &place.name);
        }
        "secrets" => {
            // The type cannot change; leaving it out means keeping it.
            if let (Some(kind), None) = (old.get("type"), new.get("type")) {
                meta::as_map(new).insert("type".into(), kind.clone());
            }
        }
        _ => {}
    }
}
