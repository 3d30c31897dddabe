//! `POST /api/v1/bundles`: CI hands over a new version.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline};
use kardinal_planner::intent::{self, BundleRequest, Problem};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::Web;

/// The header that signs the body.
const SIGNATURE: &str = "x-kardinal-signature";
/// Asking twice with the same key makes one Bundle.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub(super) async fn create(State(web): State<Arc<Web>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = admit(&web, &headers, &body) {
        return *refusal;
    }
    let request: BundleRequest = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return wrong(&[Problem::new("body", error.to_string(), "send JSON as docs/reference/http.md shows")]),
    };
    let namespace = request.namespace.clone().unwrap_or_else(|| "default".to_owned());
    if let Err(wait) = web.limits.take(&namespace, &request.pipeline, Instant::now()) {
        let seconds = wait.as_secs().saturating_add(1).to_string();
        let message = format!("more than 100 Bundles a minute for Pipeline `{}`", request.pipeline);
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds)], error(&message)).into_response();
    }
    match make(&web, &namespace, &request, &headers).await {
        Ok(response) | Err(response) => response,
    }
}

/// Who calls, and whether the body is theirs: both are needed.
fn admit(web: &Web, headers: &HeaderMap, body: &[u8]) -> Result<(), Box<Response>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = text("authorization").strip_prefix("Bearer ").unwrap_or_default();
    if !web.keys.admits(token) {
        let message = "the bearer token is missing or wrong";
        return Err(Box::new((StatusCode::UNAUTHORIZED, error(message)).into_response()));
    }
    if !web.keys.signed(body, text(SIGNATURE)) {
        let message = "`X-Kardinal-Signature: sha256=<hex>` must be the HMAC-SHA256 of the body with the signing key";
        return Err(Box::new((StatusCode::UNAUTHORIZED, error(message)).into_response()));
    }
    Ok(())
}

async fn make(
    web: &Web,
    namespace: &str,
    request: &BundleRequest,
    headers: &HeaderMap,
) -> Result<Response, Response> {
    let pipelines: Api<Pipeline> = Api::namespaced(web.client.clone(), namespace);
    let pipeline = pipelines.get_opt(&request.pipeline).await.map_err(|error| unreachable(&error))?;
    let Some(pipeline) = pipeline else {
        let message = format!("there is no Pipeline `{}` in namespace `{namespace}`", request.pipeline);
        return Err(wrong(&[Problem::new("pipeline", message, "create the Pipeline first")]));
    };
    let key = headers.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let bundle = intent::bundle_of_request(&pipeline, request, key, "api", Timestamp::now()).map_err(|problems| wrong(&problems))?;
    let bundles: Api<Bundle> = Api::namespaced(web.client.clone(), namespace);
    match bundles.create(&PostParams::default(), &bundle).await {
        Ok(made) => Ok(answer(StatusCode::CREATED, &made)),
        Err(kube::Error::Api(status)) if status.code == 409 => again(&bundles, &bundle).await,
        Err(kube::Error::Api(status)) if status.code == 422 || status.code == 400 => {
            Err(wrong(&[Problem::new("body", status.message.clone(), "mend the field that is named")]))
        }
        Err(error) => Err(unreachable(&error)),
    }
}

/// The name is taken: by the same request, or by another one.
async fn again(bundles: &Api<Bundle>, wanted: &Bundle) -> Result<Response, Response> {
    let name = wanted.metadata.name.as_deref().unwrap_or_default();
    let found = bundles.get(name).await.map_err(|error| unreachable(&error))?;
    let same = found.spec.artifacts == wanted.spec.artifacts && found.spec.intent == wanted.spec.intent;
    match same {
        true => Ok(answer(StatusCode::OK, &found)),
        false => Err((StatusCode::CONFLICT, error("the idempotency key was used for another Bundle")).into_response()),
    }
}

fn answer(code: StatusCode, bundle: &Bundle) -> Response {
    let body = json!({"name": bundle.metadata.name, "namespace": bundle.metadata.namespace});
    (code, Json(body)).into_response()
}

fn error(message: &str) -> Json<serde_json::Value> {
    Json(json!({"error": message}))
}

fn wrong(problems: &[Problem]) -> Response {
    let errors: Vec<_> = problems
        .iter()
        .map(|problem| json!({"field": problem.field, "message": problem.message, "hint": problem.hint}))
        .collect();
    let body = json!({"error": "the request cannot be used as it stands", "errors": errors});
    (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
}

fn unreachable(cause: &kube::Error) -> Response {
    tracing::warn!(error = %cause, "the API server did not take a Bundle");
    (StatusCode::SERVICE_UNAVAILABLE, error("the API server does not answer; try again")).into_response()
}
