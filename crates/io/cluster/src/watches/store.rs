//! The objects of one kind as last seen, indexed by name and by the Graph that refers to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kardinal_graph::{Gvk, KindScope, ObjectId, referring_graphs};
use serde_json::Value;

use super::Change;

/// Namespace (empty for cluster scope) and name.
type Name = (String, String);

/// One kind's objects.
#[derive(Debug, Clone)]
pub struct Store {
    gvk: Gvk,
    scope: Option<KindScope>,
    synced: bool,
    /// Whether it is known how the kind stands: listed, not served, or not to be had for now.
    settled: bool,
    /// Whether the server said that it does not serve the kind.
    absent: bool,
    /// The version up to which the watch has told everything.
    seen: u64,
    objects: BTreeMap<Name, Arc<Value>>,
    /// Graph uid → objects that carry its reference label.
    references: BTreeMap<String, BTreeSet<Name>>,
}

impl Store {
    pub(crate) fn new(gvk: Gvk) -> Store {
        Store {
            gvk,
            scope: None,
            synced: false,
            settled: false,
            absent: false,
            seen: 0,
            objects: BTreeMap::new(),
            references: BTreeMap::new(),
        }
    }

    /// Whether the first list has arrived.
    pub fn synced(&self) -> bool {
        self.synced
    }

    pub(crate) fn absent(&self) -> bool {
        self.absent
    }

    pub(crate) fn settled(&self) -> bool {
        self.settled
    }

    /// The first attempt is over; returns whether that is news.
    pub(crate) fn settle(&mut self) -> bool {
        !std::mem::replace(&mut self.settled, true)
    }

    pub(crate) fn scope(&self) -> Option<KindScope> {
        self.scope
    }

    /// One object by name.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<Value>> {
        self.objects.get(&(namespace.unwrap_or_default().to_owned(), name.to_owned()))
    }

    /// All objects, or those of one namespace, by namespace and name.
    pub fn list<'a>(&'a self, namespace: Option<&str>) -> impl Iterator<Item = &'a Arc<Value>> + use<'a> {
        let wanted = namespace.map(str::to_owned);
        let start = (wanted.clone().unwrap_or_default(), String::new());
        self.objects
            .range(start..)
            .take_while(move |((place, _), _)| wanted.as_ref().is_none_or(|wanted| wanted == place))
            .map(|(_, object)| object)
    }

    /// The objects that carry this Graph's reference label.
    pub fn referenced_by<'a>(&'a self, uid: &str) -> impl Iterator<Item = (ObjectId, &'a Arc<Value>)> {
        let names = self.references.get(uid).into_iter().flatten();
        names.filter_map(|name| self.objects.get(name).map(|object| (self.id(name), object)))
    }

    /// Takes over a complete list and tells what differs from before.
    pub(crate) fn replace(&mut self, scope: KindScope, items: Vec<Value>, version: u64) -> Vec<Change> {
        self.scope = Some(scope);
        self.synced = true;
        self.settled = true;
        self.absent = false;
        self.seen = self.seen.max(version);
        let listed: BTreeSet<Name> = items.iter().map(name_of).collect();
        // What we wrote after the list was taken stays, although the list does not have it.
        let gone: Vec<Name> = self
            .objects
            .iter()
            .filter(|(name, object)| !listed.contains(*name) && version_of(object) <= version)
            .map(|(name, _)| name.clone())
            .collect();
        let mut changes: Vec<Change> = gone.into_iter().filter_map(|name| self.take(&name)).collect();
        changes.extend(items.into_iter().filter_map(|item| self.put(item)));
        changes
    }

    /// An object as the watch tells it.
    pub(crate) fn put_event(&mut self, object: Value) -> Option<Change> {
        self.seen = self.seen.max(version_of(&object));
        self.put(object)
    }

    /// An object as the server answered one of our writes.
    pub(crate) fn put_answer(&mut self, object: Value) -> Option<Change> {
        // A deletion that the watch has told already is newer than this answer.
        (self.synced && version_of(&object) > self.seen).then(|| self.put(object)).flatten()
    }

    pub(crate) fn remove_event(&mut self, object: &Value) -> Option<Change> {
        self.seen = self.seen.max(version_of(object));
        self.take(&name_of(object))
    }

    /// Forgets everything: the kind is not served any more.
    pub(crate) fn clear(&mut self) -> Vec<Change> {
        let names: Vec<Name> = self.objects.keys().cloned().collect();
        let changes = names.iter().filter_map(|name| self.take(name)).collect();
        *self = Store { settled: true, absent: true, ..Store::new(self.gvk.clone()) };
        changes
    }

    fn put(&mut self, mut object: Value) -> Option<Change> {
        let name = name_of(&object);
        let old = self.objects.get(&name).cloned();
        if old.as_ref().is_some_and(|old| version_of(old) >= version_of(&object)) {
            return None;
        }
        self.unlink(&name, old.as_deref());
        for uid in referring_graphs(&object) {
            self.references.entry(uid.to_owned()).or_default().insert(name.clone());
        }
        forget_fields(&mut object);
        let object = Arc::new(object);
        self.objects.insert(name.clone(), object.clone());
        Some(Change::Object { id: self.id(&name), old, new: Some(object) })
    }

    fn take(&mut self, name: &Name) -> Option<Change> {
        let old = self.objects.remove(name)?;
        self.unlink(name, Some(&old));
        Some(Change::Object { id: self.id(name), old: Some(old), new: None })
    }

    fn unlink(&mut self, name: &Name, old: Option<&Value>) {
        for uid in old.into_iter().flat_map(referring_graphs) {
            if let Some(names) = self.references.get_mut(uid) {
                names.remove(name);
                if names.is_empty() {
                    self.references.remove(uid);
                }
            }
        }
    }

    fn id(&self, (namespace, name): &Name) -> ObjectId {
        let namespace = (!namespace.is_empty()).then(|| namespace.clone());
        ObjectId { gvk: self.gvk.clone(), namespace, name: name.clone() }
    }
}

/// Who has written an object is of interest, but not which fields: that list is often the larger part of the object.
fn forget_fields(object: &mut Value) {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("fieldsV1");
    }
}

fn name_of(object: &Value) -> Name {
    let text = |field: &str| {
        object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("namespace"), text("name"))
}

/// The object's version as a number. Kubernetes guarantees that versions of one kind can be compared since 1.35,
/// and every server before it has done so.
pub(super) fn version_of(object: &Value) -> u64 {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "default", "name": name, "resourceVersion": version.to_string(),
            "labels": {"dev.u-1.internal.kro.run/reference": "template"}}})
    }

    fn store(items: &[(&str, u64)], version: u64) -> Store {
        let mut store = Store::new(Gvk::parse("v1", "ConfigMap").unwrap());
        store.replace(
            KindScope::Namespaced,
            items.iter().map(|(name, version)| object(name, *version)).collect(),
            version,
        );
        store
    }

    fn names(store: &Store) -> Vec<String> {
        store.list(Some("default")).map(|object| name_of(object).1).collect()
    }

    #[test]
    fn an_older_event_never_undoes_our_own_write() {
        let mut store = store(&[("a", 3)], 5);
        store.put_answer(object("a", 9));
        assert!(store.put_event(object("a", 7)).is_none());
        assert_eq!(version_of(store.get(Some("default"), "a").unwrap()), 9);
    }

    #[test]
    fn who_wrote_is_kept_and_which_fields_is_not() {
        let mut store = store(&[], 5);
        let mut written = object("a", 6);
        written["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:data": {}}}]);
        store.put_event(written);
        let kept = store.get(Some("default"), "a").unwrap();
        assert_eq!(kept["metadata"]["managedFields"], json!([{"manager": "kubectl", "operation": "Apply"}]));
    }

    #[test]
    fn an_answer_older_than_a_deletion_brings_nothing_back() {
        let mut store = store(&[("a", 3)], 5);
        store.remove_event(&object("a", 8));
        store.put_answer(object("a", 7));
        assert!(names(&store).is_empty());
        assert_eq!(store.referenced_by("u-1").count(), 0);
    }

    #[test]
    fn a_new_list_drops_what_is_gone_and_keeps_newer_answers() {
        let mut store = store(&[("a", 1), ("b", 2)], 5);
        store.put_answer(object("c", 9));
        let changes = store.replace(KindScope::Namespaced, vec![object("b", 2)], 8);
        assert_eq!(names(&store), ["b", "c"]);
        assert_eq!(changes.len(), 1, "only `a` changed: {changes:?}");
        assert_eq!(store.referenced_by("u-1").count(), 2);
    }
}
