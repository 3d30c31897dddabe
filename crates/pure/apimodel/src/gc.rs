//! Garbage collection as decisions: which deletes and patches follow from what happened.
//!
//! The [`Collector`] is told every committed change and keeps a queue of objects to look at. The shell asks it for
//! requests, submits them (they carry preconditions, so a stale decision is refused), and asks again. Besides owner
//! references it drives the end of terminating namespaces and CRDs. It only reads the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::{
    Change, DeleteOptions, Key, Model, PatchKind, Propagation, Request, Target, Verb, WriteOptions,
};
use crate::namespace;
use crate::object::{Object, OwnerReference, text};
use crate::registry::{CRD_RESOURCE, Definition, crd};

#[cfg(test)]
mod tests;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Who names whom as an owner: owner uid → dependents.
#[derive(Debug, Default)]
pub struct OwnerIndex {
    dependents: BTreeMap<String, BTreeSet<Key>>,
}

impl OwnerIndex {
    /// The objects that name this uid as an owner.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    pub(crate) fn update(&mut self, key: &Key, old: Option<&Arc<Object>>, new: Option<&Arc<Object>>) {
        let uids = |object: Option<&'_ Arc<Object>>| -> BTreeSet<String> {
            object.into_iter().flat_map(|o| o.owner_references()).map(|r| r.uid.to_string()).collect()
        };
        let (before, after) = (uids(old), uids(new));
        for uid in before.difference(&after) {
            if let Some(set) = self.dependents.get_mut(uid) {
                set.remove(key);
                if set.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after.difference(&before) {
            self.dependents.entry(uid.clone()).or_default().insert(key.clone());
        }
    }
}

/// Objects to look at, and what to do about them.
#[derive(Debug, Default)]
pub struct Collector {
    queue: BTreeSet<Key>,
    /// Terminating CRDs wait until the rest is done: while they are served, dependents of their objects can be judged.
    crds: BTreeSet<Key>,
}

impl Collector {
    /// A collector that looks at everything once, as after a restart.
    pub fn new(model: &Model) -> Collector {
        let mut collector = Collector::default();
        for (resource, collection) in model.collections() {
            for object in collection.iter() {
                let concerns = object.terminating() || object.owner_references().next().is_some();
                if concerns {
                    collector.retry(Key::new(Arc::clone(resource), object.namespace(), object.name()));
                }
            }
        }
        collector
    }

    /// Whether there is anything to look at.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.crds.is_empty()
    }

    /// Takes note of a committed change; call it after [`Model::commit`].
    pub fn observe(&mut self, model: &Model, change: &Change) {
        if let Some(new) = &change.new {
            if new.terminating() || new.owner_references().next().is_some() {
                self.retry(change.key.clone());
            }
            if new.terminating() {
                self.queue_owners(model, new);
            }
            if let Some(old) = &change.old
                && !old.owner_references().eq(new.owner_references())
            {
                self.queue_owners(model, old);
            }
            return;
        }
        let Some(old) = &change.old else { return };
        self.queue.extend(model.owners().dependents(old.uid()).cloned());
        self.queue_owners(model, old);
        if !change.key.namespace.is_empty() {
            self.queue_if_terminating(model, Key::new("namespaces", "", &change.key.namespace));
        }
        if change.key.resource.contains('.') {
            self.queue_if_terminating(model, Key::new(CRD_RESOURCE, "", &change.key.resource));
        }
    }

    fn queue_if_terminating(&mut self, model: &Model, key: Key) {
        if model.object(&key).is_some_and(|o| o.terminating()) {
            self.retry(key);
        }
    }

    /// An owner that waits for its dependents wants to know that one of them changed or went.
    fn queue_owners(&mut self, model: &Model, dependent: &Object) {
        for reference in dependent.owner_references() {
            if let Some(key) = owner_key(model, dependent, reference) {
                self.queue_if_terminating(model, key);
            }
        }
    }

    /// Looks at up to `max` queued objects and says what to do about them.
    ///
    /// An object whose request fails with a conflict should be given back with [`Collector::retry`].
    pub fn decide(&mut self, model: &Model, max: usize) -> Vec<(Key, Request)> {
        let mut requests = Vec::new();
        for _ in 0..max {
            let Some(key) = self.queue.pop_first().or_else(|| self.pop_crd(&requests)) else { break };
            requests.extend(decide_for(model, &key).into_iter().map(|request| (key.clone(), request)));
        }
        requests
    }

    fn pop_crd(&mut self, decided: &[(Key, Request)]) -> Option<Key> {
        if decided.is_empty() { self.crds.pop_first() } else { None }
    }

    /// Looks at an object (again) later.
    pub fn retry(&mut self, key: Key) {
        if &*key.resource == CRD_RESOURCE {
            self.crds.insert(key)
        } else {
            self.queue.insert(key)
        };
    }

    /// The options that housekeeping writes with.
    pub fn options() -> WriteOptions {
        WriteOptions { field_manager: "kube-controller-manager".into(), ..WriteOptions::default() }
    }
}

fn decide_for(model: &Model, key: &Key) -> Vec<Request> {
    let Some(object) = model.object(key) else { return Vec::new() };
    let Some(definition) = model.registry().get(&key.resource) else { return Vec::new() };
    if object.terminating() {
        let finalizers: Vec<&str> = object.finalizers().collect();
        if finalizers.contains(&ORPHAN) {
            return orphan(model, definition, object);
        }
        if finalizers.contains(&FOREGROUND) {
            return foreground(model, definition, object);
        }
        if &*key.resource == "namespaces" {
            return namespace::advance(model, &key.name);
        }
        if &*key.resource == CRD_RESOURCE {
            return clean_up_crd(model, definition, object);
        }
        return Vec::new();
    }
    attempt_to_delete(model, definition, object).into_iter().collect()
}

/// How the owner that a reference names is doing.
enum Owner<'a> {
    Solid,
    Waiting(&'a OwnerReference),
    Absent(&'a OwnerReference),
}

/// Sorts the references of a dependent by the state of their owners; `None` where an owner's kind is not served, or
/// cannot own this object because it is namespaced and the object is not: then nobody can tell, and nothing is done.
fn owners<'a>(model: &Model, object: &'a Object) -> Option<Vec<Owner<'a>>> {
    let mut found = Vec::new();
    for reference in object.owner_references() {
        let definition = model.registry().by_kind(&reference.api_version, &reference.kind)?;
        let key = key_in(definition, object.namespace(), &reference.name)?;
        let owner = model.object(&key).filter(|owner| owner.uid() == &*reference.uid);
        found.push(match owner {
            None => Owner::Absent(reference),
            Some(owner) if owner.terminating() && owner.finalizers().any(|f| f == FOREGROUND) => {
                Owner::Waiting(reference)
            }
            Some(_) => Owner::Solid,
        });
    }
    Some(found)
}

/// Where a reference points; a cluster-scoped dependent cannot have a namespaced owner.
fn key_in(definition: &Definition, namespace: &str, name: &str) -> Option<Key> {
    if definition.namespaced && namespace.is_empty() {
        return None;
    }
    let namespace = if definition.namespaced { namespace } else { "" };
    Some(Key::new(Arc::clone(&definition.name), namespace, name))
}

fn owner_key(model: &Model, dependent: &Object, reference: &OwnerReference) -> Option<Key> {
    let definition = model.registry().by_kind(&reference.api_version, &reference.kind)?;
    key_in(definition, dependent.namespace(), &reference.name)
}

/// An object whose owners are all gone goes; one that has others left loses the dangling references.
fn attempt_to_delete(model: &Model, definition: &Definition, object: &Object) -> Option<Request> {
    let owners = owners(model, object)?;
    if owners.is_empty() {
        return None;
    }
    let solid = owners.iter().any(|o| matches!(o, Owner::Solid));
    let stale: Vec<&str> = owners
        .iter()
        .filter_map(|o| match o {
            Owner::Absent(reference) | Owner::Waiting(reference) => Some(&*reference.uid),
            Owner::Solid => None,
        })
        .collect();
    if solid {
        return if stale.is_empty() { None } else { drop_references(definition, object, &stale) };
    }
    let waiting = owners.iter().any(|o| matches!(o, Owner::Waiting(_)));
    let policy = own_policy(object);
    let has_dependents = model.owners().dependents(object.uid()).next().is_some();
    let policy = match policy {
        // Below a foreground deletion the dependents of dependents go first as well.
        None if waiting && has_dependents => Propagation::Foreground,
        None => Propagation::Background,
        Some(policy) => policy,
    };
    let mut options = DeleteOptions { propagation: Some(policy), ..DeleteOptions::default() };
    options.preconditions.uid = Some(object.uid().to_owned());
    options.preconditions.resource_version = Some(object.resource_version().to_string());
    request_for(definition, object, Verb::Delete { options })
}

/// What an object's own finalizers ask for.
fn own_policy(object: &Object) -> Option<Propagation> {
    object.finalizers().find_map(|f| match f {
        ORPHAN => Some(Propagation::Orphan),
        FOREGROUND => Some(Propagation::Foreground),
        _ => None,
    })
}

/// Dependents that block go first; then the owner loses its finalizer.
fn foreground(model: &Model, definition: &Definition, owner: &Object) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut blocked = false;
    for key in model.owners().dependents(owner.uid()) {
        let Some(dependent) = model.object(key) else { continue };
        let Some(kind) = model.registry().get(&key.resource) else { continue };
        if !points_at(model, dependent, owner) {
            continue;
        }
        blocked |= dependent.owner_references().any(|r| &*r.uid == owner.uid() && r.blocks);
        if !dependent.terminating() {
            requests.extend(attempt_to_delete(model, kind, dependent));
        }
    }
    if !blocked {
        requests.extend(drop_finalizer(definition, owner, FOREGROUND));
    }
    requests
}

/// Dependents lose the reference; then the owner loses its finalizer.
fn orphan(model: &Model, definition: &Definition, owner: &Object) -> Vec<Request> {
    let mut requests = Vec::new();
    for key in model.owners().dependents(owner.uid()) {
        let Some(dependent) = model.object(key) else { continue };
        let Some(kind) = model.registry().get(&key.resource) else { continue };
        if !points_at(model, dependent, owner) {
            continue;
        }
        requests.extend(drop_references(kind, dependent, &[owner.uid()]));
    }
    if requests.is_empty() {
        requests.extend(drop_finalizer(definition, owner, ORPHAN));
    }
    requests
}

/// Whether a dependent's reference really leads to this owner: a reference from another namespace does not.
fn points_at(model: &Model, dependent: &Object, owner: &Object) -> bool {
    let mut references = dependent.owner_references().filter(|r| &*r.uid == owner.uid());
    references.any(|r| {
        owner_key(model, dependent, r)
            .and_then(|key| model.object(&key))
            .is_some_and(|found| found.uid() == owner.uid())
    })
}

/// The objects of a terminating CRD go first; then it loses its finalizer.
fn clean_up_crd(model: &Model, definition: &Definition, object: &Object) -> Vec<Request> {
    if !object.finalizers().any(|f| f == crd::CLEANUP_FINALIZER) {
        return Vec::new();
    }
    let mut requests = Vec::new();
    let collection = model.collection(object.name());
    let left = collection.is_some_and(|c| !c.is_empty());
    if let (Some(collection), Some(kind)) = (collection, model.registry().get(object.name())) {
        for instance in collection.iter().filter(|o| !o.terminating()) {
            let mut options =
                DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            options.preconditions.uid = Some(instance.uid().to_owned());
            requests.extend(request_for(kind, instance, Verb::Delete { options }));
        }
    }
    if !left {
        requests.extend(drop_finalizer(definition, object, crd::CLEANUP_FINALIZER));
    }
    requests
}

fn drop_references(definition: &Definition, object: &Object, gone: &[&str]) -> Option<Request> {
    let metadata = object.metadata();
    let all = metadata.get("ownerReferences").and_then(Value::as_array)?;
    let kept: Vec<&Value> = all.iter().filter(|r| !gone.contains(&text(r, "uid"))).collect();
    let references = if kept.is_empty() { Value::Null } else { json!(kept) };
    merge(definition, object, json!({"ownerReferences": references}))
}

fn drop_finalizer(definition: &Definition, object: &Object, finalizer: &str) -> Option<Request> {
    let kept: Vec<&str> = object.finalizers().filter(|f| *f != finalizer).collect();
    let finalizers = if kept.is_empty() { Value::Null } else { json!(kept) };
    merge(definition, object, json!({"finalizers": finalizers}))
}

/// A merge patch of metadata that holds only for the state that was looked at.
fn merge(definition: &Definition, object: &Object, mut metadata: Value) -> Option<Request> {
    if let Value::Object(map) = &mut metadata {
        map.insert("uid".into(), object.uid().into());
        map.insert("resourceVersion".into(), object.resource_version().to_string().into());
    }
    let verb = Verb::Patch {
        kind: PatchKind::Merge,
        body: json!({"metadata": metadata}),
        options: Collector::options(),
    };
    request_for(definition, object, verb)
}

/// A request about a stored object in a version that is served.
pub(crate) fn request_for(definition: &Definition, object: &Object, verb: Verb) -> Option<Request> {
    let version = definition.served().next()?;
    let target = Target {
        group: definition.group.clone(),
        version: version.name.clone(),
        resource: definition.plural.clone(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        subresource: String::new(),
    };
    Some(Request { target, verb })
}
