//! The course of a write: resolve, run the verb, and keep or undo what it did to the batch.
//!
//! The order inside a write is: decode, field validation, prune, default, metadata, validate, managed fields,
//! generation and version.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::options::WriteOptions;
use super::{Answer, Batch, Change, Ids, Key, Model, Outcome, PatchKind, Request, Target, Verb};
use crate::managed::{Manager, Operation};
use crate::meta;
use crate::object::{Object, events, text};
use crate::registry::{Definition, Version};
use crate::status::{Reason, Status};

/// What a request addresses, resolved.
pub(super) struct Place {
    pub(super) definition: Arc<Definition>,
    pub(super) version: Arc<Version>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl Place {
    pub(super) fn api_version(&self) -> String {
        self.definition.api_version(&self.version.name)
    }

    pub(super) fn key(&self) -> Key {
        self.key_of(&self.name)
    }

    pub(super) fn key_of(&self, name: &str) -> Key {
        Key::new(Arc::clone(&self.definition.name), &self.namespace, name)
    }

    pub(super) fn is(&self, resource: &str) -> bool {
        &*self.definition.name == resource
    }

    pub(super) fn not_found(&self) -> Status {
        Status::not_found(&self.definition.name, &self.name)
    }

    pub(super) fn invalid(&self, name: &str, errors: Vec<crate::schema::FieldError>) -> Status {
        Status::invalid_fields(&self.definition.group_kind(), name, errors)
    }

    pub(super) fn unsupported(&self) -> Status {
        let message = "the server does not allow this method on the requested resource";
        Status::generic(405, Reason::MethodNotAllowed, message)
    }
}

/// One request at work on a batch.
pub(super) struct Work<'a> {
    pub(super) model: &'a Model,
    pub(super) batch: &'a mut Batch,
    pub(super) now: Timestamp,
    pub(super) ids: &'a mut dyn Ids,
    pub(super) warnings: Vec<String>,
}

pub(super) fn prepare(
    model: &Model,
    batch: &mut Batch,
    request: Request,
    now: Timestamp,
    ids: &mut dyn Ids,
) -> Result<Outcome, Status> {
    let mark = Mark { changes: batch.changes.len(), rv: batch.rv, registry: Arc::clone(&batch.registry) };
    let dry_run = match &request.verb {
        Verb::Create { options, .. } | Verb::Update { options, .. } | Verb::Patch { options, .. } => {
            options.dry_run
        }
        Verb::Delete { options } | Verb::DeleteCollection { options, .. } => options.dry_run,
    };
    let mut work = Work { model, batch, now, ids, warnings: Vec::new() };
    let result = work.run(request);
    let warnings = std::mem::take(&mut work.warnings);
    let change = batch.changes.get(mark.changes);
    let before = change.and_then(|change| change.old.as_ref()).map(|old| old.resource_version());
    if dry_run || result.is_err() {
        mark.undo(batch);
    }
    let mut outcome = result?;
    if dry_run {
        hide_version(&mut outcome, batch.rv, before);
    }
    outcome.warnings.extend(warnings);
    Ok(outcome)
}

/// A dry run gives out no version: new objects show none, changed ones that of the stored state.
fn hide_version(outcome: &mut Outcome, rv: u64, before: Option<u64>) {
    let Answer::Object { object, api_version } = &outcome.body else { return };
    if object.resource_version() <= rv {
        return;
    }
    let mut value = object.value_as(api_version);
    match before {
        Some(version) => value = meta::with_version(value, version),
        None => drop(meta::metadata_mut(&mut value).remove("resourceVersion")),
    }
    outcome.body = Answer::Value(value);
}

/// Where a batch stood before a request.
struct Mark {
    changes: usize,
    rv: u64,
    registry: Arc<crate::registry::Registry>,
}

impl Mark {
    fn undo(self, batch: &mut Batch) {
        while batch.changes.len() > self.changes {
            if let Some(change) = batch.changes.pop() {
                batch.overlay.insert(change.key, change.old);
            }
        }
        batch.rv = self.rv;
        batch.registry = self.registry;
    }
}

impl Work<'_> {
    fn run(&mut self, mut request: Request) -> Result<Outcome, Status> {
        let alias = request.target.group == "events.k8s.io" && request.target.resource == "events";
        if alias {
            to_core_event(&mut request);
        }
        let mut outcome = self.run_resolved(request)?;
        if alias && let Answer::Object { api_version, .. } = &mut outcome.body {
            *api_version = events::ALIAS_VERSION.into();
        }
        Ok(outcome)
    }

    fn run_resolved(&mut self, request: Request) -> Result<Outcome, Status> {
        let place = self.resolve(request.target)?;
        match request.verb {
            Verb::Create { body, options } => self.create(&place, body, &options),
            Verb::Update { body, options } => self.update(&place, body, &options),
            Verb::Patch { kind, body, options } => self.patch(&place, kind, body, &options),
            Verb::Delete { options } => self.delete(&place, &options),
            Verb::DeleteCollection { list, options } => self.delete_collection(&place, &list, &options),
        }
    }

    fn resolve(&mut self, target: Target) -> Result<Place, Status> {
        let (definition, version) =
            self.batch.registry.resolve(&target.group, &target.version, &target.resource)?;
        if let Some(warning) = &version.deprecation {
            self.warnings.push(warning.clone());
        }
        let known = match target.subresource.as_str() {
            "" => true,
            "status" => version.status,
            "scale" => version.scale.is_some(),
            other => version.subresources.iter().any(|s| s == other),
        };
        if !known && definition.custom {
            return Err(Status::not_found(&definition.name, &target.name));
        }
        if !known {
            return Err(Status::no_such_resource());
        }
        let namespace = if definition.namespaced { target.namespace } else { String::new() };
        Ok(Place { definition, version, namespace, name: target.name, subresource: target.subresource })
    }

    /// The state of an object as this batch leaves it.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        match self.batch.overlay.get(key) {
            Some(entry) => entry.clone(),
            None => self.model.object(key).cloned(),
        }
    }

    /// The places and objects of one resource in a namespace (all when empty), in order, as this batch leaves them.
    pub(super) fn objects(&self, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let overlaid = self.batch.overlay.iter().filter(|(key, _)| {
            &*key.resource == resource && (namespace.is_empty() || key.namespace == namespace)
        });
        let mut merged: std::collections::BTreeMap<String, Arc<Object>> = std::collections::BTreeMap::new();
        let mut hidden: std::collections::BTreeSet<String> = std::collections::BTreeSet::new();
        for (key, object) in overlaid {
            hidden.insert(key.place());
            if let Some(object) = object {
                merged.insert(key.place(), Arc::clone(object));
            }
        }
        if let Some(collection) = self.model.collection(resource) {
            if hidden.is_empty() {
                return collection.range(namespace, None).map(|(_, object)| Arc::clone(object)).collect();
            }
            for (place, object) in collection.range(namespace, None) {
                if !hidden.contains(place) {
                    merged.insert(place.to_owned(), Arc::clone(object));
                }
            }
        }
        merged.into_values().collect()
    }

    /// Stores a new state: gives it the next version and the storage `apiVersion`.
    pub(super) fn put(
        &mut self,
        key: Key,
        definition: &Definition,
        old: Option<Arc<Object>>,
        mut value: Value,
    ) -> Arc<Object> {
        self.batch.rv += 1;
        let rv = self.batch.rv;
        if let Value::Object(map) = &mut value {
            map.insert("apiVersion".into(), definition.storage_api_version().into());
        }
        meta::metadata_mut(&mut value).insert("resourceVersion".into(), rv.to_string().into());
        let object = Arc::new(Object::new(&value));
        let new = Some(Arc::clone(&object));
        self.record(Change { key, rv, old, new, last: None });
        object
    }

    /// Removes an object; the answer is its last state, carrying the version of the removal.
    pub(super) fn remove(&mut self, key: Key, old: Arc<Object>, last: Option<Value>) -> Arc<Object> {
        self.batch.rv += 1;
        let rv = self.batch.rv;
        let last = meta::with_version(last.unwrap_or_else(|| old.value()), rv);
        let last = Arc::new(Object::new(&last));
        self.record(Change { key, rv, old: Some(old), new: None, last: Some(Arc::clone(&last)) });
        last
    }

    fn record(&mut self, change: Change) {
        self.batch.overlay.insert(change.key.clone(), change.new.clone());
        self.batch.changes.push(change);
    }

    pub(super) fn answer(&self, place: &Place, code: u16, object: Arc<Object>) -> Outcome {
        let body = Answer::Object { object, api_version: place.api_version() };
        Outcome { code, body, warnings: Vec::new() }
    }

    /// A plain writer's entry in the managed fields.
    pub(super) fn track(&self, place: &Place, old: Option<&Value>, new: &mut Value, options: &WriteOptions) {
        let api_version = place.api_version();
        let manager = Manager {
            name: manager_name(options),
            operation: Operation::Update,
            api_version: &api_version,
            subresource: &place.subresource,
        };
        crate::managed::track_update(&place.version.schema(), old, new, &manager, self.now);
    }
}

/// A write through the second door of events, as one through the first.
fn to_core_event(request: &mut Request) {
    request.target.group.clear();
    match &mut request.verb {
        Verb::Create { body, .. } | Verb::Update { body, .. } => events::to_core(body),
        Verb::Patch { kind: PatchKind::Json, body, .. } => events::patch_to_core(body),
        Verb::Patch { body, .. } => events::to_core(body),
        Verb::Delete { .. } | Verb::DeleteCollection { .. } => {}
    }
}

/// `fieldManager`, or what the user agent calls itself.
pub(super) fn manager_name(options: &WriteOptions) -> &str {
    if !options.field_manager.is_empty() {
        return &options.field_manager;
    }
    let agent = options.user_agent.split('/').next().unwrap_or_default();
    let cut = agent.char_indices().nth(128).map_or(agent.len(), |(index, _)| index);
    agent.get(..cut).unwrap_or_default()
}

/// Whether two states differ only in times of managed fields.
pub(super) fn same(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    if old.len() != new.len() {
        return false;
    }
    old.iter().all(|(field, before)| match (field.as_str(), new.get(field)) {
        (_, None) => false,
        ("metadata", Some(after)) => same_metadata(before, after),
        // The stored version and the version of the request differ in nothing else.
        ("apiVersion", Some(_)) => true,
        (_, Some(after)) => before == after,
    })
}

fn same_metadata(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
    old.len() == new.len()
        && old.iter().all(|(field, before)| match (field.as_str(), new.get(field)) {
            (_, None) => false,
            ("managedFields", Some(after)) => same_managed(before, after),
            (_, Some(after)) => before == after,
        })
}

fn same_managed(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_array(), new.as_array()) else { return old == new };
    old.len() == new.len()
        && old.iter().zip(new).all(|(before, after)| {
            let fields = ["manager", "operation", "apiVersion", "subresource"];
            fields.iter().all(|field| text(before, field) == text(after, field))
                && before.get("fieldsV1") == after.get("fieldsV1")
        })
}
