//! `POST /api/v1/bundles`: CI hands over a new version.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, Pipeline};
use kardinal_planner::intent::{self, BundleRequest, Problem};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::Web;
use super::keys::bearer;
use super::limits::BURST;

/// The header that signs the body.
const SIGNATURE: &str = "x-kardinal-signature";
/// Asking twice with the same key makes one Bundle.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Bundles are named by the second; so many later seconds are tried when that name is taken.
const TRIES: i64 = 5;

pub(super) async fn create(
    State(web): State<Arc<Web>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return told(rejection.status(), &rejection.body_text()),
    };
    if let Err(message) = admit(&web, &headers, &body) {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], error(message))
            .into_response();
    }
    let request = match read(&body) {
        Ok(request) => request,
        Err(problems) => return wrong(&problems),
    };
    let namespace = request.namespace.as_deref().unwrap_or("default");
    if let Err(wait) = web.limits.take(namespace, &request.pipeline, Instant::now()) {
        let seconds = wait.as_secs().saturating_add(1).to_string();
        let message = format!("more than {BURST} requests a minute for Pipeline `{}`", request.pipeline);
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds)], error(&message))
            .into_response();
    }
    match make(&web, namespace, &request, headers.get(IDEMPOTENCY_KEY)).await {
        Ok(response) => response,
        Err(response) => *response,
    }
}

/// Who calls, and whether the body is theirs: both are needed.
fn admit(web: &Web, headers: &HeaderMap, body: &[u8]) -> Result<(), &'static str> {
    if !bearer(headers).is_some_and(|token| web.keys.admits(token)) {
        return Err("the bearer token is missing or wrong");
    }
    let signature = headers.get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !web.keys.signed(body, signature) {
        return Err(
            "`X-Kardinal-Signature: sha256=<hex>` must be the HMAC-SHA256 of the body with the signing key",
        );
    }
    Ok(())
}

fn read(body: &[u8]) -> Result<BundleRequest, Vec<Problem>> {
    let json = serde_json::from_slice(body).map_err(|error| {
        vec![Problem::new("body", format!("it is not JSON: {error}")).hint("send a JSON object")]
    })?;
    BundleRequest::read(&json)
}

async fn make(
    web: &Web,
    namespace: &str,
    request: &BundleRequest,
    key: Option<&http::HeaderValue>,
) -> Result<Response, Box<Response>> {
    let refuse = |problem: Problem| Box::new(wrong(&[problem]));
    let key = key.map(|value| value.to_str()).transpose().map_err(|_| {
        refuse(Problem::new("Idempotency-Key", "has characters that are not printable ASCII"))
    })?;
    let pipelines: Api<Pipeline> = Api::namespaced(web.client.clone(), namespace);
    let pipeline = pipelines.get_opt(&request.pipeline).await.map_err(|error| failed(&error))?;
    let Some(pipeline) = pipeline else {
        let message = format!("there is no Pipeline `{}` in namespace `{namespace}`", request.pipeline);
        return Err(refuse(Problem::new("pipeline", message).hint("create the Pipeline first")));
    };
    let bundles: Api<Bundle> = Api::namespaced(web.client.clone(), namespace);
    let now = Timestamp::now();
    for later in 0..TRIES {
        let instant = now + SignedDuration::from_secs(later);
        let bundle = intent::bundle_of_request(&pipeline, request, key, "api", instant).map_err(refuse)?;
        match bundles.create(&PostParams::default(), &bundle).await {
            Ok(made) => return Ok(answer(StatusCode::CREATED, &made)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(failed(&error)),
        }
        // The name is taken: by the same request, or by another one.
        let name = bundle.metadata.name.as_deref().unwrap_or_default();
        let found = bundles.get_opt(name).await.map_err(|error| failed(&error))?;
        if let Some(found) = found.filter(|found| intent::is_answer_to(found, &bundle)) {
            return Ok(answer(StatusCode::OK, &found));
        }
        if key.is_some() {
            break;
        }
    }
    let message = match key {
        Some(_) => "the idempotency key was used for another Bundle: send another key",
        None => "other Bundles of this version were created in this very second: try again",
    };
    Err(Box::new(told(StatusCode::CONFLICT, message)))
}

fn answer(code: StatusCode, bundle: &Bundle) -> Response {
    let body = json!({"name": bundle.metadata.name, "namespace": bundle.metadata.namespace});
    (code, Json(body)).into_response()
}

fn error(message: &str) -> Json<serde_json::Value> {
    Json(json!({"error": message}))
}

fn told(code: StatusCode, message: &str) -> Response {
    (code, error(message)).into_response()
}

fn wrong(problems: &[Problem]) -> Response {
    let errors: Vec<_> = problems
        .iter()
        .map(|problem| json!({"field": problem.field, "message": problem.message, "hint": problem.hint}))
        .collect();
    let body = json!({"error": "the request cannot be used as it stands", "errors": errors});
    (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response()
}

/// What the API server answered: a refusal concerns the caller, anything else does not.
fn failed(cause: &kube::Error) -> Box<Response> {
    Box::new(match cause {
        kube::Error::Api(status) if status.code == 422 || status.code == 400 => {
            wrong(&[Problem::new("body", status.message.clone()).hint("mend the field that is named")])
        }
        cause => {
            tracing::warn!(error = %cause, "the API server did not take a Bundle");
            told(StatusCode::SERVICE_UNAVAILABLE, "the API server does not take it now; try again")
        }
    })
}
