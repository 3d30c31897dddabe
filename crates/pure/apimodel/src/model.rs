//! The model: every object, the registry of kinds and the watch log, as one value.
//!
//! There is one writer. It opens a [`Batch`] with [`Model::begin`], prepares any number of requests on top of each
//! other with [`Model::prepare`] (which only reads the model), makes [`Batch::changes`] durable, and publishes them with
//! [`Model::commit`]. Readers and watchers see committed state only, so nobody ever sees a write that could be lost.
//! The model never waits, never reads a clock, and never decides when housekeeping runs (see [`crate::gc`]).

mod body;
mod builtins;
mod crds;
mod create;
mod delete;
mod list;
mod options;
mod patching;
mod pipeline;
mod scale;
mod state;
mod update;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub use self::list::{List, ListOptions, VersionMatch};
pub use self::options::{
    DeleteOptions, FieldValidation, Preconditions, Propagation, WriteOptions, parse_dry_run,
    parse_propagation,
};
pub use self::state::Collection;
use crate::object::{Object, events};
use crate::registry::{Definition, Registry, Version};
use crate::status::Status;
use crate::watch::{Limits, Log};

/// The name of a resource as errors print it: `configmaps`, `deployments.apps`.
pub type ResourceName = Arc<str>;

/// Where one object lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `plural.group`, or `plural` alone for the core group.
    pub resource: ResourceName,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`
    pub name: String,
}

impl Key {
    /// A key from its parts.
    pub fn new(resource: impl Into<ResourceName>, namespace: &str, name: &str) -> Key {
        let mut resource = resource.into();
        if &*resource == events::ALIAS {
            resource = events::CORE.into();
        }
        Key { resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The key inside its collection, in the order in which kube lists: `namespace/name`, or `name`.
    pub fn place(&self) -> String {
        state::place(&self.namespace, &self.name)
    }

    /// A text form that can be stored and read back: `resource/namespace/name`.
    pub fn to_path(&self) -> String {
        format!("{}/{}/{}", self.resource, self.namespace, self.name)
    }

    /// Reads [`Key::to_path`] back.
    pub fn from_path(path: &str) -> Option<Key> {
        let (resource, rest) = path.split_once('/')?;
        let (namespace, name) = rest.split_once('/')?;
        Some(Key::new(resource, namespace, name))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_path())
    }
}

/// What a URL addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version in the URL.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// The namespace, empty for cluster-scoped resources and for lists across namespaces.
    pub namespace: String,
    /// The object's name, empty for the collection.
    pub name: String,
    /// `status`, `scale`, `finalize`, or empty.
    pub subresource: String,
}

impl Target {
    /// `group/version`, or `version` for the core group.
    pub fn api_version(&self) -> String {
        crate::registry::api_version(&self.group, &self.version)
    }
}

/// A write.
#[derive(Clone, Debug)]
pub struct Request {
    /// What it addresses.
    pub target: Target,
    /// What to do there.
    pub verb: Verb,
}

/// The kinds of writes.
#[derive(Clone, Debug)]
pub enum Verb {
    /// POST to the collection.
    Create {
        /// The object as sent.
        body: Value,
        /// Query options.
        options: WriteOptions,
    },
    /// PUT to the object or a subresource.
    Update {
        /// The object as sent.
        body: Value,
        /// Query options.
        options: WriteOptions,
    },
    /// PATCH of the object or a subresource.
    Patch {
        /// Which of the four forms.
        kind: PatchKind,
        /// The patch, parsed (for apply: from YAML or JSON).
        body: Value,
        /// Query options.
        options: WriteOptions,
    },
    /// DELETE of one object.
    Delete {
        /// From the body or the query.
        options: DeleteOptions,
    },
    /// DELETE of a collection.
    DeleteCollection {
        /// Which objects.
        list: ListOptions,
        /// From the body or the query.
        options: DeleteOptions,
    },
}

/// The four patch formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

/// One published step of one object's life.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which object.
    pub key: Key,
    /// The version that this change made; every change has its own.
    pub rv: u64,
    /// The state before.
    pub old: Option<Arc<Object>>,
    /// The state after; `None` when deleted.
    pub new: Option<Arc<Object>>,
    /// For deletions: the last state carrying this change's version, as a DELETED event shows it.
    pub last: Option<Arc<Object>>,
}

/// What a prepared request answers once it is committed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The HTTP status code.
    pub code: u16,
    /// The body.
    pub body: Answer,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A stored object, shown in the version that the URL named.
    Object {
        /// The object.
        object: Arc<Object>,
        /// The version to show it in.
        api_version: String,
    },
    /// Anything else: a `Status`, a `Scale`, a list.
    Value(Value),
}

impl Outcome {
    /// The body as JSON text.
    pub fn json(&self) -> Cow<'_, [u8]> {
        match &self.body {
            Answer::Object { object, api_version } => object.json_as(api_version),
            Answer::Value(value) => Cow::Owned(serde_json::to_vec(value).unwrap_or_default()),
        }
    }

    /// The body as a value.
    pub fn value(&self) -> Cow<'_, Value> {
        match &self.body {
            Answer::Object { object, api_version } => Cow::Owned(object.value_as(api_version)),
            Answer::Value(value) => Cow::Borrowed(value),
        }
    }
}

/// The source of names that must not repeat; the shell gives randomness, tests give a counter.
pub trait Ids {
    /// A new `metadata.uid`.
    fn uid(&mut self) -> String;
    /// Five characters for `generateName`, out of `bcdfghjklmnpqrstvwxz2456789`.
    fn suffix(&mut self) -> String;
}

/// Writes that are decided but not yet durable; later requests of the batch see them.
#[derive(Debug)]
pub struct Batch {
    overlay: BTreeMap<Key, Option<Arc<Object>>>,
    changes: Vec<Change>,
    rv: u64,
    registry: Arc<Registry>,
}

impl Batch {
    /// What to make durable, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The version counter after this batch.
    pub fn resource_version(&self) -> u64 {
        self.rv
    }

    /// Whether nothing was decided.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// Every object, the kinds they belong to, and the recent past.
#[derive(Debug)]
pub struct Model {
    collections: BTreeMap<ResourceName, Collection>,
    owners: crate::gc::OwnerIndex,
    registry: Arc<Registry>,
    log: Log,
    rv: u64,
}

impl Model {
    /// An empty model that serves the built-in kinds.
    pub fn new(limits: Limits) -> Model {
        Model {
            collections: BTreeMap::new(),
            owners: crate::gc::OwnerIndex::default(),
            registry: Arc::new(Registry::builtin()),
            log: Log::new(limits, 1),
            rv: 1,
        }
    }

    /// A model from stored objects; `rv` is the stored counter (the highest version ever given out).
    /// Watches can start at the loaded version, not before it.
    pub fn load(limits: Limits, objects: impl IntoIterator<Item = (Key, Object)>, rv: u64) -> Model {
        let mut model = Model::new(limits);
        let mut top = rv.max(1);
        for (key, object) in objects {
            top = top.max(object.resource_version());
            model.place(&key, None, Some(Arc::new(object)));
        }
        model.rv = top;
        model.log = Log::new(limits, top);
        let registry = Registry::builtin().with_definitions(model.stored_crds());
        model.registry = Arc::new(registry);
        model
    }

    /// The version counter: the version of the last committed change.
    pub fn resource_version(&self) -> u64 {
        self.rv
    }

    /// The kinds that are served.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The recent changes, for watches.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Who depends on whom, for garbage collection.
    pub fn owners(&self) -> &crate::gc::OwnerIndex {
        &self.owners
    }

    /// Opens a batch on top of the committed state. Only one batch may be open at a time.
    pub fn begin(&self) -> Batch {
        Batch {
            overlay: BTreeMap::new(),
            changes: Vec::new(),
            rv: self.rv,
            registry: Arc::clone(&self.registry),
        }
    }

    /// Decides what `request` does on top of `batch`. On an error, and for a dry run, the batch stays as it was.
    pub fn prepare(
        &self,
        batch: &mut Batch,
        request: Request,
        now: Timestamp,
        ids: &mut dyn Ids,
    ) -> Result<Outcome, Status> {
        pipeline::prepare(self, batch, request, now, ids)
    }

    /// Publishes a batch: readers and watchers see it from here on.
    pub fn commit(&mut self, batch: Batch) {
        self.rv = batch.rv;
        self.registry = batch.registry;
        for change in batch.changes {
            self.place(&change.key, change.old.as_ref(), change.new.clone());
            self.log.push(change);
        }
    }

    /// One committed object by its key.
    pub fn object(&self, key: &Key) -> Option<&Arc<Object>> {
        self.collections.get(&key.resource)?.get(&key.namespace, &key.name)
    }

    /// The collection of one resource, if it ever held anything.
    pub fn collection(&self, resource: &str) -> Option<&Collection> {
        self.collections.get(events::collection_of(resource))
    }

    /// All collections that hold or held objects.
    pub fn collections(&self) -> impl Iterator<Item = (&ResourceName, &Collection)> {
        self.collections.iter()
    }

    /// What a URL addresses, or the 404 that an unknown path gets.
    pub fn resolve(&self, target: &Target) -> Result<(Arc<Definition>, Arc<Version>), Status> {
        let found = self.registry.resolve(&target.group, &target.version, &target.resource)?;
        if !found.0.namespaced && !target.namespace.is_empty() {
            return Err(Status::no_such_resource());
        }
        Ok(found)
    }

    /// GET of one object.
    pub fn get(&self, target: &Target) -> Result<Arc<Object>, Status> {
        let (definition, _) = self.resolve(target)?;
        let namespace = if definition.namespaced { target.namespace.as_str() } else { "" };
        let found = self.collection(&definition.name).and_then(|c| c.get(namespace, &target.name));
        found.cloned().ok_or_else(|| Status::not_found(&definition.name, &target.name))
    }

    fn place(&mut self, key: &Key, old: Option<&Arc<Object>>, new: Option<Arc<Object>>) {
        self.owners.update(key, old, new.as_ref());
        if let Some(collection) = self.collections.get_mut(&key.resource) {
            collection.set(&key.namespace, &key.name, new);
        } else if new.is_some() {
            let mut collection = Collection::default();
            collection.set(&key.namespace, &key.name, new);
            self.collections.insert(Arc::clone(&key.resource), collection);
        }
    }

    fn stored_crds(&self) -> Vec<Arc<Object>> {
        let crds = self.collections.get(crate::registry::CRD_RESOURCE);
        crds.map(|c| c.iter().cloned().collect()).unwrap_or_default()
    }
}
