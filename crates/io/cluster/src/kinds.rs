//! Which kinds the server serves, under which path and in which scope.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use kardinal_object::{Gvk, KindScope};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope};

/// A kind that the server serves.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Path and plural name.
    pub resource: ApiResource,
    /// Whether its objects live in a namespace.
    pub scope: KindScope,
}

impl Resolved {
    /// The path of the kind's objects: in one namespace, or everywhere.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let ApiResource { api_version, plural, .. } = &self.resource;
        let root = if self.resource.group.is_empty() { "api" } else { "apis" };
        match namespace {
            Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{api_version}/{plural}"),
        }
    }
}

/// Looks kinds up once and remembers those that exist.
pub struct Kinds {
    client: kube::Client,
    known: RwLock<BTreeMap<Gvk, Resolved>>,
}

impl Kinds {
    /// Nothing is known yet.
    pub fn new(client: kube::Client) -> Kinds {
        Kinds { client, known: RwLock::default() }
    }

    /// The kind, asking the server when it is not known. `None`: the server does not serve it.
    pub async fn resolve(&self, gvk: &Gvk) -> Result<Option<Resolved>, kube::Error> {
        if let Some(resolved) = self.known(gvk) {
            return Ok(Some(resolved));
        }
        let wanted = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        match kube::discovery::pinned_kind(&self.client, &wanted).await {
            Ok((resource, capabilities)) => {
                let scope = match capabilities.scope {
                    Scope::Cluster => KindScope::Cluster,
                    Scope::Namespaced => KindScope::Namespaced,
                };
                let resolved = Resolved { resource, scope };
                self.write().insert(gvk.clone(), resolved.clone());
                Ok(Some(resolved))
            }
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The kind, if it has been looked up before.
    pub fn known(&self, gvk: &Gvk) -> Option<Resolved> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(gvk).cloned()
    }

    /// Forgets a kind, for instance because its definition was deleted.
    pub fn forget(&self, gvk: &Gvk) {
        self.write().remove(gvk);
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Gvk, Resolved>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
