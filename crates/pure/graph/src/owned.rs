//! The objects that carry our reference labels, indexed by node. Built from the world alone, so it survives nothing
//! and needs nothing.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_object::{ObjectId, text_at};
use serde_json::Value;

use crate::fence::Fence;
use crate::identity::{INDEX_ANNOTATION, Marks, ORDER_ANNOTATION, Owner, ReferenceKind, annotation};
use crate::observe::{Observed, Seen};

/// What our marks on an object say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Nodes by lower-case id.
    pub(crate) nodes: BTreeMap<String, ReferenceKind>,
    /// Layer in which it was applied; 0 when that is not known, so that it goes last.
    pub(crate) order: u64,
    pub(crate) index: u64,
    pub(crate) created: String,
    pub(crate) uid: String,
    pub(crate) terminating: bool,
}

impl Record {
    fn read(object: &Value, owner: &Owner) -> Option<Record> {
        let nodes = Marks::read(object, &owner.uid).ours;
        if nodes.is_empty() {
            return None;
        }
        let number = |key: &str| {
            let values = nodes.iter().map(|(node, kind)| owner.annotation(node, *kind, key));
            values.filter_map(|key| annotation(object, &key)?.parse::<u64>().ok()).max().unwrap_or(0)
        };
        let text = |field: &str| text_at(object, &["metadata", field]).unwrap_or_default().to_owned();
        Some(Record {
            order: number(ORDER_ANNOTATION),
            index: number(INDEX_ANNOTATION),
            created: text("creationTimestamp"),
            uid: text("uid"),
            terminating: is_terminating(object),
            nodes,
        })
    }

    /// Whether we made the object, so that it is deleted and not only released.
    pub(crate) fn is_ours(&self) -> bool {
        self.nodes.values().any(|kind| *kind == ReferenceKind::Template)
    }
}

/// Whether deletion of an object has begun.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// All our objects.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnedIndex {
    /// Whether the world could name all of them.
    pub(crate) known: bool,
    records: BTreeMap<ObjectId, Record>,
    /// Objects with our label that are outside of the fence: they are neither believed nor touched.
    outside: BTreeMap<ObjectId, String>,
    by_node: BTreeMap<String, BTreeSet<ObjectId>>,
}

impl OwnedIndex {
    /// Reads everything anew. While the world does not know, nothing is owned.
    pub(crate) fn read(world: &dyn Observed, owner: &Owner, fence: &Fence) -> OwnedIndex {
        let mut index = OwnedIndex::default();
        if let Some(objects) = world.owned() {
            index.known = true;
            for (id, object) in objects {
                match fence.write(owner, &id) {
                    Ok(()) => index.put(&id, Record::read(object, owner)),
                    Err(message) => drop(index.outside.insert(id, message)),
                }
            }
        }
        index
    }

    /// Takes one object in again; gives the nodes that it concerns, before and after.
    pub(crate) fn update(
        &mut self,
        id: &ObjectId,
        seen: Seen<'_>,
        owner: &Owner,
        fence: &Fence,
    ) -> BTreeSet<String> {
        if fence.write(owner, id).is_err() {
            return BTreeSet::new();
        }
        let record = match seen {
            Seen::Unknown => return BTreeSet::new(),
            Seen::Absent => None,
            Seen::Present(object) => Record::read(object, owner),
        };
        let before = self.records.get(id);
        let mut touched: BTreeSet<String> = before
            .into_iter()
            .chain(record.as_ref())
            .flat_map(|record| record.nodes.keys().cloned())
            .collect();
        if before == record.as_ref() {
            touched.clear();
        } else {
            self.put(id, record);
        }
        touched
    }

    fn put(&mut self, id: &ObjectId, record: Option<Record>) {
        if let Some(old) = self.records.remove(id) {
            for node in old.nodes.keys() {
                if let Some(ids) = self.by_node.get_mut(node) {
                    ids.remove(id);
                    if ids.is_empty() {
                        self.by_node.remove(node);
                    }
                }
            }
        }
        if let Some(record) = record {
            for node in record.nodes.keys() {
                self.by_node.entry(node.clone()).or_default().insert(id.clone());
            }
            self.records.insert(id.clone(), record);
        }
    }

    /// Objects that carry our label and may not be touched, with the reason.
    pub(crate) fn outside(&self) -> &BTreeMap<ObjectId, String> {
        &self.outside
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<&Record> {
        self.records.get(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&ObjectId, &Record)> {
        self.records.iter()
    }

    pub(crate) fn of_node(&self, key: &str) -> impl Iterator<Item = &ObjectId> {
        self.by_node.get(key).into_iter().flatten()
    }

    /// Whether the node has run: some object carries its label.
    pub(crate) fn has_run(&self, key: &str) -> bool {
        self.by_node.contains_key(key)
    }

    /// The objects of a node as its value shows them: children in expansion order, or the newest single object.
    pub(crate) fn kept(&self, key: &str, collection: bool) -> Vec<ObjectId> {
        let mut found: Vec<(&ObjectId, &Record)> =
            self.of_node(key).filter_map(|id| Some((id, self.records.get(id)?))).collect();
        if collection {
            found.sort_by(|(a, x), (b, y)| (x.index, a).cmp(&(y.index, b)));
        } else {
            found.sort_by(|(a, x), (b, y)| (&y.created, b).cmp(&(&x.created, a)));
            found.truncate(1);
        }
        found.into_iter().map(|(id, _)| id.clone()).collect()
    }
}
