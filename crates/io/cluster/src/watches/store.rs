//! The objects of one kind as last seen, to be found by name and by facet.
//!
//! The maps share their parts with earlier states of themselves: somebody nearly always holds a view, and a change would
//! otherwise copy everything that the kind has.

use std::collections::BTreeSet;
use std::sync::Arc;

use kardinal_object::{Gvk, KindScope, ObjectId};
use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};
use serde_json::Value;

use super::object::{Head, Object, SharedFacet};
use super::{Change, Facet, Knowledge, Lost};

/// Namespace (empty for cluster scope) and name.
pub type Name = (String, String);

/// After so many changes, or one for so many objects, those are put to rest that nobody has looked at meanwhile.
const ROUND: usize = 16;
const SHARE: usize = 64;

/// One kind's objects.
#[derive(Debug, Clone)]
pub struct Store {
    gvk: Gvk,
    scope: Option<KindScope>,
    synced: bool,
    /// Whether it is known how the kind stands: listed, not served, or not to be had for now.
    attempted: bool,
    /// Whether the server said that it does not serve the kind.
    absent: bool,
    /// Why the watch is not connected. What is stored may be old, then.
    lost: Option<Lost>,
    /// The newest version that a list or an event brought; what was deleted before it is known to be gone.
    seen: u64,
    objects: RedBlackTreeMapSync<Arc<Name>, Arc<Object>>,
    filed: RedBlackTreeSetSync<(SharedFacet, Arc<Name>)>,
    /// Changes since the last round.
    changes: usize,
}

impl Store {
    pub(crate) fn new(gvk: Gvk) -> Store {
        Store {
            gvk,
            scope: None,
            synced: false,
            attempted: false,
            absent: false,
            lost: None,
            seen: 0,
            objects: RedBlackTreeMapSync::new_sync(),
            filed: RedBlackTreeSetSync::new_sync(),
            changes: 0,
        }
    }

    /// Whether the first list has arrived.
    pub(crate) fn synced(&self) -> bool {
        self.synced
    }

    /// What is known of the kind.
    pub fn knowledge(&self) -> Knowledge {
        match self {
            Store { synced: true, .. } => Knowledge::Listed,
            Store { absent: true, .. } => Knowledge::NotServed,
            Store { attempted: true, .. } => Knowledge::Failed,
            _ => Knowledge::Unknown,
        }
    }

    /// The first attempt is over; returns whether that is news.
    pub(crate) fn mark_attempted(&mut self) -> bool {
        !std::mem::replace(&mut self.attempted, true)
    }

    /// Why nothing is heard of the kind at present; `None` while its watch is connected.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// The watch has failed, or is connected again.
    pub(crate) fn set_lost(&mut self, lost: Option<Lost>) {
        self.lost = lost;
    }

    pub(crate) fn scope(&self) -> Option<KindScope> {
        self.scope
    }

    /// One object by name.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<Object>> {
        self.objects.get(&(namespace.unwrap_or_default().to_owned(), name.to_owned()))
    }

    /// All objects, or those of one namespace, by namespace and name.
    pub fn list<'a>(&'a self, namespace: Option<&str>) -> impl Iterator<Item = (&'a Name, &'a Arc<Object>)> {
        let all = self.objects.range(first_in(namespace)..);
        all.map(|(name, object)| (&**name, object)).take_while(move |(name, _)| is_in(name, namespace))
    }

    /// The objects with this facet, everywhere or in one namespace, by namespace and name.
    pub fn filed<'a>(
        &'a self,
        namespace: Option<&str>,
        facet: Facet,
    ) -> impl Iterator<Item = (&'a Name, &'a Arc<Object>)> {
        let facet: SharedFacet = (facet.0, facet.1.into());
        let filed = self.filed.range((facet.clone(), Arc::new(first_in(namespace)))..);
        filed
            .take_while(move |(other, name)| *other == facet && is_in(name, namespace))
            .filter_map(|(_, name)| Some((&**name, self.objects.get(name)?)))
    }

    /// Takes over a complete list and tells what differs from before.
    pub(crate) fn replace(
        &mut self,
        scope: KindScope,
        items: Vec<(Name, Object)>,
        version: u64,
    ) -> Vec<Change> {
        self.scope = Some(scope);
        self.synced = true;
        self.attempted = true;
        self.absent = false;
        self.lost = None;
        self.seen = self.seen.max(version);
        let listed: BTreeSet<&Name> = items.iter().map(|(name, _)| name).collect();
        // What we wrote after the list was taken stays, although the list does not have it.
        let gone: Vec<Name> = self
            .objects
            .iter()
            .filter(|(name, object)| !listed.contains(&***name) && object.version() <= version)
            .map(|(name, _)| Name::clone(name))
            .collect();
        let mut changes: Vec<Change> = gone.into_iter().filter_map(|name| self.take(&name)).collect();
        changes.extend(items.into_iter().filter_map(|item| self.put(item)));
        changes
    }

    /// An object as the watch tells it.
    pub(crate) fn put_event(&mut self, object: (Name, Object)) -> Option<Change> {
        self.seen = self.seen.max(object.1.version());
        self.put(object)
    }

    /// Whether an object was seen in this version or a later one, so that an event about it tells nothing new.
    pub(super) fn knows(&self, head: &Head) -> bool {
        self.objects.get(&head.name).is_some_and(|known| known.version() >= head.version)
    }

    /// An object as the server answered one of our writes.
    pub(crate) fn put_answer(&mut self, object: (Name, Object)) -> Option<Change> {
        // A deletion that the watch has told already is newer than this answer.
        (self.synced && object.1.version() > self.seen).then(|| self.put(object)).flatten()
    }

    pub(super) fn remove_event(&mut self, head: &Head) -> Option<Change> {
        self.seen = self.seen.max(head.version);
        // It may have been made anew since, and that was read or answered before the event came.
        let newer = self.objects.get(&head.name).is_some_and(|known| known.version() > head.version);
        if newer { None } else { self.take(&head.name) }
    }

    /// Forgets everything: the kind is not served any more.
    pub(crate) fn clear(&mut self) -> Vec<Change> {
        let names: Vec<Name> = self.objects.keys().map(|name| Name::clone(name)).collect();
        let changes = names.iter().filter_map(|name| self.take(name)).collect();
        *self = Store { attempted: true, absent: true, ..Store::new(self.gvk.clone()) };
        changes
    }

    /// Forgets everything that was seen, and that it was: it has to be listed anew.
    pub(crate) fn empty(&mut self) {
        let lost = self.lost.take();
        *self = Store { attempted: self.attempted, lost, ..Store::new(self.gvk.clone()) };
    }

    fn put(&mut self, (name, object): (Name, Object)) -> Option<Change> {
        let old = self.objects.get(&name).cloned();
        if old.as_ref().is_some_and(|old| old.version() >= object.version()) {
            return None;
        }
        let name = Arc::new(name);
        self.take_out(&name, old.as_deref());
        for facet in object.facets() {
            self.filed.insert_mut((facet.clone(), name.clone()));
        }
        let object = Arc::new(object);
        self.objects.insert_mut(name.clone(), object.clone());
        self.rest();
        Some(Change::Object { id: self.id(&name), old, new: Some(object) })
    }

    fn take(&mut self, name: &Name) -> Option<Change> {
        let (name, old) = self.objects.get_key_value(name).map(|(name, old)| (name.clone(), old.clone()))?;
        self.objects.remove_mut(&name);
        self.take_out(&name, Some(&old));
        Some(Change::Object { id: self.id(&name), old: Some(old), new: None })
    }

    fn take_out(&mut self, name: &Arc<Name>, old: Option<&Object>) {
        for facet in old.into_iter().flat_map(Object::facets) {
            self.filed.remove_mut(&(facet.clone(), name.clone()));
        }
    }

    /// Puts objects to rest now and then. Views that are still held keep what they had.
    fn rest(&mut self) {
        self.changes += 1;
        if self.changes < ROUND.max(self.objects.size() / SHARE) {
            return;
        }
        self.changes = 0;
        let resting =
            self.objects.iter().filter_map(|(name, object)| Some((name.clone(), object.at_rest()?)));
        for (name, object) in resting.collect::<Vec<_>>() {
            self.objects.insert_mut(name, Arc::new(object));
        }
    }

    /// The address of an object by its name.
    pub fn id(&self, (namespace, name): &Name) -> ObjectId {
        let namespace = (!namespace.is_empty()).then(|| namespace.clone());
        ObjectId { gvk: self.gvk.clone(), namespace, name: name.clone() }
    }
}

/// What comes before all names of a namespace, or of all.
fn first_in(namespace: Option<&str>) -> Name {
    (namespace.unwrap_or_default().to_owned(), String::new())
}

fn is_in((place, _): &Name, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| namespace == place)
}

pub(super) fn name_of(object: &Value) -> Name {
    let text = |field: &str| {
        object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::super::room::Keeping;
    use super::*;
    use serde_json::json;

    fn tree(name: &str, version: u64) -> Value {
        json!({"metadata": {"namespace": "default", "name": name, "resourceVersion": version.to_string(),
            "labels": {"team": "red"}}})
    }

    fn kept(tree: Value) -> (Name, Object) {
        let gvk = Gvk::parse("v1", "ConfigMap").unwrap();
        Keeping { gvk, facets_of: by_team, room: None }.keep(tree).unwrap()
    }

    fn object(name: &str, version: u64) -> (Name, Object) {
        kept(tree(name, version))
    }

    fn by_team(_: &Gvk, object: &Value) -> Vec<Facet> {
        let team = object.pointer("/metadata/labels/team").and_then(Value::as_str);
        team.map(|team| ("team", team.to_owned())).into_iter().collect()
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
        store.list(Some("default")).map(|(name, _)| name.1.clone()).collect()
    }

    fn reds(store: &Store, namespace: Option<&str>) -> Vec<String> {
        store.filed(namespace, ("team", "red".to_owned())).map(|(name, _)| name.1.clone()).collect()
    }

    fn head(name: &str, version: u64) -> Head {
        Head::read(&serde_json::value::to_raw_value(&tree(name, version)).unwrap()).unwrap()
    }

    #[test]
    fn an_event_that_tells_of_our_own_write_is_known() {
        let mut store = store(&[("a", 3)], 5);
        store.put_answer(object("a", 9));
        assert!(store.knows(&head("a", 7)) && store.knows(&head("a", 9)));
        assert!(!store.knows(&head("a", 10)) && !store.knows(&head("b", 9)));
        // What was deleted meanwhile is not brought back by an answer that is older than the event.
        store.remove_event(&head("a", 11));
        assert!(store.put_answer(object("a", 10)).is_none());
    }

    #[test]
    fn an_older_event_never_undoes_our_own_write() {
        let mut store = store(&[("a", 3)], 5);
        store.put_answer(object("a", 9));
        assert!(store.put_event(object("a", 7)).is_none());
        assert_eq!(store.get(Some("default"), "a").unwrap().version(), 9);
    }

    #[test]
    fn an_answer_older_than_a_deletion_brings_nothing_back() {
        let mut store = store(&[("a", 3)], 5);
        store.remove_event(&head("a", 8));
        store.put_answer(object("a", 7));
        assert!(names(&store).is_empty());
        assert!(reds(&store, None).is_empty());
    }

    #[test]
    fn a_deletion_takes_nothing_that_was_made_anew_since() {
        let mut store = store(&[("a", 3)], 5);
        store.put_answer(object("a", 9));
        assert!(store.remove_event(&head("a", 8)).is_none());
        assert_eq!(names(&store), ["a"]);
        assert!(store.remove_event(&head("a", 10)).is_some());
        assert!(names(&store).is_empty());
    }

    #[test]
    fn a_new_list_drops_what_is_gone_and_keeps_newer_answers() {
        let mut store = store(&[("a", 1), ("b", 2)], 5);
        store.put_answer(object("c", 9));
        let changes = store.replace(KindScope::Namespaced, vec![object("b", 2)], 8);
        assert_eq!(names(&store), ["b", "c"]);
        assert_eq!(changes.len(), 1, "only `a` changed: {changes:?}");
        assert_eq!(reds(&store, Some("default")), ["b", "c"]);
        assert!(reds(&store, Some("elsewhere")).is_empty());
    }

    #[test]
    fn an_object_is_found_by_what_it_is_now() {
        let mut store = store(&[("a", 1)], 5);
        let mut moved = tree("a", 6);
        moved["metadata"]["labels"]["team"] = "blue".into();
        store.put_event(kept(moved));
        assert!(reds(&store, None).is_empty());
        assert_eq!(store.filed(None, ("team", "blue".to_owned())).count(), 1);
    }

    #[test]
    fn what_nobody_looks_at_comes_to_rest_and_can_be_looked_at_again() {
        let mut store = store(&[("a", 1)], 5);
        let before = store.get(Some("default"), "a").unwrap().clone();
        for version in 0..2 * ROUND as u64 {
            store.put_event(object("busy", 6 + version));
        }
        let after = store.get(Some("default"), "a").unwrap();
        assert!(!Arc::ptr_eq(&before, after), "it is another one, as text");
        assert_eq!(after.tree(), before.tree());
        assert_eq!(reds(&store, None), ["a", "busy"]);
    }
}
