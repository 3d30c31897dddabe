//! Create, update, patch, delete: the body becomes a model request, the writer answers it.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use kardinal_apimodel::model::{
    Answer, DeleteOptions, FieldValidation, PatchKind, Verb, WriteOptions, parse_dry_run, parse_propagation,
};
use kardinal_apimodel::{Outcome, Request, Status};

use super::body::{BodyError, Parsed, parse_json, parse_object, parse_yaml, read};
use super::negotiate::{BodyType, Form, content_type};
use super::path::ResourcePath;
use super::render::{Shape, bytes};
use super::{App, Head, not_allowed, respond};

const OBJECT_TYPES: [&str; 2] = ["application/json", "application/yaml"];
const PATCH_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Answers a writing request.
pub(crate) async fn answer(
    app: &App,
    resource: &ResourcePath,
    head: &Head,
    body: Body,
) -> Result<Response<Body>, Status> {
    // An unknown path is a 404 before anything is said about its body.
    let (definition, version) = app.store.read().resolve(&resource.target())?;
    let shape = Shape::new(app, head, definition, &version)?;
    let bytes = read(body, app.limits.body).await.map_err(refuse)?;
    let verb = verb(resource, head, &bytes)?;
    drop(bytes);
    let outcome = app.store.submit(Request { target: resource.target(), verb }).await?;
    Ok(render(&outcome, head, &shape))
}

/// What a broken body is answered with.
pub(crate) fn refuse(error: BodyError) -> Status {
    match error {
        BodyError::TooLarge(limit) => Status::too_large(limit),
        BodyError::Unsupported(_) => Status::unsupported_media_type(&OBJECT_TYPES),
        other => Status::bad_request(other.to_string()),
    }
}

fn verb(resource: &ResourcePath, head: &Head, bytes: &Bytes) -> Result<Verb, Status> {
    match (&head.method, resource.name.is_some()) {
        (&Method::POST, false) => {
            let parsed = object(head, bytes)?;
            let options = write_options(head, &parsed)?;
            Ok(Verb::Create { body: parsed.value, options })
        }
        (&Method::PUT, true) => {
            let parsed = object(head, bytes)?;
            let options = write_options(head, &parsed)?;
            Ok(Verb::Update { body: parsed.value, options })
        }
        (&Method::PATCH, true) => {
            let (kind, parsed) = patch(head, bytes)?;
            let options = write_options(head, &parsed)?;
            Ok(Verb::Patch { kind, body: parsed.value, options })
        }
        (&Method::DELETE, true) => Ok(Verb::Delete { options: delete_options(head, bytes)? }),
        (&Method::DELETE, false) => {
            let list = super::read::list_options(&head.query)?;
            Ok(Verb::DeleteCollection { list, options: delete_options(head, bytes)? })
        }
        _ => Err(not_allowed()),
    }
}

/// The object that a body holds.
pub(crate) fn object(head: &Head, bytes: &Bytes) -> Result<Parsed, Status> {
    parse_object(content_type(head.content_type.as_deref()), bytes).map_err(refuse)
}

fn patch(head: &Head, bytes: &Bytes) -> Result<(PatchKind, Parsed), Status> {
    let (kind, parsed) = match content_type(head.content_type.as_deref()) {
        Some(BodyType::JsonPatch) => (PatchKind::Json, parse_json(bytes)),
        Some(BodyType::MergePatch) => (PatchKind::Merge, parse_json(bytes)),
        Some(BodyType::StrategicMergePatch) => (PatchKind::Strategic, parse_json(bytes)),
        Some(BodyType::ApplyPatch) => (PatchKind::Apply, parse_yaml(bytes)),
        _ => return Err(Status::unsupported_media_type(&PATCH_TYPES)),
    };
    Ok((kind, parsed.map_err(refuse)?))
}

fn write_options(head: &Head, parsed: &Parsed) -> Result<WriteOptions, Status> {
    let query = &head.query;
    Ok(WriteOptions {
        dry_run: dry_run(&query.dry_run).map_err(|status| named(status, &head.method))?,
        field_manager: query.field_manager.clone().unwrap_or_default(),
        user_agent: head.user_agent.clone(),
        field_validation: FieldValidation::parse(query.field_validation.as_deref().unwrap_or_default())
            .map_err(|status| named(status, &head.method))?,
        force: query.force,
        decoding_problems: parsed
            .duplicates
            .iter()
            .map(|path| format!("duplicate field {}", kardinal_apimodel::status::quoted(path)))
            .collect(),
    })
}

/// Errors about options name the options of their verb.
fn named(mut status: Status, method: &Method) -> Status {
    let kind = match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        _ => "PatchOptions",
    };
    status.message = status.message.replacen(status.kind.as_str(), kind, 1);
    status.kind = kind.to_owned();
    status
}

fn dry_run(values: &[String]) -> Result<bool, Status> {
    values.iter().try_fold(false, |any, value| Ok(any | parse_dry_run(value)?))
}

/// Options come from the body if there is one, else from the query, as kube reads them.
fn delete_options(head: &Head, bytes: &Bytes) -> Result<DeleteOptions, Status> {
    if !bytes.trim_ascii().is_empty() {
        let mut options = DeleteOptions::from_json(&object(head, bytes)?.value)?;
        options.dry_run |= dry_run(&head.query.dry_run)?;
        return Ok(options);
    }
    let query = &head.query;
    DeleteOptions {
        dry_run: dry_run(&query.dry_run)?,
        propagation: query.propagation_policy.as_deref().map(parse_propagation).transpose()?,
        orphan_dependents: query.orphan_dependents,
        grace_period_seconds: query.grace_period_seconds,
        ..DeleteOptions::default()
    }
    .check()
}

fn render(outcome: &Outcome, head: &Head, shape: &Shape) -> Response<Body> {
    let code = StatusCode::from_u16(outcome.code).unwrap_or(StatusCode::OK);
    let text = match &outcome.body {
        Answer::Object { object, .. } if head.form != Form::Plain => shape.object(object),
        Answer::Object { .. } | Answer::Value(_) => bytes(outcome.json()),
    };
    let mut response = respond::laid_out(code, text, head);
    respond::warn(&mut response, &outcome.warnings);
    response
}
