//! Which Graphs a change concerns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kardinal_api::graph::{Graph, GraphRevision};
use kardinal_cluster::Change;
use kardinal_cluster::watches::Object;
use kardinal_graph::{Changed, Walker};
use kardinal_object::{Gvk, ObjectId};

use super::Kind;
use crate::graph::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, is};
use crate::reconcile::routes::{Heard, Hears, Need, itself, nobody};

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<Graph>, itself),
    Hears::read(gvk::<GraphRevision>, nobody),
    Hears { need: Need::Told, ..Hears::read(definitions, of_definition) },
];

/// The kind of definitions.
fn definitions() -> Gvk {
    let of = Cow::Borrowed;
    Gvk { group: of("apiextensions.k8s.io"), version: of("v1"), kind: of("CustomResourceDefinition") }
}

/// New kinds may be served now; those that wait for them hear of that from their watches.
fn of_definition(heard: &Heard<'_, Kind>) -> Vec<Key> {
    heard.kind.context.watches.retry_unserved();
    Vec::new()
}

/// What each Graph reads and manages, and what has changed for it since its last pass.
#[derive(Default)]
pub(super) struct Routes {
    graphs: BTreeMap<Key, Followed>,
    by_uid: BTreeMap<String, Key>,
    by_object: BTreeMap<ObjectId, BTreeSet<Key>>,
    /// Graphs that select objects of a kind.
    by_selection: BTreeMap<Gvk, BTreeSet<Key>>,
    by_kind: BTreeMap<Gvk, BTreeSet<Key>>,
}

#[derive(Default)]
struct Followed {
    uid: String,
    objects: BTreeSet<ObjectId>,
    selections: BTreeSet<Gvk>,
    kinds: BTreeSet<Gvk>,
    /// Those that the last pass could see.
    seen: BTreeSet<Gvk>,
    changed: Pending,
}

#[derive(Default)]
enum Pending {
    /// Nothing was ever decided about this Graph.
    #[default]
    All,
    Objects(BTreeSet<ObjectId>),
}

impl Routes {
    /// Notes the change and returns the Graphs that have to look at it.
    pub(super) fn route(&mut self, change: &Change) -> BTreeSet<Key> {
        match change {
            Change::Kind(gvk) => {
                // Before the first list of Graphs or revisions no pass is made, so all of them wait for it.
                let keys: BTreeSet<Key> = match is::<Graph>(gvk) || is::<GraphRevision>(gvk) {
                    true => self.graphs.keys().cloned().collect(),
                    false => self.by_kind.get(gvk).cloned().unwrap_or_default(),
                };
                for key in &keys {
                    if let Some(followed) = self.graphs.get_mut(key) {
                        followed.changed = Pending::All;
                    }
                }
                keys
            }
            Change::Object { id, old, new } => {
                let mut keys = self.managing([old, new].into_iter().flatten());
                keys.extend(self.by_object.get(id).into_iter().flatten().cloned());
                keys.extend(self.by_selection.get(&id.gvk).into_iter().flatten().cloned());
                for key in &keys {
                    self.graphs.entry(key.clone()).or_default().note(id);
                }
                keys
            }
        }
    }

    fn managing<'a>(&self, objects: impl Iterator<Item = &'a Arc<Object>>) -> BTreeSet<Key> {
        let uids = objects.flat_map(|object| object.filed_under(facets::MANAGED_BY));
        uids.filter_map(|uid| self.by_uid.get(uid)).cloned().collect()
    }

    /// What has changed for the Graph since the last call.
    pub(super) fn take_changes(&mut self, key: &Key) -> Changed {
        let followed = self.graphs.entry(key.clone()).or_default();
        match std::mem::replace(&mut followed.changed, Pending::Objects(BTreeSet::new())) {
            Pending::All => Changed::All,
            Pending::Objects(objects) if objects.is_empty() => Changed::Nothing,
            Pending::Objects(objects) => Changed::Objects(objects),
        }
    }

    /// The changes that were taken could not be looked at: the next pass looks at everything.
    pub(super) fn put_back(&mut self, key: &Key) {
        self.graphs.entry(key.clone()).or_default().changed = Pending::All;
    }

    /// Before a pass: changes of these kinds concern the Graph from now on. A kind that the last pass could not see may be
    /// watched for others already and have no news, so everything is looked at.
    pub(super) fn expect(&mut self, key: &Key, uid: &str, kinds: &BTreeSet<Gvk>) {
        let followed = self.graphs.entry(key.clone()).or_default();
        if followed.uid != uid {
            self.by_uid.remove(&followed.uid);
            self.by_uid.insert(uid.to_owned(), key.clone());
            uid.clone_into(&mut followed.uid);
        }
        for gvk in kinds.difference(&followed.kinds) {
            self.by_kind.entry(gvk.clone()).or_default().insert(key.clone());
        }
        if !kinds.is_subset(&followed.seen) {
            followed.changed = Pending::All;
        }
        followed.seen.clone_from(kinds);
        followed.kinds.extend(kinds.iter().cloned());
    }

    /// After a pass: takes over what the Graph reads and manages. What is new may have changed before we
    /// listened, so it counts as changed; returns whether there is such a thing.
    pub(super) fn follow(&mut self, key: &Key, walker: &Walker) -> bool {
        let objects: BTreeSet<ObjectId> = walker.interests().objects().cloned().collect();
        let selections: BTreeSet<Gvk> =
            walker.interests().selections().map(|selection| selection.gvk.clone()).collect();
        let followed = self.graphs.entry(key.clone()).or_default();
        let new: Vec<ObjectId> = objects.difference(&followed.objects).cloned().collect();
        let old: Vec<ObjectId> = followed.objects.difference(&objects).cloned().collect();
        for id in &new {
            followed.note(id);
            self.by_object.entry(id.clone()).or_default().insert(key.clone());
        }
        for id in &old {
            remove(&mut self.by_object, id, key);
        }
        let mut selects_more = false;
        for gvk in selections.difference(&followed.selections) {
            self.by_selection.entry(gvk.clone()).or_default().insert(key.clone());
            selects_more = true;
        }
        for gvk in followed.selections.difference(&selections) {
            remove(&mut self.by_selection, gvk, key);
        }
        if selects_more {
            followed.changed = Pending::All;
        }
        followed.objects = objects;
        followed.selections = selections;
        selects_more || !new.is_empty()
    }

    /// Drops a Graph that is gone.
    pub(super) fn forget(&mut self, key: &Key) {
        self.unlink(key);
    }

    fn unlink(&mut self, key: &Key) {
        let Some(followed) = self.graphs.remove(key) else { return };
        self.by_uid.remove(&followed.uid);
        for id in &followed.objects {
            remove(&mut self.by_object, id, key);
        }
        for gvk in &followed.selections {
            remove(&mut self.by_selection, gvk, key);
        }
        for gvk in &followed.kinds {
            remove(&mut self.by_kind, gvk, key);
        }
    }
}

impl Followed {
    fn note(&mut self, id: &ObjectId) {
        if let Pending::Objects(objects) = &mut self.changed {
            objects.insert(id.clone());
        }
    }
}

fn remove<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Key>>, at: &K, key: &Key) {
    if let Some(keys) = index.get_mut(at) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(at);
        }
    }
}
