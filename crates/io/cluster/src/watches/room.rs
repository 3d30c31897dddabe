//! How much is kept of objects that strangers sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kardinal_object::Gvk;
use serde_json::Value;

use super::FacetsOf;
use super::object::Object;
use super::store::{Name, name_of};

/// What an object takes beside its text: its names, its place in the maps.
const OVERHEAD: usize = 512;
/// An ordinary object takes ten times its text while somebody looks at it. One that takes more is counted as larger.
const TREE_FACTOR: usize = 10;

/// A share of the memory, for everything that watches with the same room keep.
#[derive(Debug)]
pub struct Room {
    whole: usize,
    left: AtomicUsize,
}

impl Room {
    /// A room of so many bytes, all of them free.
    pub fn new(bytes: usize) -> Arc<Room> {
        Arc::new(Room { whole: bytes, left: AtomicUsize::new(bytes) })
    }

    fn take(self: &Arc<Room>, bytes: usize) -> Result<Taken, Full> {
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(|_| Taken { room: self.clone(), bytes }).map_err(|_| Full { mib: self.whole >> 20 })
    }
}

/// Nothing more fits.
#[derive(Debug, thiserror::Error)]
#[error(
    "its objects take more than the {mib} MiB that are kept for the other clusters of a namespace: let its kubeconfig see fewer namespaces"
)]
pub(super) struct Full {
    mib: usize,
}

/// The part of a room that one object takes, as long as somebody has it.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<Room>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// How the objects of one kind are kept.
#[derive(Debug, Clone)]
pub(super) struct Keeping {
    pub(super) gvk: Gvk,
    pub(super) facets_of: FacetsOf,
    /// Our own cluster's objects have no bounds; what another one sends does.
    pub(super) room: Option<Arc<Room>>,
}

impl Keeping {
    /// An object as it is kept, and its name.
    pub(super) fn keep(&self, mut tree: Value) -> Result<(Name, Object), Full> {
        let name = name_of(&tree);
        with_type(&mut tree, &self.gvk);
        forget_fields(&mut tree);
        let facets = (self.facets_of)(&self.gvk, &tree);
        let Some(room) = &self.room else { return Ok((name, Object::new(tree, facets))) };
        let object = Object::resting(&tree, facets);
        let bytes = object.text_len().max(weight(&tree) / TREE_FACTOR);
        let bytes = bytes + OVERHEAD + 2 * (name.0.len() + name.1.len());
        Ok((name, object.taking(room.take(bytes)?)))
    }
}

/// About how many bytes a tree takes.
fn weight(tree: &Value) -> usize {
    /// A node of a map has room for eleven entries from its first one on.
    const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>());
    match tree {
        Value::Null | Value::Bool(_) | Value::Number(_) => size_of::<Value>(),
        Value::String(text) => size_of::<Value>() + text.len(),
        Value::Array(items) => size_of::<Value>() + items.iter().map(weight).sum::<usize>(),
        Value::Object(fields) => {
            let nodes = fields.len().div_ceil(6) * NODE;
            nodes + fields.iter().map(|(key, value)| key.len() + weight(value)).sum::<usize>()
        }
    }
}

/// Items of a list may leave out their apiVersion and kind.
fn with_type(item: &mut Value, gvk: &Gvk) {
    if let Value::Object(fields) = item {
        fields.entry("apiVersion").or_insert_with(|| gvk.api_version().into());
        fields.entry("kind").or_insert_with(|| gvk.kind.clone().into());
    }
}

/// Who has written an object is of interest, but not which fields: that list is often the larger part of the object.
fn forget_fields(object: &mut Value) {
    let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("fieldsV1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn keeping(room: Option<Arc<Room>>) -> Keeping {
        Keeping { gvk: Gvk::parse("v1", "ConfigMap").unwrap(), facets_of: |_, _| Vec::new(), room }
    }

    fn object(name: &str) -> Value {
        json!({"metadata": {"namespace": "default", "name": name, "resourceVersion": "1"}})
    }

    #[test]
    fn a_room_takes_what_fits_and_has_it_back_when_the_object_goes() {
        let keeping = keeping(Some(Room::new(1500)));
        let first = keeping.keep(object("a")).unwrap();
        let second = keeping.keep(object("b")).unwrap();
        assert!(keeping.keep(object("c")).is_err(), "two are in it");
        drop(first);
        keeping.keep(object("c")).unwrap();
        drop(second);
    }

    #[test]
    fn looking_at_an_object_or_at_its_like_at_rest_takes_nothing_more() {
        let room = Room::new(1000);
        let (_, kept) = keeping(Some(room.clone())).keep(object("a")).unwrap();
        let left = room.left.load(Ordering::Relaxed);
        assert_eq!(kept.tree()["kind"], "ConfigMap", "a list may leave it out");
        assert_eq!(room.left.load(Ordering::Relaxed), left);
        assert!(kept.at_rest().is_none(), "it was looked at");
        let resting = kept.at_rest().unwrap();
        drop(kept);
        assert_eq!(room.left.load(Ordering::Relaxed), left, "it is still the same object");
        drop(resting);
        assert_eq!(room.left.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn an_object_that_unfolds_to_much_is_counted_by_that() {
        let room = Room::new(1 << 20);
        let many = json!({"metadata": {"name": "a"}, "data": vec![json!({"a": 0}); 10_000]});
        let text = many.to_string().len();
        let kept = keeping(Some(room.clone())).keep(many).unwrap();
        assert!(room.whole - room.left.load(Ordering::Relaxed) > 5 * text);
        drop(kept);
    }

    #[test]
    fn who_wrote_is_kept_and_which_fields_is_not() {
        let mut written = object("a");
        written["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:data": {}}}]);
        let (_, kept) = keeping(None).keep(written).unwrap();
        assert_eq!(
            kept.tree()["metadata"]["managedFields"],
            json!([{"manager": "kubectl", "operation": "Apply"}])
        );
    }
}
