//! `POST /api/v1/bundles`: CI hands over a new version.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, Pipeline};
use kardinal_planner::problem::Problem;
use kardinal_promotion::intent::{self, BundleRequest};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::limits::BURST;
use super::signed::{Claim, NoClaim};
use crate::http::Web;
use crate::http::reading::{self, Unread};

/// The largest body that CI may send.
const BODY_LIMIT: usize = 1024 * 1024;
/// Bundles are named by the second of the request; so many later seconds are tried when that name is taken.
const TRIES: i64 = 5;

pub(in crate::http) async fn create(State(web): State<Arc<Web>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let now = Timestamp::now();
    // Without all that a signature needs, nothing of the body is read.
    let claim = match Claim::of(&head.headers, now) {
        Ok(claim) => claim,
        Err(NoClaim::Unproved(message)) => return unauthorized(&message),
        Err(NoClaim::Key) => return plain(StatusCode::BAD_REQUEST, WRONG_KEY),
    };
    let body = match reading::whole(body, BODY_LIMIT).await {
        Ok(body) => body,
        Err(Unread::TooLarge) => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 1 MiB");
        }
        Err(Unread::Broken) => return plain(StatusCode::BAD_REQUEST, "the body broke off"),
    };
    let request = read(&body);
    if let Err(response) = admit(&web, &claim, &body, request.as_ref().ok()).await {
        return *response;
    }
    let request = match request {
        Ok(request) => request,
        Err(problems) => return wrong(&problems),
    };
    let namespace = request.namespace();
    if let Err(wait) = web.limits.take(namespace, &request.pipeline, Instant::now()) {
        let seconds = wait.as_secs().saturating_add(1).to_string();
        let message = format!("more than {BURST} requests a minute for Pipeline `{}`", request.pipeline);
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds)], error(&message))
            .into_response();
    }
    if claim.key.is_none() && !web.copies.is_first(&claim, now) {
        let message = "this very request was here before: send an `Idempotency-Key` to be able to repeat it";
        return plain(StatusCode::CONFLICT, message);
    }
    match make(&web, namespace, &request, &claim).await {
        Ok(response) => response,
        Err(response) => {
            if claim.key.is_none() {
                web.copies.forget(&claim);
            }
            *response
        }
    }
}

/// Who calls, and whether the request is theirs: both are needed. The operator's keys hold everywhere, those of a team
/// where they stand.
async fn admit(
    web: &Web,
    claim: &Claim<'_>,
    body: &[u8],
    request: Option<&BundleRequest>,
) -> Result<(), Box<Response>> {
    let refuse = |message: &str| Box::new(unauthorized(message));
    if claim.is_proved_by(&web.keys.ci, body).map_err(refuse)? {
        return Ok(());
    }
    let Some(request) = request else { return Err(refuse(WRONG_TOKEN)) };
    let keys = web.tenants.keys(request.namespace(), &request.pipeline).await.map_err(|cause| {
        tracing::warn!(error = %cause, "the CI tokens of a namespace cannot be read");
        Box::new(plain(StatusCode::SERVICE_UNAVAILABLE, "tokens cannot be read now; try again"))
    })?;
    match claim.is_proved_by(&keys, body).map_err(refuse)? {
        true => Ok(()),
        false => Err(refuse(WRONG_TOKEN)),
    }
}

const WRONG_KEY: &str = "`Idempotency-Key` is empty or not ASCII: send 1 to 255 characters, or leave it out";
const WRONG_TOKEN: &str = "the bearer token is not one for this Pipeline";

fn unauthorized(message: &str) -> Response {
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], error(message)).into_response()
}

fn read(body: &[u8]) -> Result<BundleRequest, Vec<Problem>> {
    let json = serde_json::from_slice(body).map_err(|error| {
        vec![Problem::new("body", format!("it is not JSON: {error}")).hint("send a JSON object")]
    })?;
    BundleRequest::read(&json)
}

/// Makes the Bundle. What it is called follows from what was signed, so that a copy that reaches another replica finds it.
async fn make(
    web: &Web,
    namespace: &str,
    request: &BundleRequest,
    claim: &Claim<'_>,
) -> Result<Response, Box<Response>> {
    let refuse = |problem: Problem| Box::new(wrong(&[problem]));
    let pipelines: Api<Pipeline> = Api::namespaced(web.client.clone(), namespace);
    let pipeline = pipelines.get_opt(&request.pipeline).await.map_err(|error| failed(&error))?;
    let Some(pipeline) = pipeline else {
        let message = format!("there is no Pipeline `{}` in namespace `{namespace}`", request.pipeline);
        return Err(refuse(Problem::new("pipeline", message).hint("create the Pipeline first")));
    };
    let bundles: Api<Bundle> = Api::namespaced(web.client.clone(), namespace);
    for later in 0..TRIES {
        let instant = claim.made + SignedDuration::from_secs(later);
        let bundle =
            intent::bundle_of_request(&pipeline, request, claim.key, "api", instant).map_err(refuse)?;
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
        if claim.key.is_some() {
            break;
        }
    }
    let message = match claim.key {
        Some(_) => "the idempotency key was used for another Bundle: send another key",
        None => {
            "other Bundles of this version were created in the second of this request: sign it anew and try again"
        }
    };
    Err(Box::new(plain(StatusCode::CONFLICT, message)))
}

fn answer(code: StatusCode, bundle: &Bundle) -> Response {
    let body = json!({"name": bundle.metadata.name, "namespace": bundle.metadata.namespace});
    (code, Json(body)).into_response()
}

fn error(message: &str) -> Json<serde_json::Value> {
    Json(json!({"error": message}))
}

fn plain(code: StatusCode, message: &str) -> Response {
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
            plain(StatusCode::SERVICE_UNAVAILABLE, "the API server does not take it now; try again")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::limits::PerPipeline;
    use super::*;

    #[test]
    fn the_rate_limit_of_ci_is_not_evaded_by_another_spelling_of_a_name() {
        let (limits, now) = (PerPipeline::default(), Instant::now());
        // As the handler does it: what cannot be read is refused, and what can is counted.
        let ask = |names: Value| -> Result<(), String> {
            let mut body = json!({"images": [{"repository": "ghcr.io/myorg/my-app", "tag": "1.29.0"}]});
            for (field, name) in names.as_object().unwrap() {
                body[field] = name.clone();
            }
            let request = read(body.to_string().as_bytes())
                .map_err(|problems| format!("refused: {}", problems.first().unwrap().field))?;
            let taken = limits.take(request.namespace(), &request.pipeline, now);
            taken.map_err(|_| "counted".to_owned())
        };
        for _ in 0..BURST {
            ask(json!({"pipeline": "my-app"})).unwrap();
        }
        let counted = Err("counted".to_owned());
        assert_eq!(ask(json!({"pipeline": "my-app"})), counted);
        assert_eq!(ask(json!({"pipeline": "my-app", "namespace": "default"})), counted);
        let refused = |field: &str| Err(format!("refused: {field}"));
        for name in
            ["my-app?", "my-app?watch=true", "my-app#", "my-app%20", "MY-APP", "my-app ", "./my-app", ""]
        {
            assert_eq!(ask(json!({"pipeline": name})), refused("pipeline"), "{name}");
        }
        for name in ["default/", "DEFAULT", "default%20", "../default", "default ", ""] {
            let names = json!({"pipeline": "my-app", "namespace": name});
            assert_eq!(ask(names), refused("namespace"), "{name}");
        }
        ask(json!({"pipeline": "another"})).unwrap();
    }
}
