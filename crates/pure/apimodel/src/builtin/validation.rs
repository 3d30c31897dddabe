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
        ("batch", "Job") => unchanged(object, old, "/spec/template", "spec.template", &mut errors),
        _ => {}
    }
    errors
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

fn workload(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    unchanged(object, old, "/spec/selector", "spec.selector", errors);
    let labels = object.pointer("/spec/template/metadata/labels");
    let wanted = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let matches =
        wanted.into_iter().flatten().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value));
    if !matches {
        let shown = labels.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let path = "spec.template.metadata.labels";
        errors.push(FieldError::invalid(path, &shown, "`selector` does not match template `labels`"));
    }
}

fn unchanged(object: &Value, old: Option<&Value>, pointer: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    let value = object.pointer(pointer);
    if old.pointer(pointer) != value {
        errors.push(FieldError::invalid(path, value.unwrap_or(&Value::Null), "field is immutable"));
    }
}
