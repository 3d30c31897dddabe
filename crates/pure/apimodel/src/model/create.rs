//! Creating objects.

use std::sync::Arc;

use serde_json::Value;

use super::body::{self, Door};
use super::builtins;
use super::options::WriteOptions;
use super::pipeline::{Place, Work};
use super::{Key, Outcome};
use crate::builtin;
use crate::meta;
use crate::object::text;
use crate::registry::CRD_RESOURCE;
use crate::schema::{self, Cause, FieldError};
use crate::status::{Status, StatusCause, quoted};

/// How often a generated name is tried before giving up.
const NAME_ATTEMPTS: usize = 8;

impl Work<'_> {
    pub(super) fn create(
        &mut self,
        place: &Place,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        if !place.subresource.is_empty() || !place.name.is_empty() {
            return Err(place.unsupported());
        }
        check_manager(options, "CreateOptions.meta.k8s.io")?;
        body::check_kind(place, &mut object)?;
        body::prune(place, &mut object, options, Door::Object, &mut self.warnings)?;
        self.create_decoded(place, object, |work, place, object| {
            work.track(place, None, object, options);
        })
    }

    /// The rest of a create, for POST, for apply and for PUT where it may create.
    pub(super) fn create_decoded(
        &mut self,
        place: &Place,
        mut object: Value,
        track: impl FnOnce(&Self, &Place, &mut Value),
    ) -> Result<Outcome, Status> {
        let sent_version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let versioned = sent_version.is_some_and(|v| !v.is_empty() && v != "0");
        apply_defaults(place, &mut object)?;
        body::check_namespace(place, &mut object)?;
        if place.version.status
            && let Value::Object(map) = &mut object
        {
            map.remove("status");
        }
        builtins::forget_additions(place, &mut object);
        // What the server adds below belongs to nobody.
        track(self, place, &mut object);
        let generated = self.give_identity(place, &mut object);
        self.admit_to_namespace(place, &object)?;
        builtins::prepare_new(place, &mut object);
        let name = text(object.get("metadata").unwrap_or(&Value::Null), "name").to_owned();
        if place.definition.terminating {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(Status::forbidden(&place.definition.name, &name, why));
        }
        validate_new(place, &name, &object)?;
        if place.definition.custom {
            self.warnings.extend(meta::finalizer_warnings(&object, None));
        }
        if versioned {
            let message = "resourceVersion should not be set on objects to be created";
            // kube answers with 500; but the mistake is the client's.
            return Err(Status::bad_request(message));
        }
        let key = place.key_of(&name);
        if let Some(other) = self.get(&key) {
            let mut status = if generated {
                Status::generate_name_conflict(&place.definition.name, &name)
            } else {
                Status::already_exists(&place.definition.name, &name)
            };
            if other.terminating() {
                status.message.insert_str(0, "object is being deleted: ");
            }
            return Err(status);
        }
        self.store_new(place, key, object)
    }

    fn store_new(&mut self, place: &Place, key: Key, object: Value) -> Result<Outcome, Status> {
        if place.is(CRD_RESOURCE) {
            let stored = self.put_crd(place, key, None, object)?;
            return Ok(self.answer(place, 201, stored));
        }
        let definition = Arc::clone(&place.definition);
        let stored = self.put(key, &definition, None, object);
        Ok(self.answer(place, 201, stored))
    }

    /// Sets name, uid and time; true if the name was generated.
    fn give_identity(&mut self, place: &Place, object: &mut Value) -> bool {
        let mut generated = false;
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let prefix = text(metadata, "generateName").to_owned();
        let mut name = text(metadata, "name").to_owned();
        if name.is_empty() && !prefix.is_empty() {
            generated = true;
            // Names are at most 63 characters so that they can be used as labels; five are ours.
            let cut = prefix.char_indices().nth(58).map_or(prefix.len(), |(index, _)| index);
            let stem = prefix.get(..cut).unwrap_or_default();
            for _ in 0..NAME_ATTEMPTS {
                name = format!("{stem}{}", self.ids.suffix());
                if self.get(&place.key_of(&name)).is_none() {
                    break;
                }
            }
        }
        let uid = self.ids.uid();
        let stamp = meta::stamp(self.now);
        let metadata = meta::metadata_mut(object);
        if !name.is_empty() {
            metadata.insert("name".into(), name.into());
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), stamp.into());
        for field in
            ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"]
        {
            metadata.remove(field);
        }
        if place.definition.has_generation {
            metadata.insert("generation".into(), 1.into());
        }
        generated
    }

    /// The namespace must exist and must not be on its way out.
    fn admit_to_namespace(&self, place: &Place, object: &Value) -> Result<(), Status> {
        if !place.definition.namespaced || place.namespace.is_empty() {
            return Ok(());
        }
        let Some(namespace) = self.get(&Key::new("namespaces", "", &place.namespace)) else {
            return Err(Status::not_found("namespaces", &place.namespace));
        };
        if !namespace.terminating() {
            return Ok(());
        }
        let name = text(object.get("metadata").unwrap_or(&Value::Null), "name");
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            place.namespace
        );
        let cause = StatusCause::field(
            "NamespaceTerminating",
            "metadata.namespace",
            format!("namespace {} is being terminated", place.namespace),
        );
        Err(Status::forbidden(&place.definition.name, name, &why).because(cause))
    }
}

/// Schema defaults and those of the kind.
pub(super) fn apply_defaults(place: &Place, object: &mut Value) -> Result<(), Status> {
    builtins::normalise(place, object)?;
    meta::drop_empty(object);
    match place.version.builtin() {
        Some(kind) => builtin::apply_defaults(kind, object),
        None => schema::apply_defaults(&place.version.schema(), object),
    }
    Ok(())
}

/// `fieldManager` must be short and printable.
pub(super) fn check_manager(options: &WriteOptions, kind: &str) -> Result<(), Status> {
    let name = &options.field_manager;
    if name.len() > 128 {
        return Err(Status::invalid_fields(kind, "", vec![FieldError::too_long("fieldManager", 128)]));
    }
    if let Some((position, c)) = name.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
        let error = FieldError::invalid("fieldManager", &name.as_str().into(), &detail);
        return Err(Status::invalid_fields(kind, "", vec![error]));
    }
    Ok(())
}

fn validate_new(place: &Place, name: &str, object: &Value) -> Result<(), Status> {
    let mut errors = meta::problems(object, place.definition.namespaced, place.definition.name_rule);
    let content = schema::validate(&place.version.schema(), object, None);
    refuse_types(place, &content)?;
    errors.extend(content);
    if let Some(kind) = place.version.builtin() {
        errors.extend(meta::unqualified_finalizers(object));
        errors.extend(builtin::validate(kind, object, None));
    }
    if errors.is_empty() { Ok(()) } else { Err(place.invalid(name, errors)) }
}

/// A value of the wrong type in a built-in kind, or in metadata, never gets past kube's decoder: 400, not 422.
pub(super) fn refuse_types(place: &Place, errors: &[FieldError]) -> Result<(), Status> {
    let decoded = |error: &FieldError| !place.definition.custom || error.path.starts_with("metadata");
    let found = errors.iter().find(|e| e.reason == Cause::TypeInvalid && decoded(e));
    let Some(error) = found else { return Ok(()) };
    Err(Status::bad_request(format!(
        "{kind} in version {} cannot be handled as a {kind}: {error}",
        quoted(&place.version.name),
        kind = place.definition.kind
    )))
}
