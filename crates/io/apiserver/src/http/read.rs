//! Get, list and the beginning of watches: all from memory, under a short read lock.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use kardinal_apimodel::model::{ListOptions, VersionMatch};
use kardinal_apimodel::object::parse_resource_version;
use kardinal_apimodel::schema::FieldError;
use kardinal_apimodel::selector::Selectors;
use kardinal_apimodel::watch::{Cursor, Filter, error_event};
use kardinal_apimodel::{Model, Status};

use super::path::ResourcePath;
use super::query::Query;
use super::render::Shape;
use super::watch::{Start, Watch};
use super::{App, Head, respond};

/// GET of one object or subresource.
pub(crate) fn get(app: &App, path: &ResourcePath, head: &Head) -> Result<Response<Body>, Status> {
    let target = path.target();
    let (definition, version, object) = {
        let model = app.store.read();
        let (definition, version) = model.resolve(&target)?;
        match target.subresource.as_str() {
            "" => {}
            "status" if version.status => {}
            "scale" if version.scale.is_some() => {
                let scale = model.scale(&target)?;
                drop(model);
                let bytes = serde_json::to_vec(&scale).unwrap_or_default();
                return Ok(respond::laid_out(StatusCode::OK, bytes.into(), head));
            }
            _ if definition.custom => return Err(Status::not_found(&definition.name, &target.name)),
            _ => return Err(Status::no_such_resource()),
        }
        (definition, version, model.get(&target)?)
    };
    let shape = Shape::new(app, head, definition, &version)?;
    let mut response = respond::laid_out(StatusCode::OK, shape.object(&object), head);
    respond::warn(&mut response, version.deprecation.as_slice());
    Ok(response)
}

/// GET of a collection.
pub(crate) fn list(app: &App, path: &ResourcePath, head: &Head) -> Result<Response<Body>, Status> {
    let target = path.target();
    let options = list_options(&head.query)?;
    let (definition, version, list) = {
        let model = app.store.read();
        let (definition, version) = model.resolve(&target)?;
        (definition, version, model.list(&target, &options)?)
    };
    // The lock is gone: joining the texts of a long list keeps nobody waiting.
    let shape = Shape::new(app, head, definition, &version)?;
    let mut response = respond::laid_out(StatusCode::OK, shape.list(&list), head);
    respond::warn(&mut response, version.deprecation.as_slice());
    Ok(response)
}

/// The list options of a query.
pub(crate) fn list_options(query: &Query) -> Result<ListOptions, Status> {
    let limit = query.limit.unwrap_or(0);
    Ok(ListOptions {
        label_selector: query.label_selector.clone().unwrap_or_default(),
        field_selector: query.field_selector.clone().unwrap_or_default(),
        // kube takes a negative limit for none.
        limit: u64::try_from(limit).unwrap_or(0),
        continue_token: query.continue_token.clone().unwrap_or_default(),
        resource_version: query.resource_version.clone().unwrap_or_default(),
        version_match: VersionMatch::parse(query.resource_version_match.as_deref().unwrap_or_default())?,
    })
}

/// Opens a watch.
pub(crate) fn watch(app: &Arc<App>, path: &ResourcePath, head: &Head) -> Result<Response<Body>, Status> {
    // Our own controllers need their watches, however many there are from outside.
    let share = head.peer.map(|peer| {
        let full = || Status::too_many_requests("too many watches are open, try again later");
        app.watches.one(peer).ok_or_else(full)
    });
    let share = share.transpose()?;
    let mut target = path.target();
    let mut fields = head.query.field_selector.clone().unwrap_or_default();
    if !target.name.is_empty() {
        // A watch of one object is a watch of its collection narrowed to its name.
        let separator = if fields.is_empty() { "" } else { "," };
        fields = format!("{fields}{separator}metadata.name={}", std::mem::take(&mut target.name));
    }
    let (shape, filter, started) = {
        let model = app.store.read();
        let (definition, version) = model.resolve(&target)?;
        let labels = head.query.label_selector.clone().unwrap_or_default();
        let selectors = Selectors::parse(&labels, &fields, &definition, &version)?;
        let options =
            ListOptions { label_selector: labels, field_selector: fields, ..ListOptions::default() };
        let started = begin(&model, &head.query, |model| model.list(&target, &options), &definition.name);
        let namespace = if definition.namespaced { target.namespace.clone() } else { String::new() };
        (Shape::new(app, head, definition, &version)?, Filter { namespace, selectors }, started)
    };
    let start = match started {
        Ok(start) => start,
        // Clients look for this code in the stream, where a lost place would be reported too.
        Err(status) if status.code == 410 => return Ok(expired(&status)),
        Err(status) => return Err(status),
    };
    let bookmarks = head.query.allow_watch_bookmarks.then_some(app.limits.bookmark_interval);
    let watch = Watch {
        store: app.store.clone(),
        shape,
        filter,
        bookmarks,
        timeout: head.query.timeout_seconds,
        stop: head.stop.clone(),
        _share: share,
    };
    Ok(super::watch::respond(watch, start))
}

fn begin(
    model: &Model,
    query: &Query,
    list: impl FnOnce(&Model) -> Result<kardinal_apimodel::model::List, Status>,
    resource: &str,
) -> Result<Start, Status> {
    let initial = wants_initial_events(query)?;
    let asked = match query.resource_version.as_deref() {
        None => None,
        Some(text) => Some(parse_resource_version(text)?),
    };
    if let Some(asked) = asked
        && asked > model.resource_version()
    {
        return Err(Status::too_large_resource_version(asked, model.resource_version()));
    }
    let from_now = asked.unwrap_or(0) == 0;
    match initial {
        Some(true) => {
            let list = list(model)?;
            let mark_end = query.allow_watch_bookmarks;
            Ok(Start { initial: list.items, mark_end, cursor: Cursor(list.resource_version) })
        }
        None if from_now => {
            let list = list(model)?;
            Ok(Start { initial: list.items, mark_end: false, cursor: Cursor(list.resource_version) })
        }
        _ => {
            let cursor = Cursor(if from_now { model.resource_version() } else { asked.unwrap_or(0) });
            model.log().check(resource, cursor)?;
            Ok(Start { initial: Vec::new(), mark_end: false, cursor })
        }
    }
}

/// The rules between `sendInitialEvents` and `resourceVersionMatch`, as kube has them.
fn wants_initial_events(query: &Query) -> Result<Option<bool>, Status> {
    let kind = VersionMatch::parse(query.resource_version_match.as_deref().unwrap_or_default())?;
    let field = "resourceVersionMatch";
    let problem = match (query.send_initial_events, kind) {
        (None, None) => None,
        (None, Some(_)) => {
            Some("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        }
        (Some(_), Some(VersionMatch::NotOlderThan)) => None,
        (Some(_), _) => Some("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    };
    match problem {
        None => Ok(query.send_initial_events),
        Some(problem) => Err(Status::invalid_fields(
            "ListOptions.meta.k8s.io",
            "",
            vec![FieldError::forbidden(field, problem)],
        )),
    }
}

fn expired(status: &Status) -> Response<Body> {
    let mut line = serde_json::to_vec(&error_event(status)).unwrap_or_default();
    line.push(b'\n');
    respond::json_bytes(StatusCode::OK, Bytes::from(line))
}
