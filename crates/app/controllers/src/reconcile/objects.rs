//! Objects of our kinds, read out of the watches and written back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_cluster::events::{self, EventType};
use kardinal_cluster::watches::Object;
use kardinal_cluster::{Answer, Change, View};
pub(crate) use kardinal_object::text;
use kardinal_object::{Gvk, ObjectId};
use kardinal_planner::condition::Note;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Context;
use crate::reconcile::driver::{Key, Next};

/// How long to wait after a status was refused. Whatever changes meanwhile brings the next try about before that.
const REFUSED: SignedDuration = SignedDuration::from_secs(15);

/// The kind of one of our types.
pub(crate) fn gvk<K: Resource<DynamicType = ()>>() -> Gvk {
    Gvk { group: K::group(&()), version: K::version(&()), kind: K::kind(&()) }
}

/// Where an object of one of our types is.
pub(crate) fn id<K: Resource<DynamicType = ()>>(key: &Key) -> ObjectId {
    ObjectId { gvk: gvk::<K>(), namespace: Some(key.0.clone()), name: key.1.clone() }
}

/// One object, when it was seen and can be read.
pub(crate) fn get<K>(view: &View, namespace: &str, name: &str) -> Option<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    view.kind(&gvk::<K>())?.get(Some(namespace), name).and_then(|object| read(object))
}

/// The objects of a namespace with this facet, by name.
pub(crate) fn list<K>(view: &View, namespace: &str, facet: &'static str, value: &str) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    list_others(view, namespace, facet, value, None)
}

/// The same without one of them, which is not read at all: what a Bundle records grows with its Pipeline.
pub(crate) fn list_others<K>(
    view: &View,
    namespace: &str,
    facet: &'static str,
    value: &str,
    own: Option<&str>,
) -> Vec<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let Some(store) = view.kind(&gvk::<K>()) else { return Vec::new() };
    let found = store.filed(Some(namespace), (facet, value.to_owned()));
    let others = found.filter(|((_, name), _)| Some(name.as_str()) != own);
    others.filter_map(|(_, object)| read(object)).collect()
}

/// The objects of a namespace with this facet, where one that cannot be read must not pass for one that is not there.
pub(crate) fn list_all<K>(
    view: &View,
    namespace: &str,
    facet: &'static str,
    value: &str,
) -> Result<Vec<K>, String>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let Some(store) = view.kind(&gvk::<K>()) else { return Ok(Vec::new()) };
    let found = store.filed(Some(namespace), (facet, value.to_owned()));
    found
        .map(|((namespace, name), object)| {
            let kind = K::kind(&());
            read(object).ok_or_else(|| format!("{kind} `{name}` in namespace `{namespace}` cannot be read"))
        })
        .collect()
}

/// The names of the objects of a namespace (or of all) with this facet.
pub(crate) fn keys<K>(view: &View, namespace: Option<&str>, facet: &'static str, value: &str) -> Vec<Key>
where
    K: Resource<DynamicType = ()>,
{
    let Some(store) = view.kind(&gvk::<K>()) else { return Vec::new() };
    store.filed(namespace, (facet, value.to_owned())).map(|(name, _)| name.clone()).collect()
}

/// The names of all objects of a kind.
pub(crate) fn all_keys<K>(view: &View) -> Vec<Key>
where
    K: Resource<DynamicType = ()>,
{
    let Some(store) = view.kind(&gvk::<K>()) else { return Vec::new() };
    store.list(None).map(|(name, _)| name.clone()).collect()
}

/// Namespace and name of an object.
pub(crate) fn key_of(object: &Value) -> Key {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

/// The value of a label; empty when there is none.
pub(crate) fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    kardinal_object::label(object, name).unwrap_or_default()
}

/// Whether a kind is that of one of our types. Asked of every change, so nothing is made for it.
pub(crate) fn is<K: Resource<DynamicType = ()>>(gvk: &Gvk) -> bool {
    gvk.kind == K::kind(&()) && gvk.group == K::group(&()) && gvk.version == K::version(&())
}

/// The object that a change is about, as it was and as it is.
pub(crate) fn before_and_after(change: &Change) -> (Option<&Value>, Option<&Value>) {
    match change {
        Change::Object { old, new, .. } => {
            (old.as_ref().map(|old| old.tree()), new.as_ref().map(|new| new.tree()))
        }
        Change::Kind(_) => (None, None),
    }
}

/// What is kept under a lock is valid after every statement, so that a bug elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<K: DeserializeOwned + Resource<DynamicType = ()>>(object: &Object) -> Option<K> {
    match object.read() {
        Ok(object) => Some(object),
        Err(error) => {
            // The server validates our kinds, so this is one of a version we do not know.
            let (namespace, name) = key_of(object.tree());
            tracing::error!(kind = %K::kind(&()), namespace, name, error = %error, "an object cannot be read");
            None
        }
    }
}

impl Context {
    /// Writes the whole status of exactly this object.
    pub(crate) async fn write_status<S: Serialize>(
        &self,
        id: &ObjectId,
        metadata: &ObjectMeta,
        status: &S,
        manager: &str,
    ) -> Answer<()> {
        let object = json!({
            "apiVersion": id.gvk.api_version(),
            "kind": id.gvk.kind,
            "metadata": {"name": id.name, "namespace": id.namespace, "uid": metadata.uid},
            "status": serde_json::to_value(status).unwrap_or_default(),
        });
        self.remember(id, self.writer.apply(id, Some("status"), &object, manager, true).await)
    }

    /// Takes the whole status of exactly this object away, whoever wrote it.
    pub(crate) async fn forget_status(
        &self,
        id: &ObjectId,
        metadata: &ObjectMeta,
        manager: &str,
    ) -> Answer<()> {
        // The version keeps a status that was written in between.
        let patch = json!({
            "metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid},
            "status": null,
        });
        self.remember(id, self.writer.merge(id, Some("status"), &patch, manager).await)
    }

    /// Writes the status of exactly this object and tells of its transitions; otherwise says when to look again.
    pub(crate) async fn report<S: Serialize>(
        &self,
        manager: &str,
        id: &ObjectId,
        metadata: &ObjectMeta,
        status: &S,
        notes: &[Note],
        now: Timestamp,
    ) -> Result<(), Next> {
        match self.write_status(id, metadata, status, manager).await {
            Answer::Done(()) => {
                self.tell(manager, id, metadata.uid.as_deref().unwrap_or_default(), notes, now).await;
                Ok(())
            }
            Answer::Gone(_) => Err(Next::Never),
            Answer::Conflict(message) | Answer::Fault(message) => {
                tracing::warn!(object = %id, error = %message, "status not written; it is tried again");
                Err(Next::At(now + crate::RETRY))
            }
            // Somebody has to mend that first: a permission, a limit, a policy.
            Answer::Refused(message) => {
                tracing::warn!(object = %id, error = %message, "status refused; it is tried again later");
                Err(Next::At(now + REFUSED))
            }
        }
    }

    /// Puts a finalizer on an object or takes it off, leaving everybody else's alone.
    pub(crate) async fn set_finalizer(
        &self,
        id: &ObjectId,
        metadata: &ObjectMeta,
        finalizer: &str,
        on: bool,
        manager: &str,
    ) -> Answer<()> {
        let others = metadata.finalizers.iter().flatten().filter(|name| *name != finalizer).cloned();
        let finalizers: Vec<String> = others.chain(on.then(|| finalizer.to_owned())).collect();
        // The version makes a concurrent change of the list a conflict instead of a loss.
        let patch = json!({"metadata": {
            "finalizers": finalizers,
            "resourceVersion": metadata.resource_version,
            "uid": metadata.uid,
        }});
        let answer = self.writer.merge(id, None, &patch, manager).await;
        // One that loses its last finalizer may be gone by now.
        if on { self.remember(id, answer) } else { answer.map(drop) }
    }

    /// Our own writes are visible to the next pass without waiting for their watch events.
    pub(crate) fn remember(&self, id: &ObjectId, answer: Answer) -> Answer<()> {
        answer.map(|object| self.watches.remember(&id.gvk, object))
    }

    /// Records transitions as Events.
    pub(crate) async fn tell(&self, manager: &str, id: &ObjectId, uid: &str, notes: &[Note], now: Timestamp) {
        for note in notes {
            let event_type = if note.warning { EventType::Warning } else { EventType::Normal };
            let note =
                events::Note { event_type, reason: note.reason.clone(), message: note.message.clone() };
            events::record(&self.writer, manager, id, uid, &note, now).await;
        }
    }
}
