//! Questions about oneself: who am I, may I. Until roles are decided there is one user, the admin, who may do all.

use axum::body::Body;
use http::{Response, StatusCode};
use kardinal_apimodel::Status;
use serde_json::{Value, json};

use super::body::read;
use super::path::ResourcePath;
use super::write::{object, refuse};
use super::{App, Head, respond};

/// The name of the one user.
pub(crate) const ADMIN: &str = "kardinal-admin";

/// Whether a path is one of the review resources, which are answered and never stored.
pub(crate) fn is_review(path: &ResourcePath) -> bool {
    path.name.is_none() && path.version == "v1" && kind(path).is_some()
}

fn kind(path: &ResourcePath) -> Option<&'static str> {
    match (path.group.as_str(), path.resource.as_str(), path.namespace.is_some()) {
        ("authentication.k8s.io", "selfsubjectreviews", false) => Some("SelfSubjectReview"),
        ("authorization.k8s.io", "selfsubjectaccessreviews", false) => Some("SelfSubjectAccessReview"),
        ("authorization.k8s.io", "selfsubjectrulesreviews", false) => Some("SelfSubjectRulesReview"),
        _ => None,
    }
}

/// Answers a review with what was asked plus a status.
pub(crate) async fn answer(
    app: &App,
    path: &ResourcePath,
    head: &Head,
    body: Body,
) -> Result<Response<Body>, Status> {
    let kind = kind(path).ok_or_else(Status::no_such_resource)?;
    let bytes = read(body, app.limits.body).await.map_err(refuse)?;
    let asked = object(head, &bytes)?.value;
    let review = review(kind, &format!("{}/{}", path.group, path.version), &asked);
    Ok(respond::json(StatusCode::CREATED, &review))
}

fn review(kind: &str, api_version: &str, asked: &Value) -> Value {
    let status = match kind {
        "SelfSubjectReview" => json!({
            "userInfo": {"username": ADMIN, "groups": ["system:masters", "system:authenticated"]}
        }),
        "SelfSubjectAccessReview" => json!({"allowed": true, "reason": "the admin may do everything"}),
        _ => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
    };
    json!({
        "kind": kind,
        "apiVersion": api_version,
        "metadata": {"creationTimestamp": null},
        "spec": asked.get("spec").cloned().unwrap_or_else(|| json!({})),
        "status": status,
    })
}
