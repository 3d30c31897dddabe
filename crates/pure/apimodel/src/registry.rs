//! The registry: which kinds are served, in which versions, with which schemas.
//!
//! Built-in kinds come from [`crate::builtin`]; custom ones come and go with their CustomResourceDefinitions.
//! A registry never changes: a CRD write makes a new one that shares everything else. It holds no objects.

pub mod conditions;
pub mod crd;
mod kinds;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::builtin::{Kind, NameRule};
use crate::model::ResourceName;
use crate::object::Object;
use crate::schema::Schema;
use crate::status::Status;

/// The resource name of CustomResourceDefinitions.
pub const CRD_RESOURCE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// One kind with all its versions.
#[derive(Debug)]
pub struct Definition {
    /// `plural.group`, or `plural` for the core group.
    pub name: ResourceName,
    /// The API group, empty for core.
    pub group: String,
    /// The plural, as in URLs.
    pub plural: String,
    /// The singular, as `kubectl get` takes it.
    pub singular: String,
    /// The kind.
    pub kind: String,
    /// The kind of lists.
    pub list_kind: String,
    /// Short names.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether it comes from a CRD.
    pub custom: bool,
    /// Whether its CRD is being deleted: nothing new may be created.
    pub terminating: bool,
    /// The versions, best first; unserved ones included.
    pub versions: Vec<Arc<Version>>,
    /// The version in which objects are stored.
    pub storage: String,
    /// Whether a PUT needs no `resourceVersion`.
    pub unconditional_update: bool,
    /// Whether a PUT may create.
    pub create_on_update: bool,
    /// Whether the API keeps `metadata.generation`.
    pub has_generation: bool,
    /// What names must look like.
    pub name_rule: NameRule,
}

/// One version of a kind.
#[derive(Debug)]
pub struct Version {
    /// `v1`
    pub name: String,
    /// Whether the API answers for it.
    pub served: bool,
    /// The schema of whole objects, and what else is known about a built-in kind.
    pub shape: Shape,
    /// Whether `/status` exists.
    pub status: bool,
    /// `/scale`, if it exists.
    pub scale: Option<Scale>,
    /// Extra subresources that the model knows (`finalize`).
    pub subresources: Vec<String>,
    /// `additionalPrinterColumns` as the CRD has them.
    pub columns: Vec<Value>,
    /// Field selectors besides `metadata.name` and `metadata.namespace`, e.g. `spec.phase`.
    pub selectable: Vec<String>,
    /// The text of the deprecation warning, if deprecated.
    pub deprecation: Option<String>,
    /// The `openAPIV3Schema` of a CRD version as written; null for built-in kinds.
    pub openapi: Arc<Value>,
}

/// Where the schema of a version comes from.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Compiled from a CRD.
    Custom(Arc<Schema>),
    /// A built-in kind, parsed on first use.
    Builtin(&'static Kind),
}

impl Version {
    /// The schema of whole objects.
    pub fn schema(&self) -> Arc<Schema> {
        match &self.shape {
            Shape::Custom(schema) => Arc::clone(schema),
            Shape::Builtin(kind) => kind.schema(),
        }
    }

    /// The table entry of a built-in kind.
    pub fn builtin(&self) -> Option<&'static Kind> {
        match &self.shape {
            Shape::Custom(_) => None,
            Shape::Builtin(kind) => Some(kind),
        }
    }
}

/// Where a scale subresource finds its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `.spec.replicas`
    pub spec_replicas: String,
    /// `.status.replicas`
    pub status_replicas: String,
    /// Path of the label selector in text form, if any.
    pub selector: Option<String>,
}

/// All kinds.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    definitions: BTreeMap<ResourceName, Arc<Definition>>,
    kinds: BTreeMap<(String, String), ResourceName>,
}

impl Definition {
    /// `Kind.group`, as `Invalid` errors name kinds.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// `group/version` of one of its versions.
    pub fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }

    /// `group/version` that objects are stored in.
    pub fn storage_api_version(&self) -> String {
        api_version(&self.group, &self.storage)
    }

    /// A version by its name, served or not.
    pub fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|v| v.name == name)
    }

    /// The served versions, best first.
    pub fn served(&self) -> impl Iterator<Item = &Arc<Version>> {
        self.versions.iter().filter(|v| v.served)
    }
}

impl Registry {
    /// The built-in kinds alone.
    pub fn builtin() -> Registry {
        let mut registry = Registry::default();
        for definition in kinds::definitions() {
            registry.insert(definition);
        }
        registry
    }

    /// A registry with the established ones of `crds` added.
    #[must_use]
    pub fn with_definitions(mut self, crds: impl IntoIterator<Item = Arc<Object>>) -> Registry {
        for object in crds {
            if let Some(definition) = crd::established(&object.value(), None) {
                self.insert(Arc::new(definition));
            }
        }
        self
    }

    /// A registry with one kind added or replaced.
    #[must_use]
    pub fn with(&self, definition: Arc<Definition>) -> Registry {
        let mut next = self.without(&definition.name);
        next.insert(definition);
        next
    }

    /// A registry without one kind.
    #[must_use]
    pub fn without(&self, name: &str) -> Registry {
        let mut next = self.clone();
        next.definitions.remove(name);
        next.kinds.retain(|_, resource| &**resource != name);
        next
    }

    fn insert(&mut self, definition: Arc<Definition>) {
        let key = (definition.group.clone(), definition.kind.clone());
        self.kinds.insert(key, Arc::clone(&definition.name));
        self.definitions.insert(Arc::clone(&definition.name), definition);
    }

    /// A kind by `plural.group`.
    pub fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        self.definitions.get(name)
    }

    /// All kinds, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions.values()
    }

    /// The kind and version behind a URL.
    pub fn resolve(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<(Arc<Definition>, Arc<Version>), Status> {
        let found = if group.is_empty() {
            self.definitions.get(plural)
        } else {
            self.definitions.get(format!("{plural}.{group}").as_str())
        };
        let definition =
            found.filter(|d| d.group == group && d.plural == plural).ok_or_else(Status::no_such_resource)?;
        let version =
            definition.version(version).filter(|v| v.served).ok_or_else(Status::no_such_resource)?;
        Ok((Arc::clone(definition), Arc::clone(version)))
    }

    /// A kind by the `apiVersion` and `kind` of an object or reference.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Definition>> {
        let (group, version) = split_api_version(api_version);
        let name = self.kinds.get(&(group.to_owned(), kind.to_owned()))?;
        let definition = self.definitions.get(name)?;
        definition.version(version).filter(|v| v.served)?;
        Some(definition)
    }

    /// The groups that are served, each with its versions, best first.
    pub fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for definition in self.definitions.values() {
            let versions = groups.entry(&definition.group).or_default();
            for version in definition.served() {
                if !versions.contains(&version.name.as_str()) {
                    versions.push(&version.name);
                }
            }
        }
        groups.retain(|_, versions| !versions.is_empty());
        for versions in groups.values_mut() {
            versions.sort_by(|a, b| compare_versions(a, b));
        }
        groups
    }
}

/// `group/version`, or `version` for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The group and version of an `apiVersion`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Kubernetes' order of versions, best first: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then others by name.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(x), Some(y)) => y.cmp(&x),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// (stability, major, minor) of a kube-like version.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = |text: &str| -> Option<u64> {
        let plain = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit());
        if plain { text.parse().ok() } else { None }
    };
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, digits(major)?, digits(minor)?));
        }
    }
    Some((2, digits(rest)?, 0))
}
