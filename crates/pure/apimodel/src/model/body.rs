//! What a request body must be before the pipeline looks at it: the right kind, the right place, no unknown fields.

use serde_json::Value;

use super::options::{FieldValidation, WriteOptions};
use super::pipeline::Place;
use crate::meta;
use crate::object::text;
use crate::schema::{self, FieldError};
use crate::status::{Status, quoted};

/// Refuses bodies of another kind or version; fills in what built-in kinds may leave out.
pub(super) fn check_kind(place: &Place, body: &mut Value) -> Result<(), Status> {
    let definition = &place.definition;
    let Value::Object(map) = body else {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): the body is not a JSON object",
            definition.kind
        );
        return Err(Status::bad_request(message));
    };
    let expected = place.api_version();
    for (field, value) in [("kind", &definition.kind), ("apiVersion", &expected)] {
        let sent = map.get(field).and_then(Value::as_str).unwrap_or_default();
        if !sent.is_empty() {
            continue;
        }
        if definition.custom {
            let word = if field == "kind" { "Kind" } else { "apiVersion" };
            let message = format!(
                "the object provided is unrecognized (must be of type {}): Object '{word}' is missing",
                definition.kind
            );
            return Err(Status::bad_request(message));
        }
        map.insert(field.into(), value.as_str().into());
    }
    let (api_version, kind) = (text(body, "apiVersion"), text(body, "kind"));
    if api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != definition.kind && definition.custom {
        let shown = format!("{kind}.{}", definition.group);
        let name = text(body.get("metadata").unwrap_or(&Value::Null), "name");
        let error = FieldError::invalid("kind", &kind.into(), &format!("must be {}", definition.kind));
        return Err(Status::invalid_fields(&shown, name, vec![error]));
    }
    if kind != definition.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: the kind in the data does not match the kind of the resource",
            quoted(&place.version.name),
            definition.kind
        )));
    }
    if body.get("metadata").is_some_and(|m| !m.is_object() && !m.is_null()) {
        return Err(Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {kind}: metadata must be an object",
            quoted(&place.version.name)
        )));
    }
    Ok(())
}

/// The namespace of the object must be that of the URL.
pub(super) fn check_namespace(place: &Place, body: &mut Value) -> Result<(), Status> {
    let metadata = meta::metadata_mut(body);
    let sent = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if sent == place.namespace {
        return Ok(());
    }
    if place.namespace.is_empty() {
        metadata.remove("namespace");
    } else if sent.is_empty() {
        metadata.insert("namespace".into(), place.namespace.as_str().into());
    } else {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The name of the object must be that of the URL.
pub(super) fn check_name(place: &Place, body: &mut Value) -> Result<(), Status> {
    let metadata = meta::metadata_mut(body);
    let sent = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    if sent.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            place.name
        )));
    }
    if sent != place.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({sent}) does not match the name on the URL ({})",
            place.name
        )));
    }
    Ok(())
}

/// How strict decoding is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// A whole object was sent: 400.
    Object,
    /// A patch was sent and its result decoded: 422 on `patch`.
    Patch,
}

/// Drops unknown fields and reports them as the options say.
pub(super) fn prune(
    place: &Place,
    body: &mut Value,
    options: &WriteOptions,
    door: Door,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let before =
        (options.field_validation == FieldValidation::Strict && door == Door::Patch).then(|| body.clone());
    let unknown = schema::prune(&place.version.schema(), body);
    if options.field_validation == FieldValidation::Ignore {
        return Ok(());
    }
    let mut problems = options.decoding_problems.clone();
    problems.extend(unknown.iter().map(|path| format!("unknown field {}", quoted(path))));
    if problems.is_empty() {
        return Ok(());
    }
    if options.field_validation == FieldValidation::Warn {
        warnings.append(&mut problems);
        return Ok(());
    }
    let error = format!("strict decoding error: {}", problems.join(", "));
    Err(match before {
        Some(value) => patch_refused(&value, &error),
        None => Status::bad_request(format!(
            "{kind} in version {} cannot be handled as a {kind}: {error}",
            quoted(&place.version.name),
            kind = place.definition.kind
        )),
    })
}

/// The 422 for a patch whose result cannot be used.
pub(super) fn patch_refused(value: &Value, error: &str) -> Status {
    let shown = Value::String(value.to_string());
    Status::invalid_fields("", "", vec![FieldError::invalid("patch", &shown, error)])
}
