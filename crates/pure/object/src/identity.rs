//! What objects are called: kinds and addresses.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::read::text_at;

/// Group, version and kind of an object. Those of our own kinds are known at compile time and cost nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// API version, for example `v1`.
    pub version: Cow<'static, str>,
    /// Kind, for example `ConfigMap`.
    pub kind: Cow<'static, str>,
}

impl Gvk {
    /// Reads `apiVersion` (`v1` or `group/v1`) and a kind; `None` when either cannot be one.
    pub fn parse(api_version: &str, kind: &str) -> Option<Gvk> {
        let (group, version) = match api_version.split_once('/') {
            Some((group, version)) if !group.is_empty() && !version.contains('/') => (group, version),
            Some(_) => return None,
            None => ("", api_version),
        };
        if version.is_empty() || kind.is_empty() {
            return None;
        }
        let owned = |text: &str| Cow::Owned(text.to_owned());
        Some(Gvk { group: owned(group), version: owned(version), kind: owned(kind) })
    }

    /// The `apiVersion` field: `v1`, or `group/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.api_version())
    }
}

/// The address of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectId {
    /// What it is.
    pub gvk: Gvk,
    /// Where it is; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// What it is called.
    pub name: String,
}

impl ObjectId {
    /// The address of an object as the server returns it; `None` when a part is missing.
    pub fn of(object: &Value) -> Option<ObjectId> {
        let gvk = Gvk::parse(text_at(object, &["apiVersion"])?, text_at(object, &["kind"])?)?;
        let name = text_at(object, &["metadata", "name"])?.to_owned();
        let namespace = text_at(object, &["metadata", "namespace"]).map(str::to_owned);
        Some(ObjectId { gvk, namespace, name })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.gvk.kind, self.name),
            None => write!(f, "{} {}", self.gvk.kind, self.name),
        }
    }
}

/// Whether objects of a kind live in namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    /// Objects have a namespace.
    Namespaced,
    /// Objects have none.
    Cluster,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_api_version_and_kind() {
        let check = |version: &str, kind: &str, shown: Option<&str>| {
            let gvk = Gvk::parse(version, kind);
            assert_eq!(gvk.as_ref().map(ToString::to_string).as_deref(), shown);
            assert_eq!(gvk.map(|gvk| gvk.api_version()).unwrap_or(version.to_owned()), version);
        };
        check("v1", "Pod", Some("Pod (v1)"));
        check("apps/v1", "Deployment", Some("Deployment (apps/v1)"));
        check("", "Pod", None);
        check("v1", "", None);
        check("/v1", "Pod", None);
        check("a/b/c", "Pod", None);
    }
}
