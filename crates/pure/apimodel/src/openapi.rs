//! The OpenAPI documents that clients read: v3 per group and version, v2 in one piece.
//!
//! Everything here is a pure function of the served kinds, so the caller may cache the bytes until a CRD changes. The
//! components of built-in kinds are copied as text and never parsed for v3.

mod gnostic;
mod paths;
mod v2;
mod v3;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use self::gnostic::{ANSWER_TYPE as V2_PROTOBUF_ANSWER, MEDIA_TYPE as V2_PROTOBUF, v2_protobuf};
pub use self::v2::v2_document;
pub use self::v3::{v3_document, v3_index};

/// One served version of a kind, as the documents describe it.
#[derive(Clone, Debug)]
pub struct ApiKind<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind of lists.
    pub list_kind: &'a str,
    /// The plural, as in URLs.
    pub plural: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `/status` exists.
    pub status: bool,
    /// Whether `/scale` exists.
    pub scale: bool,
    /// The `openAPIV3Schema` of a CRD version; `None` for a built-in kind.
    pub schema: Option<&'a Value>,
}

impl ApiKind<'_> {
    /// The name of the component that describes the kind.
    pub fn component(&self) -> String {
        if self.schema.is_none()
            && let Some(kind) = crate::builtin::kind(self.group, self.version, self.kind)
        {
            return kind.component.to_owned();
        }
        let reversed: Vec<&str> = self.group.rsplit('.').collect();
        format!("{}.{}.{}", reversed.join("."), self.version, self.kind)
    }

    /// The name of the component that describes lists of the kind.
    pub fn list_component(&self) -> String {
        let component = self.component();
        let prefix = component.strip_suffix(self.kind).unwrap_or(&component);
        format!("{prefix}{}", self.list_kind)
    }

    fn gvk(&self) -> Value {
        serde_json::json!({"group": self.group, "version": self.version, "kind": self.kind})
    }

    /// The schema of a custom kind as published: with `apiVersion`, `kind`, `metadata` and its group, version and kind.
    fn published(&self, schema: &Value, reference: &str) -> Value {
        let mut out = if schema.is_object() { schema.clone() } else { serde_json::json!({"type": "object"}) };
        let Some(map) = out.as_object_mut() else { return out };
        map.entry("type").or_insert_with(|| Value::from("object"));
        map.insert("x-kubernetes-group-version-kind".to_owned(), Value::Array(vec![self.gvk()]));
        let properties = map.entry("properties").or_insert_with(|| serde_json::json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".to_owned(), described("string", API_VERSION));
            properties.insert("kind".to_owned(), described("string", KIND));
            let meta = format!("{reference}{OBJECT_META}");
            properties.insert(
                "metadata".to_owned(),
                serde_json::json!({"allOf": [{"$ref": meta}], "description": METADATA}),
            );
        }
        out
    }

    fn published_list(&self, reference: &str) -> Value {
        let item = format!("{reference}{}", self.component());
        let meta = format!("{reference}{LIST_META}");
        serde_json::json!({
            "description": format!("{} is a list of {}", self.list_kind, self.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": described("string", API_VERSION),
                "kind": described("string", KIND),
                "metadata": {"allOf": [{"$ref": meta}], "description": METADATA},
                "items": {"type": "array", "items": {"allOf": [{"$ref": item}]}, "description": format!("List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", self.plural)},
            },
            "x-kubernetes-group-version-kind": [{"group": self.group, "version": self.version, "kind": self.list_kind}],
        })
    }
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn described(ty: &str, description: &str) -> Value {
    serde_json::json!({"type": ty, "description": description})
}

/// The hash of a document, for the index and for `ETag`.
pub fn document_hash(document: &[u8]) -> String {
    Sha256::digest(document).iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests;
