//! One object as last seen, in as little room as its use allows.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Facet;
use super::room::Taken;
use super::store::Name;

/// A facet whose value the object and the store that it is found in have in common.
pub(super) type SharedFacet = (&'static str, Arc<str>);

fn shared(facets: Vec<Facet>) -> Box<[SharedFacet]> {
    facets.into_iter().map(|(name, value)| (name, value.into())).collect()
}

/// One object as last seen. A tree takes ten times the room of its text, so an object that nobody has looked at
/// lately is kept as text and becomes a tree again when somebody does.
pub struct Object {
    tree: OnceLock<Value>,
    text: OnceLock<Box<str>>,
    uid: Box<str>,
    version: u64,
    facets: Box<[SharedFacet]>,
    /// Whether somebody has looked since the last round.
    looked_at: AtomicBool,
    /// The room that it takes, where that is counted.
    taken: Option<Arc<Taken>>,
}

impl Object {
    pub(super) fn new(tree: Value, facets: Vec<Facet>) -> Object {
        let (uid, version) = (uid_of(&tree), version_of(&tree));
        let tree = OnceLock::from(tree);
        let looked_at = AtomicBool::new(true);
        Object { tree, text: OnceLock::new(), uid, version, facets: shared(facets), looked_at, taken: None }
    }

    /// An object that is text from the start.
    pub(super) fn resting(tree: &Value, facets: Vec<Facet>) -> Object {
        Object {
            tree: OnceLock::new(),
            text: OnceLock::from(Box::from(tree.to_string())),
            uid: uid_of(tree),
            version: version_of(tree),
            facets: shared(facets),
            looked_at: AtomicBool::new(false),
            taken: None,
        }
    }

    /// The same object, which gives the room back when it goes.
    pub(super) fn taking(self, taken: Taken) -> Object {
        Object { taken: Some(Arc::new(taken)), ..self }
    }

    pub(super) fn text_len(&self) -> usize {
        self.text().len()
    }

    /// The whole object.
    pub fn tree(&self) -> &Value {
        self.looked_at.store(true, Ordering::Relaxed);
        // The text was written from a tree, so it can be read.
        self.tree.get_or_init(|| serde_json::from_str(self.text()).unwrap_or_default())
    }

    /// The object as one of our types.
    pub fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        self.looked_at.store(true, Ordering::Relaxed);
        match self.tree.get() {
            Some(tree) => K::deserialize(tree),
            None => serde_json::from_str(self.text()),
        }
    }

    /// The values of one facet that it has.
    pub fn filed_under(&self, facet: &'static str) -> impl Iterator<Item = &str> {
        self.facets.iter().filter(move |(name, _)| *name == facet).map(|(_, value)| &**value)
    }

    /// Its uid; empty when it has none. Asking for it is no look at the object.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its resource version as a number.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What it can be found by.
    pub(super) fn facets(&self) -> &[SharedFacet] {
        &self.facets
    }

    /// The same object as mere text, unless somebody has looked at it since this was asked last.
    pub(super) fn at_rest(&self) -> Option<Object> {
        if self.looked_at.swap(false, Ordering::Relaxed) || self.tree.get().is_none() {
            return None;
        }
        Some(Object {
            tree: OnceLock::new(),
            text: OnceLock::from(Box::from(self.text())),
            uid: self.uid.clone(),
            version: self.version,
            facets: self.facets.clone(),
            looked_at: AtomicBool::new(false),
            taken: self.taken.clone(),
        })
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| self.tree.get().map(Value::to_string).unwrap_or_default().into())
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Which object a text is about, and which version of it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) name: Name,
    pub(super) version: u64,
}

impl Head {
    /// Reads no more of the text than this.
    pub(super) fn read(object: &RawValue) -> Result<Head, kube::Error> {
        #[derive(Deserialize)]
        struct Sent {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            namespace: String,
            name: String,
            #[serde(default)]
            resource_version: String,
        }
        let Sent { metadata } = serde_json::from_str(object.get()).map_err(kube::Error::SerdeError)?;
        let version = metadata.resource_version.parse().unwrap_or_default();
        Ok(Head { name: (metadata.namespace, metadata.name), version })
    }
}

fn uid_of(object: &Value) -> Box<str> {
    object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().into()
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

    #[test]
    fn an_object_at_rest_is_what_it_was() {
        let tree = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"n": 1.5, "ü": "\n"}});
        let object = Object::new(tree.clone(), vec![("kind", "x".to_owned())]);
        assert!(object.at_rest().is_none(), "it was new a moment ago");
        let resting = object.at_rest().unwrap();
        assert!(resting.tree.get().is_none());
        assert!(resting.at_rest().is_none(), "it rests already");
        assert_eq!(resting.read::<Value>().unwrap(), tree);
        assert!(resting.tree.get().is_none(), "reading a type needs no tree");
        assert_eq!((resting.tree(), resting.version(), resting.facets()), (&tree, 7, object.facets()));
    }

    #[test]
    fn who_is_looked_at_does_not_rest() {
        let object = Object::new(json!({}), Vec::new());
        for _ in 0..3 {
            assert!(object.at_rest().is_none());
            object.tree();
        }
    }
}
