//! What an object should look like: the rendered body with its address, marks and hash.

use kardinal_object::{Gvk, KindScope, ObjectId, text_at};
use serde_json::{Map, Value, json};

use crate::action::Action;
use crate::drift;
use crate::graph::{Node, NodeKind};
use crate::identity::{
    GRAPH_ANNOTATION, HASH_ANNOTATION, INDEX_ANNOTATION, Marks, ORDER_ANNOTATION, Owner, ReferenceKind,
    annotation, digest_of, is_reserved_key,
};
use crate::observe::Observed;

/// Why an address could not be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Unaddressed {
    /// The kind is not served (yet).
    Unserved(Gvk),
    /// The rendered body is not an object with an address.
    Invalid(String),
}

/// The address that a rendered body names.
pub(crate) fn address(body: &Value, owner: &Owner, world: &dyn Observed) -> Result<ObjectId, Unaddressed> {
    let invalid = |message: String| Unaddressed::Invalid(message);
    let (gvk, scope) = kind(body, world)?;
    let name = text_at(body, &["metadata", "name"]).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid("metadata.name must be a non-empty string".to_owned()))?;
    let given = match body.pointer("/metadata/namespace") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(Value::String(text)) => Some(text.as_str()),
        Some(other) => return Err(invalid(format!("metadata.namespace must be a string, not `{other}`"))),
    };
    let namespace = match (scope, given) {
        (KindScope::Namespaced, given) => Some(given.unwrap_or(&owner.namespace).to_owned()),
        (KindScope::Cluster, None) => None,
        (KindScope::Cluster, Some(given)) => {
            return Err(invalid(format!(
                "metadata.namespace `{given}` is not allowed: {gvk} is cluster-scoped"
            )));
        }
    };
    Ok(ObjectId { gvk, namespace, name: name.to_owned() })
}

/// The kind that a rendered body names, and its scope.
pub(crate) fn kind(body: &Value, world: &dyn Observed) -> Result<(Gvk, KindScope), Unaddressed> {
    let field = |name: &str| {
        text_at(body, &[name]).ok_or_else(|| {
            Unaddressed::Invalid(format!("{name} must be a string, such as in a Kubernetes object"))
        })
    };
    let (version, kind) = (field("apiVersion")?, field("kind")?);
    let gvk = Gvk::parse(version, kind).ok_or_else(|| {
        Unaddressed::Invalid(format!("apiVersion `{version}` and kind `{kind}` are not valid"))
    })?;
    let scope = world.scope_of(&gvk).ok_or_else(|| Unaddressed::Unserved(gvk.clone()))?;
    Ok((gvk, scope))
}

/// One object as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    pub(crate) id: ObjectId,
    pub(crate) object: Value,
    pub(crate) status: Option<Value>,
    pub(crate) hash: String,
    /// Whether fields that somebody changed by hand are simply put right.
    repairs: bool,
}

impl Desired {
    /// Completes a rendered body. `index` is the position of a `forEach` child; `observed` is the object as it is,
    /// which says whether we found it there.
    pub(crate) fn new(
        node: &Node,
        owner: &Owner,
        id: ObjectId,
        body: Value,
        index: Option<usize>,
        observed: Option<&Value>,
    ) -> Result<Desired, String> {
        let Value::Object(mut object) = body else { return Err("must be a map".to_owned()) };
        let status = object.remove("status").filter(|status| !status.is_null());
        let reference = reference_kind(node, owner, observed);
        let mut metadata = match object.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        if let Some(namespace) = &id.namespace {
            metadata.insert("namespace".to_owned(), json!(namespace));
        }
        let mut annotations = entries(&mut metadata, "annotations")?;
        let mut note = |key: &str, value: String| {
            annotations.insert(owner.annotation(&node.id, reference, key), Value::String(value));
        };
        note(GRAPH_ANNOTATION, owner.graph_reference());
        note(ORDER_ANNOTATION, node.layer.to_string());
        if let Some(index) = index {
            note(INDEX_ANNOTATION, index.to_string());
        }
        let mut labels = entries(&mut metadata, "labels")?;
        let digest = digest_of(&(&object, &metadata, &annotations, &labels, &status));
        annotations.insert(owner.annotation(&node.id, reference, HASH_ANNOTATION), json!(digest));
        labels.insert(owner.reference_label(&node.id), json!(reference.as_str()));
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
        metadata.insert("labels".to_owned(), Value::Object(labels));
        if node.kind == NodeKind::Patch
            && let Some(uid) = observed.and_then(|object| text_at(object, &["metadata", "uid"]))
        {
            // An apply creates what is absent. This one fails when the object went after we saw it.
            metadata.insert("uid".to_owned(), json!(uid));
        }
        object.insert("metadata".to_owned(), Value::Object(metadata));
        let status = status.map(|status| {
            let mut body = identity_body(&id);
            if let Some(map) = body.as_object_mut() {
                map.insert("status".to_owned(), status);
            }
            body
        });
        let repairs = reference == ReferenceKind::Template
            && observed.is_some_and(|object| is_only_ours(object, owner));
        Ok(Desired { id, object: Value::Object(object), status, hash: digest, repairs })
    }

    /// Whether the observed object is what we want, judged by its annotation and content alone.
    pub(crate) fn matches(&self, node: &Node, owner: &Owner, observed: &Value) -> bool {
        let keys =
            [HASH_ANNOTATION.to_owned(), owner.annotation(&node.id, ReferenceKind::Patch, HASH_ANNOTATION)];
        let recorded = keys.iter().any(|key| annotation(observed, key) == Some(self.hash.as_str()));
        let status = self.status.as_ref().and_then(|body| body.get("status"));
        recorded
            && drift::covers(observed, &self.object)
            && status.is_none_or(|want| observed.get("status").is_some_and(|have| drift::covers(have, want)))
    }

    /// The write that brings the object about.
    pub(crate) fn action(&self, node: &Node) -> Action {
        let (id, object, status) = (self.id.clone(), self.object.clone(), self.status.clone());
        match node.kind {
            NodeKind::Patch => Action::Patch { node: node.id.clone(), id, object, status },
            _ => {
                Action::Apply { node: node.id.clone(), id, object, status, force: node.force || self.repairs }
            }
        }
    }

    /// Hash of the observed object seen through our shape.
    pub(crate) fn projection(&self, observed: &Value) -> u64 {
        projection(observed, &self.object, self.status.as_ref())
    }
}

/// Whether nobody else applies the object. A change made by hand is drift and is put right; a field that another
/// applier claims is a conflict of two intents, which only people can resolve.
fn is_only_ours(object: &Value, owner: &Owner) -> bool {
    let manager = owner.field_manager();
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.into_iter().flatten().all(|entry| {
        text_at(entry, &["operation"]) != Some("Apply")
            || text_at(entry, &["manager"]) == Some(manager.as_str())
    })
}

/// Hash of the observed object seen through what was applied.
pub(crate) fn projection(observed: &Value, object: &Value, status: Option<&Value>) -> u64 {
    let main = drift::projection_hash(observed, object);
    match status {
        Some(body) => main.rotate_left(1) ^ drift::projection_hash(observed, body),
        None => main,
    }
}

/// `apiVersion`, `kind`, name and namespace.
pub(crate) fn identity_body(id: &ObjectId) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(id.name));
    if let Some(namespace) = &id.namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    json!({ "apiVersion": id.gvk.api_version(), "kind": id.gvk.kind, "metadata": metadata })
}

/// An object that was there before us stays when we go, so what we found has to be remembered on it.
fn reference_kind(node: &Node, owner: &Owner, observed: Option<&Value>) -> ReferenceKind {
    if node.kind == NodeKind::Patch {
        return ReferenceKind::Patch;
    }
    let Some(observed) = observed else { return ReferenceKind::Template };
    let marks = Marks::read(observed, &owner.uid);
    if marks.ours.values().any(|kind| *kind == ReferenceKind::Template) {
        ReferenceKind::Template
    } else {
        ReferenceKind::Adopted
    }
}

fn entries(metadata: &mut Map<String, Value>, field: &str) -> Result<Map<String, Value>, String> {
    match metadata.remove(field) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => match map.keys().find(|key| is_reserved_key(key)) {
            Some(key) => Err(format!("metadata.{field}: `{key}` is reserved for the Graph")),
            None => Ok(map),
        },
        Some(_) => Err(format!("metadata.{field} must be a map of strings")),
    }
}
