//! `Object`: one stored version of one object, as text plus what is asked about it all the time.
//!
//! Readers share it through an `Arc`; lists and watches concatenate [`Object::json`] instead of serialising again. The
//! parsed tree takes ten times the memory of the text, so it is not kept: [`Object::value`] parses when somebody needs the
//! whole. An `Object` never changes: a write makes a new one.

pub(crate) mod events;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::status::Status;

/// An immutable stored object.
#[derive(Debug)]
pub struct Object {
    json: Box<[u8]>,
    resource_version: u64,
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    finalizers: Box<[Box<str>]>,
    owners: Box<[OwnerReference]>,
    terminating: bool,
}

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference {
    /// `apiVersion`
    pub api_version: Box<str>,
    /// `kind`
    pub kind: Box<str>,
    /// `name`
    pub name: Box<str>,
    /// `uid`
    pub uid: Box<str>,
    /// `blockOwnerDeletion`
    pub blocks: bool,
}

impl Object {
    /// Serialises `value`; its `metadata.resourceVersion` is read back as the object's version.
    pub fn new(value: &Value) -> Object {
        Object::from_parts(serde_json::to_vec(value).unwrap_or_default().into_boxed_slice(), value)
    }

    /// Reads an object that was stored as JSON text.
    pub fn from_json(json: &[u8]) -> Result<Object, serde_json::Error> {
        let value: Value = serde_json::from_slice(json)?;
        Ok(Object::from_parts(json.into(), &value))
    }

    fn from_parts(json: Box<[u8]>, value: &Value) -> Object {
        let metadata = value.get("metadata").unwrap_or(&Value::Null);
        let list = |field: &str| metadata.get(field).and_then(Value::as_array).into_iter().flatten();
        let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
        Object {
            json,
            resource_version: text(metadata, "resourceVersion").parse().unwrap_or_default(),
            api_version: text(value, "apiVersion").into(),
            kind: text(value, "kind").into(),
            name: text(metadata, "name").into(),
            namespace: text(metadata, "namespace").into(),
            uid: text(metadata, "uid").into(),
            labels: labels.filter_map(|(k, v)| Some((k.as_str().into(), v.as_str()?.into()))).collect(),
            finalizers: list("finalizers").filter_map(Value::as_str).map(Box::from).collect(),
            owners: list("ownerReferences").map(OwnerReference::new).collect(),
            terminating: metadata.get("deletionTimestamp").is_some_and(|v| !v.is_null()),
        }
    }

    /// The whole object, parsed; this costs as much as reading the text does.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or(Value::Null)
    }

    /// The serialised form, in the storage version.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// The serialised form with another `apiVersion`: with conversion strategy None nothing else differs.
    pub fn json_as(&self, api_version: &str) -> Cow<'_, [u8]> {
        if self.api_version() == api_version {
            return Cow::Borrowed(&self.json);
        }
        if api_version == events::ALIAS_VERSION {
            return Cow::Owned(serde_json::to_vec(&self.value_as(api_version)).unwrap_or_default());
        }
        let prefix = format!("{{\"apiVersion\":\"{}\"", self.api_version());
        let mut out = format!("{{\"apiVersion\":\"{api_version}\"").into_bytes();
        if let Some(rest) = self.json.strip_prefix(prefix.as_bytes()) {
            out.extend_from_slice(rest);
            return Cow::Owned(out);
        }
        Cow::Owned(serde_json::to_vec(&self.value_as(api_version)).unwrap_or_default())
    }

    /// The parsed form with another `apiVersion`.
    pub fn value_as(&self, api_version: &str) -> Value {
        let mut value = self.value();
        if api_version == events::ALIAS_VERSION {
            events::to_alias(&mut value);
        } else if self.api_version() != api_version
            && let Value::Object(map) = &mut value
        {
            map.insert("apiVersion".into(), api_version.into());
        }
        value
    }

    /// `metadata.resourceVersion` as a number.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// `apiVersion`
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// `kind`
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// `metadata`, parsed.
    pub fn metadata(&self) -> Value {
        #[derive(Deserialize)]
        struct Outer {
            #[serde(default)]
            metadata: Value,
        }
        serde_json::from_slice::<Outer>(&self.json).map(|outer| outer.metadata).unwrap_or_default()
    }

    /// `metadata.name`
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `metadata.namespace`, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `metadata.uid`
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// `metadata.labels`
    pub fn labels(&self) -> Labels<'_> {
        Labels(&self.labels)
    }

    /// Whether `metadata.deletionTimestamp` is set.
    pub fn terminating(&self) -> bool {
        self.terminating
    }

    /// `metadata.finalizers`
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.finalizers.iter().map(|f| &**f)
    }

    /// `metadata.ownerReferences`
    pub fn owner_references(&self) -> impl Iterator<Item = &OwnerReference> {
        self.owners.iter()
    }
}

impl OwnerReference {
    fn new(value: &Value) -> OwnerReference {
        OwnerReference {
            api_version: text(value, "apiVersion").into(),
            kind: text(value, "kind").into(),
            name: text(value, "name").into(),
            uid: text(value, "uid").into(),
            blocks: value.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true),
        }
    }
}

/// The labels of an object, borrowed, sorted by key.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a>(&'a [(Box<str>, Box<str>)]);

impl<'a> Labels<'a> {
    /// One label's value.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    /// All labels, for callers that need a map of their own.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }
}

/// Reads a version number as clients send it; the error is kube's.
pub fn parse_resource_version(text: &str) -> Result<u64, Status> {
    text.parse().map_err(|_| {
        Status::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing {}: invalid syntax",
            crate::status::quoted(text)
        ))
    })
}

/// A string field of a map, empty when absent.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
