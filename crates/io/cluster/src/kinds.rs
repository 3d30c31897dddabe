//! Which kinds the server serves, under which path and in which scope.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use kardinal_object::{Gvk, KindScope, can_be_name};
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
        // Users write them; what cannot be a group or a version is served by nobody.
        if !(gvk.group.is_empty() || can_be_name(&gvk.group)) || !can_be_name(&gvk.version) {
            return Ok(None);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_a_group_or_a_version_is_asked_of_nobody() {
        let refuses = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let asked = std::io::Error::other(format!("asked for {}", request.uri()));
            Err::<http::Response<kube::client::Body>, _>(asked)
        });
        let kinds = Kinds::new(kube::Client::new(refuses, "default"));
        for (api_version, asked) in [
            ("v1", true),
            ("example.com/v1", true),
            ("v1?watch=true", false),
            ("v1#", false),
            ("..", false),
            ("../v1", false),
            ("a b/v1", false),
        ] {
            let gvk = Gvk::parse(api_version, "Secret").expect("a kind");
            assert_eq!(kinds.resolve(&gvk).await.is_err(), asked, "{api_version}");
        }
    }
}
