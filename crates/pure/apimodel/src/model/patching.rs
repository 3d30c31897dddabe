//! PATCH in its four forms.

use serde_json::Value;

use super::body::{self, Door, patch_refused};
use super::create::check_manager;
use super::options::{FieldValidation, WriteOptions};
use super::pipeline::{Place, Work};
use super::update::check_preconditions;
use super::{Outcome, PatchKind};
use crate::managed::{Manager, Operation, clear};
use crate::merge::{self, ApplyError};
use crate::meta;
use crate::object::Object;
use crate::patch::{self, PatchError};
use crate::schema::FieldError;
use crate::status::{Reason, Status, StatusCause};

impl Work<'_> {
    pub(super) fn patch(
        &mut self,
        place: &Place,
        kind: PatchKind,
        body: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        if place.name.is_empty() {
            return Err(place.unsupported());
        }
        check_options(kind, options)?;
        if kind == PatchKind::Strategic && place.definition.custom {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]));
        }
        if place.subresource == "scale" {
            return self.patch_scale(place, kind, &body, options);
        }
        if kind == PatchKind::Apply {
            return self.apply(place, body, options);
        }
        let key = place.key();
        let old = self.get(&key).ok_or_else(|| place.not_found())?;
        let live = old.value_as(&place.api_version());
        let mut new = patched(&place.version.schema(), kind, &live, &body)?;
        check_result(place, &live, &mut new)?;
        body::prune(place, &mut new, options, Door::Patch, &mut self.warnings)?;
        check_preconditions(place, &old, &mut new)?;
        let before = stored_form(&old, live);
        self.replace(place, key, (&old, &before), new, |work, place, old, new| {
            work.track(place, Some(old), new, options)
        })
    }

    /// Server-side apply: merges into what is there, or creates.
    fn apply(
        &mut self,
        place: &Place,
        mut applied: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        check_applied(place, &mut applied)?;
        if options.field_validation == FieldValidation::Strict && !options.decoding_problems.is_empty() {
            let problems = options.decoding_problems.join(", ");
            return Err(Status::bad_request(format!("error strict decoding YAML: {problems}")));
        }
        keep_own_part(place, &mut applied);
        let key = place.key();
        let old = self.get(&key);
        let mut live = old.as_ref().map(|old| old.value_as(&place.api_version()));
        let merged = self.merge(place, live.as_mut(), &applied, options)?;
        match old.zip(live) {
            Some((old, live)) => {
                let mut merged = merged;
                check_preconditions(place, &old, &mut merged)?;
                // What apply decided about managed fields stands; only a subresource write takes them over.
                let managed = clear(&mut merged);
                let before = stored_form(&old, live);
                self.replace(place, key, (&old, &before), merged, |_, _, _, new| {
                    if let Some(managed) = managed {
                        meta::metadata_mut(new).insert("managedFields".into(), managed);
                    }
                })
            }
            None => {
                if !place.subresource.is_empty() {
                    return Err(place.not_found());
                }
                let uid = applied.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Status::conflict(&place.definition.name, &place.name, &why));
                }
                self.create_decoded(place, merged, |_, _, _| {})
            }
        }
    }

    fn merge(
        &self,
        place: &Place,
        live: Option<&mut Value>,
        applied: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let api_version = place.api_version();
        let manager = Manager {
            name: &options.field_manager,
            operation: Operation::Apply,
            api_version: &api_version,
            subresource: &place.subresource,
        };
        let force = options.force == Some(true);
        let schema = place.version.schema();
        merge::server_side_apply(&schema, live, applied, &manager, force, self.now)
            .map_err(|error| apply_refused(&error))
    }
}

/// An object as it is stored, when it is known already as a request sees it: in most cases that is the same.
fn stored_form(object: &Object, live: Value) -> Value {
    match live.get("apiVersion").and_then(Value::as_str) == Some(object.api_version()) {
        true => live,
        false => object.value(),
    }
}

/// The result of the three patch forms that need nothing but the object.
pub(super) fn patched(
    schema: &crate::schema::Schema,
    kind: PatchKind,
    live: &Value,
    body: &Value,
) -> Result<Value, Status> {
    let result = match kind {
        PatchKind::Json => patch::json_patch(live, body),
        PatchKind::Merge => patch::merge_patch(live, body),
        PatchKind::Strategic | PatchKind::Apply => patch::strategic_merge_patch(schema, live, body),
    };
    result.map_err(|error| match error {
        PatchError::Malformed(message) => Status::bad_request(message),
        PatchError::Unprocessable(message) => {
            let mut status = Status::generic(
                422,
                Reason::Invalid,
                "the server rejected our request due to an error in our request",
            );
            status.causes.push(StatusCause { message, ..StatusCause::default() });
            status
        }
        PatchError::TooLarge(message) => {
            Status::new(413, Reason::RequestEntityTooLarge, format!("Request entity too large: {message}"))
        }
    })
}

/// A patch may not turn the object into another one.
fn check_result(place: &Place, live: &Value, new: &mut Value) -> Result<(), Status> {
    if !new.is_object() {
        return Err(patch_refused(new, "the patched object is not a JSON object"));
    }
    for field in ["apiVersion", "kind"] {
        if new.get(field) != live.get(field) {
            let expected = live.get(field).and_then(Value::as_str).unwrap_or_default();
            return Err(patch_refused(new, &format!("{field} must be {expected}")));
        }
    }
    body::check_name(place, new)?;
    body::check_namespace(place, new)
}

fn check_options(kind: PatchKind, options: &WriteOptions) -> Result<(), Status> {
    let refuse = |error| Err(Status::invalid_fields("PatchOptions.meta.k8s.io", "", vec![error]));
    check_manager(options, "PatchOptions.meta.k8s.io")?;
    if kind == PatchKind::Apply && options.field_manager.is_empty() {
        return refuse(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if kind != PatchKind::Apply && options.force.is_some() {
        return refuse(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    Ok(())
}

/// An applied configuration must say what it is, and be what the URL says.
fn check_applied(place: &Place, applied: &mut Value) -> Result<(), Status> {
    if !applied.is_object() {
        return Err(Status::bad_request("error decoding YAML: the configuration is not an object"));
    }
    let (api_version, kind) =
        (crate::object::text(applied, "apiVersion"), crate::object::text(applied, "kind"));
    if api_version.is_empty() || kind != place.definition.kind {
        let shown = merge::shown_kind(api_version, kind);
        return Err(Status::bad_request(format!("invalid object type: {shown}")));
    }
    body::check_kind(place, applied)?;
    let metadata = meta::metadata_mut(applied);
    if metadata.get("name").is_none_or(Value::is_null) {
        metadata.insert("name".into(), place.name.as_str().into());
    }
    body::check_name(place, applied)?;
    body::check_namespace(place, applied)
}

/// The main door cannot own the status, the status door cannot own anything else.
fn keep_own_part(place: &Place, applied: &mut Value) {
    let map = meta::as_map(applied);
    match place.subresource.as_str() {
        "status" => {
            map.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            let identity = ["name", "namespace", "uid", "resourceVersion", "managedFields"];
            meta::metadata_mut(applied).retain(|field, _| identity.contains(&field.as_str()));
        }
        _ if place.version.status => {
            map.remove("status");
        }
        _ => {}
    }
}

fn apply_refused(error: &ApplyError) -> Status {
    match error {
        ApplyError::Conflicts(conflicts) => {
            let mut status = Status::new(409, Reason::Conflict, error.to_string());
            status.causes = conflicts
                .iter()
                .map(|conflict| {
                    let message = format!("conflict with {}", conflict.owner());
                    StatusCause::field("FieldManagerConflict", conflict.field.as_str(), message)
                })
                .collect();
            status
        }
        // kube answers some of these with 500; but the mistake is the client's.
        ApplyError::Invalid(message) => Status::bad_request(message.as_str()),
    }
}
