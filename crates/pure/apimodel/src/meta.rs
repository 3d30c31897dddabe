//! `ObjectMeta`: names, labels, annotations, owner references, finalizers, and what updates may not change.
//!
//! The rules and their words are those of `k8s.io/apimachinery/pkg/api/validation`. No storage, no requests.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::builtin::NameRule;
use crate::object::text;
use crate::schema::FieldError;

#[cfg(test)]
mod tests;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// What is wrong with `name`; with `prefix` it is a `generateName`, whose last dash does not count.
pub fn name_problems(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked;
    let name = match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() && rule != NameRule::PathSegment => {
            masked = format!("{}a", rest.get(..rest.len() - 1).unwrap_or_default());
            &masked
        }
        _ => name,
    };
    match rule {
        NameRule::Subdomain => subdomain_problems(name),
        NameRule::Label => label_problems(name),
        NameRule::Label1035 => label1035_problems(name),
        NameRule::PathSegment => path_segment_problems(name, prefix),
    }
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    !bytes.is_empty()
        && bytes.iter().all(inner)
        && bytes.first() != Some(&b'-')
        && bytes.last() != Some(&b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_qualified(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.iter().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn pattern(words: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{words} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// What keeps `name` from being a DNS-1123 subdomain.
pub fn subdomain_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push(too_long(253));
    }
    if !is_subdomain(name) {
        let words = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        problems.push(pattern(words, SUBDOMAIN, &["example.com"]));
    }
    problems
}

/// What keeps `name` from being a DNS-1123 label.
pub fn label_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) {
        if is_subdomain(name) {
            problems.push("must not contain dots".into());
        } else {
            let words = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
            problems.push(pattern(words, LABEL, &["my-name", "123-abc"]));
        }
    }
    problems
}

/// What keeps `name` from being a DNS-1035 label.
pub fn label1035_problems(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push(too_long(63));
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        let words = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        problems.push(pattern(words, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    problems
}

fn path_segment_problems(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// What keeps `key` from being a label key.
pub fn label_key_problems(key: &str) -> Vec<String> {
    let examples = &["MyName", "my.name", "123-abc"];
    let mut problems = Vec::new();
    let mut parts = key.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => name,
        (Some(prefix), Some(name), None) => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let found = subdomain_problems(prefix);
                problems.extend(found.into_iter().map(|p| format!("prefix part {p}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(QUALIFIED_WORDS, QUALIFIED, examples)
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63)));
    }
    if !is_qualified(name) {
        problems.push(format!("name part {}", pattern(QUALIFIED_WORDS, QUALIFIED, examples)));
    }
    problems
}

/// What keeps `value` from being a label value.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push(too_long(63));
    }
    if !value.is_empty() && !is_qualified(value) {
        let words = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        let regex = format!("({QUALIFIED})?");
        problems.push(pattern(words, &regex, &["MyValue", "my_value", "12345"]));
    }
    problems
}

/// A timestamp as `metav1.Time` prints it.
pub fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).map_or_else(|_| now.to_string(), |t| t.to_string())
}

/// The `metadata` map of an object; made when absent.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    child_map(object, "metadata")
}

/// A map-valued field of an object, made (or remade, when it is no map) on the way.
pub(crate) fn child_map<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(object).entry(field).or_insert(Value::Null))
}

/// The value as a map; anything else is replaced by an empty one.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("the line above made it a map"),
    }
}

/// The object with another `resourceVersion`.
pub fn with_version(mut object: Value, rv: u64) -> Value {
    metadata_mut(&mut object).insert("resourceVersion".into(), rv.to_string().into());
    object
}

/// Takes out lists and maps of the metadata that hold nothing: they are never written.
pub fn drop_empty(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    metadata.retain(|field, value| {
        let optional = matches!(field.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences");
        let empty =
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        !(optional && empty)
    });
}

/// What is wrong with the metadata of a new object.
pub fn problems(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let generate = text(metadata, "generateName");
    if !generate.is_empty() {
        for problem in name_problems(rule, generate, true) {
            errors.push(FieldError::invalid("metadata.generateName", &generate.into(), &problem));
        }
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        for problem in name_problems(rule, name, false) {
            errors.push(FieldError::invalid("metadata.name", &name.into(), &problem));
        }
    }
    let namespace = text(metadata, "namespace");
    if !namespaced && !namespace.is_empty() {
        errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    } else if namespaced && namespace.is_empty() {
        errors.push(FieldError::required("metadata.namespace", ""));
    } else if namespaced {
        for problem in label_problems(namespace) {
            errors.push(FieldError::invalid("metadata.namespace", &namespace.into(), &problem));
        }
    }
    content_problems(metadata, &mut errors);
    errors
}

/// The rules that hold for new and changed metadata alike.
fn content_problems(metadata: &Value, errors: &mut Vec<FieldError>) {
    for (key, value) in entries(metadata, "labels") {
        for problem in label_key_problems(key) {
            errors.push(FieldError::invalid("metadata.labels", &key.as_str().into(), &problem));
        }
        for problem in label_value_problems(value.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid("metadata.labels", value, &problem));
        }
    }
    let mut size = 0_usize;
    for (key, value) in entries(metadata, "annotations") {
        size += key.len() + value.as_str().unwrap_or_default().len();
        let problems = label_key_problems(&key.to_ascii_lowercase());
        for problem in problems {
            errors.push(FieldError::invalid("metadata.annotations", &key.as_str().into(), &problem));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError::too_long("metadata.annotations", ANNOTATIONS_LIMIT as u64));
    }
    owner_problems(metadata, errors);
    finalizer_problems(metadata, errors);
}

fn entries<'a>(metadata: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    metadata.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn owner_problems(metadata: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.ownerReferences";
    let Some(list) = metadata.get("ownerReferences").and_then(Value::as_array) else { return };
    let mut controller: Option<String> = None;
    for reference in list {
        let api_version = text(reference, "apiVersion");
        let (_, version) = crate::registry::split_api_version(api_version);
        if version.is_empty() {
            let path = format!("{path}.apiVersion");
            errors.push(FieldError::invalid(path, &api_version.into(), "version must not be empty"));
        }
        for field in ["kind", "name", "uid"] {
            let value = text(reference, field);
            if value.is_empty() {
                errors.push(FieldError::invalid(
                    format!("{path}.{field}"),
                    &value.into(),
                    "must not be empty",
                ));
            }
        }
        if api_version == "v1" && text(reference, "kind") == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, reference, detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let name = format!("{}/{}", text(reference, "kind"), text(reference, "name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    errors.push(FieldError::invalid(path, &Value::Array(list.clone()), &detail));
                }
            }
        }
    }
}

fn finalizer_problems(metadata: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.finalizers";
    let finalizers: Vec<&str> = finalizers(metadata).collect();
    for finalizer in &finalizers {
        for problem in label_key_problems(finalizer) {
            errors.push(FieldError::invalid(path, &(*finalizer).into(), &problem));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, &finalizers.clone().into(), detail));
    }
}

/// The finalizers in a `metadata` value.
pub fn finalizers(metadata: &Value) -> impl Iterator<Item = &str> {
    metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// What is wrong with the metadata of a changed object.
pub fn update_problems(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nothing = Value::Null;
    let new = new.get("metadata").unwrap_or(&nothing);
    let old = old.get("metadata").unwrap_or(&nothing);
    if !text(old, "deletionTimestamp").is_empty() {
        let before: BTreeSet<&str> = finalizers(old).collect();
        let extra: BTreeSet<&str> = finalizers(new).filter(|f| !before.contains(f)).collect();
        if !extra.is_empty() {
            let names: Vec<String> = extra.iter().map(|f| crate::status::quoted(f)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                names.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    for field in ["name", "namespace", "uid"] {
        let (after, before) = (text(new, field), text(old, field));
        if after != before {
            let path = format!("metadata.{field}");
            errors.push(FieldError::invalid(path, &after.into(), "field is immutable"));
        }
    }
    // Unchanged labels, annotations and owners were judged when they came in.
    let same = ["labels", "annotations", "ownerReferences", "finalizers"]
        .iter()
        .all(|field| new.get(*field) == old.get(*field));
    if !same {
        content_problems(new, &mut errors);
    }
    errors
}

/// Finalizer names that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// The finalizers of built-in kinds must be standard ones or have a domain.
pub fn unqualified_finalizers(object: &Value) -> Vec<FieldError> {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let bad = finalizers(metadata)
        .enumerate()
        .filter(|(_, finalizer)| !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer));
    bad.map(|(index, finalizer)| {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        FieldError::invalid(format!("metadata.finalizers[{index}]"), &finalizer.into(), detail)
    })
    .collect()
}

/// Warnings about added finalizers of custom resources that have no domain.
pub fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let metadata =
        |object: Option<&Value>| object.and_then(|o| o.get("metadata")).cloned().unwrap_or_default();
    let before = metadata(old);
    let before: BTreeSet<&str> = finalizers(&before).collect();
    let bare = |f: &&str| !f.contains('/') && !STANDARD_FINALIZERS.contains(f) && !before.contains(f);
    let nothing = Value::Null;
    let warning = |finalizer: &str| {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers",
            crate::status::quoted(finalizer)
        )
    };
    finalizers(new.get("metadata").unwrap_or(&nothing)).filter(bare).map(warning).collect()
}
