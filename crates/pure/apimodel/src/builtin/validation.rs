//! The checks on built-in kinds that the published schemas leave to Go, as far as the product meets them.

use serde_json::Value;

use super::Kind;
use crate::schema::FieldError;

/// Validates an object of a built-in kind beyond its schema; `old` is the stored object when this is an update.
pub fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (kind.group, kind.kind) {
        ("", "Secret" | "ConfigMap") => data(kind, object, old, &mut errors),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload(object, old, &mut errors)
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            if let Some(old) = old
                && old.get("roleRef") != object.get("roleRef")
            {
                let value = object.get("roleRef").unwrap_or(&Value::Null);
                errors.push(FieldError::invalid("roleRef", value, "cannot change roleRef"));
            }
        }
        ("", "Service") => service(object, &mut errors),
        ("batch", "Job") => unchanged(object, old, "/spec/template", "spec.template", &mut errors),
        _ => {}
    }
    errors
}

/// The most that a ConfigMap or a Secret may hold.
const DATA_LIMIT: u64 = 1024 * 1024;

fn bytes_of(data: &Value) -> u64 {
    let lengths =
        data.as_object().into_iter().flatten().map(|(_, value)| value.as_str().map_or(0, str::len) as u64);
    lengths.sum()
}

fn data(kind: &Kind, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for field in ["data", "binaryData"] {
        for key in object.get(field).and_then(Value::as_object).into_iter().flatten().map(|(key, _)| key) {
            let shape = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            if key.is_empty() || key.len() > 253 || !key.bytes().all(shape) || key == "." || key == ".." {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(
                    format!("{field}[{key}]"),
                    &Value::from(key.as_str()),
                    detail,
                ));
            }
        }
    }
    let size: u64 = ["data", "binaryData"].iter().filter_map(|field| object.get(*field)).map(bytes_of).sum();
    if size > DATA_LIMIT {
        errors.push(FieldError::too_long("", DATA_LIMIT));
    }
    if kind.kind == "Secret" {
        unchanged(object, old, "/type", "type", errors);
    }
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    for field in ["immutable", "data", "binaryData"] {
        if old.get(field) != object.get(field) {
            errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
        }
    }
}

fn service(object: &Value, errors: &mut Vec<FieldError>) {
    let ports =
        object.pointer("/spec/ports").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let external = object.pointer("/spec/type").and_then(Value::as_str) == Some("ExternalName");
    let headless = object.pointer("/spec/clusterIP").and_then(Value::as_str) == Some("None");
    if ports.is_empty() && !external && !headless {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        for field in ["port", "targetPort", "nodePort"] {
            let Some(number) = port.get(field).and_then(Value::as_i64) else { continue };
            // A node port of 0 asks the server to choose one.
            let free = field == "nodePort" && number == 0;
            if !free && !(1..=65535).contains(&number) {
                let path = format!("spec.ports[{index}].{field}");
                errors.push(FieldError::invalid(
                    path,
                    &number.into(),
                    "must be between 1 and 65535, inclusive",
                ));
            }
        }
        if ports.len() > 1 && port.get("name").and_then(Value::as_str).unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("spec.ports[{index}].name"), ""));
        }
    }
}

fn workload(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if let Some(replicas) = object.pointer("/spec/replicas").and_then(Value::as_i64)
        && replicas < 0
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", &replicas.into(), detail));
    }
    let labels = object.pointer("/spec/template/metadata/labels");
    let wanted = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let matches =
        wanted.into_iter().flatten().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value));
    if !matches {
        let shown = labels.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let path = "spec.template.metadata.labels";
        errors.push(FieldError::invalid(path, &shown, "`selector` does not match template `labels`"));
    }
    let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    if containers.is_some_and(Vec::is_empty) {
        errors.push(FieldError::required("spec.template.spec.containers", ""));
    }
    unchanged(object, old, "/spec/selector", "spec.selector", errors);
}

fn unchanged(object: &Value, old: Option<&Value>, pointer: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    let value = object.pointer(pointer);
    if old.pointer(pointer) != value {
        errors.push(FieldError::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
    }
}
