//! How a Graph marks the objects it manages.
//!
//! Everything that has to survive a crash is in these labels and annotations: whose an object is, in which
//! order it is removed, and which text was last applied. This module must not decide anything from them.

use std::collections::BTreeMap;

use kardinal_object::ObjectId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The part that all our label and annotation keys share.
pub const DOMAIN: &str = "internal.kro.run";
/// Annotation `<namespace>/<name>` of the Graph that manages the object.
pub const GRAPH_ANNOTATION: &str = "internal.kro.run/graph";
/// Annotation with the layer in which the object was applied; removal goes from the highest to the lowest.
pub const ORDER_ANNOTATION: &str = "internal.kro.run/apply-order";
/// Annotation with the hash of what was applied last.
pub const HASH_ANNOTATION: &str = "internal.kro.run/template-hash";
/// Annotation with the position of a `forEach` child.
pub const INDEX_ANNOTATION: &str = "internal.kro.run/index";

const REFERENCE_SUFFIX: &str = ".internal.kro.run/reference";
const FIELD_MANAGER_LIMIT: usize = 128;

/// The Graph on whose behalf objects are managed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Name of the Graph.
    pub name: String,
    /// Namespace of the Graph; namespaced objects without one go there.
    pub namespace: String,
    /// UID of the Graph; it is part of every reference label, so a Graph that was made anew owns nothing.
    pub uid: String,
    /// The objects that the Graph itself belongs to, in its namespace: it goes with them, so it never makes them.
    pub parents: Vec<Parent>,
}

/// An owner of a Graph, as `metadata.ownerReferences` names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// API group; empty for the core group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID: an object that was made anew under the same name is another one.
    pub uid: String,
}

impl Owner {
    /// The field manager under which this Graph writes: `<graph>.<ns>.internal.kro.run`, at most 128 characters.
    pub fn field_manager(&self) -> String {
        let full = format!("{}.{}.{DOMAIN}", self.name, self.namespace);
        if full.len() <= FIELD_MANAGER_LIMIT {
            return full;
        }
        let hash: String = sha256_hex(full.as_bytes()).chars().take(12).collect();
        let keep = FIELD_MANAGER_LIMIT.saturating_sub(hash.len() + DOMAIN.len() + 2);
        let head: String = full.chars().take(keep).collect();
        format!("{}-{hash}.{DOMAIN}", head.trim_end_matches(['.', '-']))
    }

    /// The label that says which node of this Graph manages an object.
    pub fn reference_label(&self, node: &str) -> String {
        format!("{}.{}{REFERENCE_SUFFIX}", node.to_ascii_lowercase(), self.uid)
    }

    /// The key under which a node keeps an annotation. Several Graphs may patch one object, so patch nodes
    /// put their own name in front.
    pub fn annotation(&self, node: &str, kind: ReferenceKind, key: &str) -> String {
        match kind {
            ReferenceKind::Patch => format!("{}.{}.{key}", node.to_ascii_lowercase(), self.uid),
            ReferenceKind::Template | ReferenceKind::Adopted => key.to_owned(),
        }
    }

    /// The Graph's own owner at this address, when it is one.
    pub(crate) fn parent(&self, id: &ObjectId) -> Option<&Parent> {
        let here = id.namespace.as_deref() == Some(self.namespace.as_str());
        self.parents.iter().find(|parent| {
            here && parent.group == id.gvk.group && parent.kind == id.gvk.kind && parent.name == id.name
        })
    }

    /// The value of [`GRAPH_ANNOTATION`].
    pub fn graph_reference(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// How a node relates to an object: the value of the reference label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceKind {
    /// Created by us; removal deletes it.
    Template,
    /// Existed before us; removal gives up our fields.
    Adopted,
    /// Belongs to somebody else; removal gives up our fields.
    Patch,
}

impl ReferenceKind {
    /// The label value.
    pub fn as_str(self) -> &'static str {
        match self {
            ReferenceKind::Template => "template",
            ReferenceKind::Adopted => "adopted",
            ReferenceKind::Patch => "patch",
        }
    }

    fn parse(value: &str) -> Option<ReferenceKind> {
        match value {
            "template" => Some(ReferenceKind::Template),
            "adopted" => Some(ReferenceKind::Adopted),
            "patch" => Some(ReferenceKind::Patch),
            _ => None,
        }
    }
}

/// What the labels and annotations of an object say about this Graph and others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Nodes of this Graph (ids in lower case) that manage the object.
    pub ours: BTreeMap<String, ReferenceKind>,
    /// Another Graph that owns the object: its `<namespace>/<name>` where known, else its UID.
    pub foreign: Option<String>,
}

impl Marks {
    /// Reads the marks of `object` from the point of view of the Graph with `uid`.
    pub fn read(object: &Value, uid: &str) -> Marks {
        let mut marks = Marks::default();
        let Some(labels) = object.pointer("/metadata/labels").and_then(Value::as_object) else {
            return marks;
        };
        for (key, value) in labels {
            let Some((node, owner)) =
                key.strip_suffix(REFERENCE_SUFFIX).and_then(|prefix| prefix.split_once('.'))
            else {
                continue;
            };
            let Some(kind) = value.as_str().and_then(ReferenceKind::parse) else { continue };
            if owner == uid {
                marks.ours.insert(node.to_owned(), kind);
            } else if kind != ReferenceKind::Patch {
                let name = annotation(object, GRAPH_ANNOTATION).unwrap_or(owner);
                marks.foreign = Some(name.to_owned());
            }
        }
        marks
    }
}

/// The UIDs of all Graphs whose reference label the object carries.
pub fn referring_graphs(object: &Value) -> impl Iterator<Item = &str> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels.into_iter().flatten().filter_map(|(key, _)| {
        let (_, uid) = key.strip_suffix(REFERENCE_SUFFIX)?.split_once('.')?;
        Some(uid)
    })
}

/// The text of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Whether an annotation or label key is one of ours, which users must not write.
pub(crate) fn is_reserved_key(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    prefix == DOMAIN || prefix.strip_suffix(DOMAIN).is_some_and(|rest| rest.ends_with('.'))
}

/// Lower-case hex of the SHA-256 of `bytes`.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hex of the SHA-256 of a value as JSON, without holding the text.
pub(crate) fn digest_of(value: &impl Serialize) -> String {
    struct Sink(Sha256);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = std::io::BufWriter::with_capacity(1024, Sink(Sha256::new()));
    // Values that came from JSON can always be written as JSON, and the sink takes everything.
    let _ = serde_json::to_writer(&mut sink, value);
    match sink.into_inner() {
        Ok(sink) => hex(&sink.0.finalize()),
        Err(_) => String::new(),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |nibble: u8| DIGITS.get(usize::from(nibble)).copied().unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn owner(name: &str) -> Owner {
        Owner { name: name.to_owned(), namespace: "ns".to_owned(), uid: "u".to_owned(), parents: Vec::new() }
    }

    #[test]
    fn the_field_manager_is_never_too_long() {
        assert_eq!(owner("app").field_manager(), "app.ns.internal.kro.run");
        let (long, other) =
            (owner(&"a".repeat(200)).field_manager(), owner(&"a".repeat(201)).field_manager());
        assert!(long.len() <= 128 && long.ends_with(".internal.kro.run"), "{long}");
        assert_ne!(long, other);
        let exact = 128 - ".ns.internal.kro.run".len();
        assert_eq!(owner(&"b".repeat(exact)).field_manager().len(), 128);
    }

    #[test]
    fn marks_tell_us_from_others() {
        let object = json!({ "metadata": {
            "labels": {
                "a.u.internal.kro.run/reference": "template",
                "b.u.internal.kro.run/reference": "patch",
                "c.v.internal.kro.run/reference": "patch",
                "d.u.internal.kro.run/reference": "nonsense",
                "app": "x",
            },
        } });
        let marks = Marks::read(&object, "u");
        let ours: Vec<_> =
            marks.ours.iter().map(|(node, kind)| format!("{node}:{}", kind.as_str())).collect();
        assert_eq!(ours, ["a:template", "b:patch"]);
        assert_eq!(marks.foreign, None);
        assert_eq!(Marks::read(&object, "w").foreign.as_deref(), Some("u"));
        assert_eq!(Marks::read(&json!({}), "u"), Marks::default());
    }

    #[test]
    fn reserved_keys_are_ours_alone() {
        for (key, reserved) in [
            ("internal.kro.run/x", true),
            ("a.b.internal.kro.run/reference", true),
            ("kro.run/x", false),
            ("notinternal.kro.run/x", false),
            ("internal.kro.run", false),
            ("app", false),
        ] {
            assert_eq!(is_reserved_key(key), reserved, "{key}");
        }
    }

    #[test]
    fn digests_are_sha256_of_the_json() {
        let value = json!({ "b": [1, "x", null], "a": 2.5 });
        assert_eq!(digest_of(&value), sha256_hex(value.to_string().as_bytes()));
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
