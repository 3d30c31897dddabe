//! Replacing objects, and what every change of an existing object goes through.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::body::{self, Door};
use super::builtins;
use super::create::{apply_defaults, check_manager, refuse_types};
use super::options::WriteOptions;
use super::pipeline::{Place, Work, same};
use super::{Key, Outcome};
use crate::builtin;
use crate::meta;
use crate::object::{Object, parse_resource_version, text};
use crate::registry::CRD_RESOURCE;
use crate::schema::{self, FieldError};
use crate::status::Status;

impl Work<'_> {
    pub(super) fn update(
        &mut self,
        place: &Place,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Outcome, Status> {
        if place.name.is_empty() {
            return Err(place.unsupported());
        }
        check_manager(options, "UpdateOptions.meta.k8s.io")?;
        if place.subresource == "scale" {
            return self.update_scale(place, &object, options);
        }
        body::check_kind(place, &mut object)?;
        body::check_name(place, &mut object)?;
        body::prune(place, &mut object, options, Door::Object, &mut self.warnings)?;
        let key = place.key();
        let Some(old) = self.get(&key) else {
            if !place.definition.create_on_update || !place.subresource.is_empty() {
                return Err(place.not_found());
            }
            let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            if !uid.is_empty() {
                return Err(place.not_found());
            }
            return self.create_decoded(place, object, |work, place, object| {
                work.track(place, None, object, options)
            });
        };
        body::check_namespace(place, &mut object)?;
        check_uid(place, &old, &object)?;
        check_preconditions(place, &old, &mut object)?;
        self.replace(place, key, (&old, &old.value()), object, |work, place, old, new| {
            work.track(place, Some(old), new, options);
        })
    }

    /// Takes `new` in for `old`, which `before` is the parsed form of: the common path of PUT, PATCH and apply.
    pub(super) fn replace(
        &mut self,
        place: &Place,
        key: Key,
        (old, before): (&Arc<Object>, &Value),
        mut new: Value,
        track: impl FnOnce(&Self, &Place, &Value, &mut Value),
    ) -> Result<Outcome, Status> {
        apply_defaults(place, &mut new)?;
        keep_server_fields(before, &mut new);
        match place.subresource.as_str() {
            "status" => keep_all_but_status(before, &mut new),
            "finalize" => keep_all_but_finalizers(before, &mut new),
            _ => {
                if place.version.status {
                    keep_field(before, &mut new, "status");
                }
                builtins::prepare_update(place, before, &mut new);
                bump_generation(place, before, &mut new);
            }
        }
        validate_update(place, before, &new)?;
        if place.definition.custom {
            self.warnings.extend(meta::finalizer_warnings(&new, Some(before)));
        }
        track(self, place, before, &mut new);
        let unchanged = same(before, &new);
        self.store(place, key, old, new, unchanged)
    }

    /// Keeps a changed state; a state without a change keeps its version, and one without reasons to live goes.
    fn store(
        &mut self,
        place: &Place,
        key: Key,
        old: &Arc<Object>,
        new: Value,
        unchanged: bool,
    ) -> Result<Outcome, Status> {
        let storage = place.definition.storage_api_version();
        if unchanged && old.api_version() == storage {
            if should_go(place, &new) {
                let last = self.finish_removal(place, key, Arc::clone(old), None);
                return Ok(self.answer(place, 200, last));
            }
            return Ok(self.answer(place, 200, Arc::clone(old)));
        }
        if should_go(place, &new) {
            // The writer sees the state that it wrote, with the version that it replaced.
            let written = Object::new(&meta::with_version(new.clone(), old.resource_version()));
            self.finish_removal(place, key, Arc::clone(old), Some(new));
            return Ok(self.answer(place, 200, Arc::new(written)));
        }
        if place.is(CRD_RESOURCE) {
            let stored = self.put_crd(place, key, Some(Arc::clone(old)), new)?;
            return Ok(self.answer(place, 200, stored));
        }
        let definition = Arc::clone(&place.definition);
        let stored = self.put(key, &definition, Some(Arc::clone(old)), new);
        Ok(self.answer(place, 200, stored))
    }

    /// Removes an object and what the registry knows through it.
    pub(super) fn finish_removal(
        &mut self,
        place: &Place,
        key: Key,
        old: Arc<Object>,
        last: Option<Value>,
    ) -> Arc<Object> {
        let name = key.name.clone();
        let last = self.remove(key, old, last);
        if place.is(CRD_RESOURCE) {
            self.forget_crd(&name);
        }
        last
    }
}

/// A whole object that carries another uid is meant for another object.
pub(super) fn check_uid(place: &Place, old: &Object, object: &Value) -> Result<(), Status> {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    if uid.is_empty() || uid == old.uid() {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {}", old.uid());
    Err(Status::conflict(&place.definition.name, &place.name, &why))
}

/// The version that a writer sends must be the one that is stored.
pub(super) fn check_preconditions(place: &Place, old: &Object, object: &mut Value) -> Result<(), Status> {
    let (resource, name) = (&*place.definition.name, place.name.as_str());
    let metadata = meta::metadata_mut(object);
    let sent = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    if sent.is_empty() || sent == "0" {
        if place.definition.unconditional_update || !place.subresource.is_empty() && !place.definition.custom
        {
            metadata.insert("resourceVersion".into(), old.resource_version().to_string().into());
            return Ok(());
        }
        let error =
            FieldError::invalid("metadata.resourceVersion", &0.into(), "must be specified for an update");
        return Err(Status::invalid_fields(resource, name, vec![error]));
    }
    let Ok(version) = parse_resource_version(sent) else {
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &sent.into(),
            &format!("strconv.ParseUint: parsing {}: invalid syntax", crate::status::quoted(sent)),
        );
        return Err(place.invalid(name, vec![error]));
    };
    if version != old.resource_version() {
        return Err(Status::modified(resource, name));
    }
    Ok(())
}

/// What an update cannot change.
fn keep_server_fields(old: &Value, new: &mut Value) {
    let Some(before) = old.get("metadata").and_then(Value::as_object) else { return };
    let metadata = meta::metadata_mut(new);
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        match before.get(field) {
            Some(value) => metadata.insert(field.into(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.remove("selfLink");
    for field in ["uid", "generateName"] {
        let sent = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(value) = before.get(field)
            && sent.is_empty()
        {
            metadata.insert(field.into(), value.clone());
        }
    }
}

fn keep_field(old: &Value, new: &mut Value, field: &str) {
    let map = meta::as_map(new);
    match old.get(field) {
        Some(value) => {
            map.insert(field.into(), value.clone());
        }
        None => {
            map.remove(field);
        }
    }
}

/// Most of it is the same already, and comparing costs less than a copy.
fn keep_all_but_status(old: &Value, new: &mut Value) {
    let is_new = |field: &str| matches!(field, "status" | "apiVersion");
    let Some(before) = old.as_object() else { return };
    let after = meta::as_map(new);
    after.retain(|field, _| is_new(field) || before.contains_key(field));
    for (field, value) in before.iter().filter(|(field, _)| !is_new(field)) {
        if after.get(field) != Some(value) {
            after.insert(field.clone(), value.clone());
        }
    }
}

fn keep_all_but_finalizers(old: &Value, new: &mut Value) {
    let finalizers = new.pointer("/spec/finalizers").cloned();
    let mut kept = old.clone();
    restore_api_version(new, &mut kept);
    let spec = meta::child_map(&mut kept, "spec");
    match finalizers {
        Some(finalizers) => spec.insert("finalizers".into(), finalizers),
        None => spec.remove("finalizers"),
    };
    *new = kept;
}

/// The stored object may be in another version than the request.
fn restore_api_version(new: &Value, kept: &mut Value) {
    if let Some(version) = new.get("apiVersion") {
        meta::as_map(kept).insert("apiVersion".into(), version.clone());
    }
}

/// Everything but metadata counts; the status is equal by now where it has a door of its own.
fn bump_generation(place: &Place, old: &Value, new: &mut Value) {
    if !place.definition.has_generation || place.subresource == "status" {
        return;
    }
    let empty = Map::new();
    let (before, after) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let skip = |field: &str| matches!(field, "metadata" | "apiVersion" | "kind");
    let fields = |map: &Map<String, Value>| map.keys().filter(|f| !skip(f)).count();
    let mut changed = fields(before) != fields(after)
        || before.iter().any(|(field, value)| !skip(field) && after.get(field) != Some(value));
    if place.is("deployments.apps") {
        changed |= old.pointer("/metadata/annotations") != new.pointer("/metadata/annotations");
    }
    if changed {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        meta::metadata_mut(new).insert("generation".into(), generation.saturating_add(1).into());
    }
}

fn validate_update(place: &Place, old: &Value, new: &Value) -> Result<(), Status> {
    let mut errors = meta::update_problems(new, old);
    let content = schema::validate(&place.version.schema(), new, Some(old));
    refuse_types(place, &content)?;
    errors.extend(content);
    if let Some(kind) = place.version.builtin() {
        if new.pointer("/metadata/finalizers") != old.pointer("/metadata/finalizers") {
            errors.extend(meta::unqualified_finalizers(new));
        }
        errors.extend(builtin::validate(kind, new, Some(old)));
    }
    if errors.is_empty() { Ok(()) } else { Err(place.invalid(&place.name, errors)) }
}

/// A terminating object without finalizers has nothing to wait for.
fn should_go(place: &Place, new: &Value) -> bool {
    let metadata = new.get("metadata").unwrap_or(&Value::Null);
    if text(metadata, "deletionTimestamp").is_empty() || meta::finalizers(metadata).next().is_some() {
        return false;
    }
    let grace = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
    let held = place.is("namespaces")
        && new.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty());
    grace == 0 && !held
}
