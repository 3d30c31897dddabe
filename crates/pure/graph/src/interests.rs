//! What a walk reads at present: for watches, and for finding the nodes that a change concerns.

use std::collections::{BTreeMap, BTreeSet};

use crate::fence::Permit;
use crate::selector::Selector;
use kardinal_object::{Gvk, ObjectId};

/// A set of objects that a `watch` node reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// Which kind.
    pub gvk: Gvk,
    /// In which namespace; `None` is all of them.
    pub namespace: Option<String>,
    /// With which labels.
    pub selector: Selector,
}

/// What the graph reads and writes now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interests {
    kinds: BTreeMap<Gvk, usize>,
    objects: BTreeMap<ObjectId, BTreeSet<usize>>,
    selections: BTreeMap<Selection, BTreeSet<usize>>,
    permits: BTreeMap<Permit, usize>,
}

impl Interests {
    /// All kinds that have to be watched for the objects and selections below.
    pub fn kinds(&self) -> impl Iterator<Item = &Gvk> {
        self.kinds.keys()
    }

    /// Objects that are read or written by name.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectId> {
        self.objects.keys()
    }

    /// Sets of objects that are read.
    pub fn selections(&self) -> impl Iterator<Item = &Selection> {
        self.selections.keys()
    }

    /// What the account of the Graph has to be allowed to read for that.
    pub fn permits(&self) -> impl Iterator<Item = &Permit> {
        self.permits.keys()
    }

    /// Whether a change of `id` can matter to what is read now.
    pub fn concerns(&self, id: &ObjectId) -> bool {
        self.objects.contains_key(id) || self.watchers(id).next().is_some()
    }

    pub(crate) fn readers(&self, id: &ObjectId) -> impl Iterator<Item = usize> {
        self.objects.get(id).into_iter().flatten().copied()
    }

    /// The labels of a removed object are not known any more, so every watch of its kind is concerned.
    pub(crate) fn watchers<'a>(&'a self, id: &'a ObjectId) -> impl Iterator<Item = usize> + 'a {
        let from = Selection { gvk: id.gvk.clone(), namespace: None, selector: Selector::default() };
        self.selections
            .range(from..)
            .take_while(|(selection, _)| selection.gvk == id.gvk)
            .filter(|(selection, _)| selection.namespace.is_none() || selection.namespace == id.namespace)
            .flat_map(|(_, nodes)| nodes.iter().copied())
    }

    pub(crate) fn add(&mut self, node: usize, reads: &Reads) {
        for gvk in reads.kinds() {
            *self.kinds.entry(gvk.clone()).or_default() += 1;
        }
        for permit in &reads.permits {
            *self.permits.entry(permit.clone()).or_default() += 1;
        }
        for id in &reads.objects {
            self.objects.entry(id.clone()).or_default().insert(node);
        }
        if let Some(selection) = &reads.selection {
            self.selections.entry(selection.clone()).or_default().insert(node);
        }
    }

    pub(crate) fn remove(&mut self, node: usize, reads: &Reads) {
        for gvk in reads.kinds() {
            release(&mut self.kinds, gvk);
        }
        for permit in &reads.permits {
            release(&mut self.permits, permit);
        }
        for id in &reads.objects {
            if let Some(nodes) = self.objects.get_mut(id) {
                nodes.remove(&node);
                if nodes.is_empty() {
                    self.objects.remove(id);
                }
            }
        }
        if let Some(selection) = &reads.selection
            && let Some(nodes) = self.selections.get_mut(selection)
        {
            nodes.remove(&node);
            if nodes.is_empty() {
                self.selections.remove(selection);
            }
        }
    }
}

fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What one node reads at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    pub(crate) objects: BTreeSet<ObjectId>,
    pub(crate) selection: Option<Selection>,
    /// Further kinds that have to be known to judge the node: it waits for them, or may not read their objects.
    pub(crate) kinds: BTreeSet<Gvk>,
    /// What the account has to be allowed to read.
    pub(crate) permits: BTreeSet<Permit>,
}

impl Reads {
    fn kinds(&self) -> impl Iterator<Item = &Gvk> {
        let selection = self.selection.as_ref().map(|selection| &selection.gvk);
        self.objects.iter().map(|id| &id.gvk).chain(selection).chain(&self.kinds)
    }
}
