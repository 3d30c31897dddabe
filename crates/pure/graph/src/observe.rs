//! The world as the walk sees it: what the caller must be able to answer, and what changed since last time.
//!
//! A read that could not be made is never "absent": it is `Unknown` or `None`.

use std::collections::BTreeSet;

use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::Value;

use crate::fence::{Permission, Permit};
use crate::selector::Selector;

/// What is known about one object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen<'a> {
    /// The kind is not served, or its cache is not synced yet.
    Unknown,
    /// It is known not to exist.
    Absent,
    /// It exists.
    Present(&'a Value),
}

impl<'a> Seen<'a> {
    /// The object, when it is known to exist.
    pub fn present(self) -> Option<&'a Value> {
        match self {
            Seen::Present(object) => Some(object),
            Seen::Unknown | Seen::Absent => None,
        }
    }
}

/// The caches of the caller. Answers must not change while one step runs.
pub trait Observed {
    /// Scope of a kind; `None` while the kind is not served.
    fn scope_of(&self, gvk: &Gvk) -> Option<KindScope>;
    /// One object by its address.
    fn object(&self, id: &ObjectId) -> Seen<'_>;
    /// Objects by selector, in all namespaces when `namespace` is `None`, sorted by namespace and name;
    /// `None` while the cache is not synced.
    fn select(&self, gvk: &Gvk, namespace: Option<&str>, selector: &Selector) -> Option<Vec<&Value>>;
    /// Every object of the recorded kinds that carries a reference label of this Graph; `None` while any
    /// of the caches is not synced.
    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>>;
    /// Whether the account of the Graph may read this; only asked where [`crate::Fence::Account`] holds.
    fn permission(&self, _permit: &Permit) -> Permission {
        Permission::Unknown
    }
}

/// What happened since the previous step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Anything: the first step, a kind that became served, a cache that became synced, a resync.
    All,
    /// These objects were added, changed or removed.
    Objects(BTreeSet<ObjectId>),
    /// Only time passed, or outcomes were recorded.
    Nothing,
}
