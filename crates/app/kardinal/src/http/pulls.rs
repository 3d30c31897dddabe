//! The local forge's side doors: who may push where, and what a pull request changes.

use std::sync::Arc;

use axum::extract::{Path, State};
use http::{HeaderMap, StatusCode};
use kardinal_api::forge::PullRequest;
use kardinal_forge::{Credentials, Identity, RefChange, same_secret};
use kube::Api;
use kube::api::ListParams;

use super::Web;

/// Asks our own objects who may do what.
pub(super) struct Guard {
    web: Arc<Web>,
}

impl Guard {
    pub(super) fn new(web: Arc<Web>) -> Guard {
        Guard { web }
    }
}

impl kardinal_forge::Guard for Guard {
    fn authenticate(&self, _: &str, _: &str, credentials: &Credentials) -> Option<Identity> {
        let name = credentials.user.clone().filter(|user| !user.is_empty()).unwrap_or_else(|| "somebody".to_owned());
        // Kardinal itself does not come this way, so nobody is trusted to push to protected branches.
        same_secret(&credentials.secret, &self.web.keys.token).then_some(Identity { name, trusted: false })
    }

    fn protected(&self, namespace: &str, name: &str, branch: &str) -> bool {
        self.web.controllers.protects(namespace, name, branch)
    }

    fn pushed(&self, namespace: &str, name: &str, _: &[RefChange]) {
        self.web.controllers.pushed(namespace, name);
    }
}

/// What a pull request changes, in the form of `git diff`.
pub(super) async fn diff(
    State(web): State<Arc<Web>>,
    Path((namespace, repository, number)): Path<(String, String, u64)>,
    headers: HeaderMap,
) -> Result<String, (StatusCode, String)> {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !web.keys.admits(token.strip_prefix("Bearer ").unwrap_or_default()) {
        return Err((StatusCode::UNAUTHORIZED, "the bearer token is missing or wrong".to_owned()));
    }
    let missing = || (StatusCode::NOT_FOUND, format!("there is no pull request {number} in `{repository}`"));
    let forge = web.forge.clone().ok_or_else(missing)?;
    let api: Api<PullRequest> = Api::namespaced(web.client.clone(), &namespace);
    let failed = |error: &dyn std::fmt::Display| (StatusCode::BAD_GATEWAY, error.to_string());
    let all = api.list(&ListParams::default()).await.map_err(|error| failed(&error))?;
    let found = all.items.into_iter().find(|request| {
        request.spec.repository == repository
            && request.status.as_ref().and_then(|status| status.number) == Some(number)
    });
    let request = found.ok_or_else(missing)?;
    let status = request.status.unwrap_or_default();
    // After a merge the branches have moved on; the commits tell what it was.
    let merged = status.merge_commit.is_some();
    let base = status.base_commit.filter(|_| merged).unwrap_or(request.spec.base);
    let head = status.head_commit.filter(|_| merged).unwrap_or(request.spec.head);
    let read = tokio::task::spawn_blocking(move || forge.store.diff(&namespace, &repository, &base, &head));
    let files = read.await.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
    Ok(files.into_iter().map(|file| file.unified).collect())
}
