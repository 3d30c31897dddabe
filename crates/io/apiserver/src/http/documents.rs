//! What the server says about itself: discovery, OpenAPI, version and health.
//!
//! OpenAPI documents are large and change only with CRDs, so they are kept until the registry changes, and those of
//! groups that a change does not touch are carried over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use http::{Response, StatusCode};
use kardinal_apimodel::openapi::{self, ApiKind};
use kardinal_apimodel::registry::{Definition, Registry};
use kardinal_apimodel::{Status, discovery};
use serde_json::{Value, json};

use super::negotiate::Form;
use super::path::Target;
use super::{App, Head, respond};

/// The documents of the current registry.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    current: Mutex<Option<Arc<Documents>>>,
}

/// The group (empty for core) and version that a document describes.
type GroupVersion = (String, String);

#[derive(Debug)]
struct Documents {
    registry: Arc<Registry>,
    groups: Mutex<BTreeMap<GroupVersion, Kept>>,
    index: OnceLock<Document>,
    v2: OnceLock<Document>,
}

/// A document with the kinds it was made from.
#[derive(Debug, Clone)]
struct Kept {
    definitions: Vec<Arc<Definition>>,
    document: Document,
}

#[derive(Debug, Clone)]
struct Document {
    bytes: Bytes,
    hash: String,
}

impl Document {
    fn new(bytes: Vec<u8>) -> Document {
        Document { hash: openapi::document_hash(&bytes), bytes: bytes.into() }
    }
}

impl Cache {
    fn of(&self, registry: &Arc<Registry>) -> Arc<Documents> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(documents) = current.as_ref()
            && Arc::ptr_eq(&documents.registry, registry)
        {
            return documents.clone();
        }
        let carried = current
            .as_ref()
            .map(|old| old.groups.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .unwrap_or_default();
        let documents = Arc::new(Documents {
            registry: registry.clone(),
            groups: Mutex::new(carried),
            index: OnceLock::new(),
            v2: OnceLock::new(),
        });
        *current = Some(documents.clone());
        documents
    }
}

impl Documents {
    fn kinds(&self, of: Option<(&str, &str)>) -> (Vec<Arc<Definition>>, Vec<ApiKind<'_>>) {
        let mut definitions = Vec::new();
        let mut kinds = Vec::new();
        for definition in self.registry.iter() {
            for version in definition.served() {
                if of.is_some_and(|(group, name)| definition.group != group || version.name != name) {
                    continue;
                }
                definitions.push(definition.clone());
                kinds.push(ApiKind {
                    group: &definition.group,
                    version: &version.name,
                    kind: &definition.kind,
                    list_kind: &definition.list_kind,
                    plural: &definition.plural,
                    namespaced: definition.namespaced,
                    status: version.status,
                    scale: version.scale.is_some(),
                    schema: definition.custom.then_some(&*version.openapi),
                });
            }
        }
        (definitions, kinds)
    }

    fn group(&self, group: &str, version: &str) -> Option<Document> {
        let (definitions, kinds) = self.kinds(Some((group, version)));
        if kinds.is_empty() {
            return None;
        }
        let key = (group.to_owned(), version.to_owned());
        let same = |kept: &Kept| {
            kept.definitions.len() == definitions.len()
                && kept.definitions.iter().zip(&definitions).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let lock = || self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(&key).filter(|kept| same(kept)) {
            return Some(kept.document.clone());
        }
        let document = Document::new(openapi::v3_document(&kinds));
        lock().insert(key, Kept { definitions, document: document.clone() });
        Some(document)
    }

    fn index(&self) -> &Document {
        self.index.get_or_init(|| {
            let groups = self.registry.groups();
            let documents: Vec<(String, Document)> = groups
                .iter()
                .flat_map(|(group, versions)| versions.iter().map(move |version| (*group, *version)))
                .filter_map(|(group, version)| {
                    let path = if group.is_empty() {
                        format!("api/{version}")
                    } else {
                        format!("apis/{group}/{version}")
                    };
                    Some((path, self.group(group, version)?))
                })
                .collect();
            let entries = documents.iter().map(|(path, document)| (path.as_str(), document.bytes.as_ref()));
            Document::new(openapi::v3_index(entries))
        })
    }

    fn v2(&self) -> &Document {
        self.v2.get_or_init(|| Document::new(openapi::v2_document(&self.kinds(None).1)))
    }
}

/// Answers everything that is not a resource.
pub(crate) fn answer(app: &App, target: &Target, head: &Head) -> Result<Response<Body>, Status> {
    match target {
        Target::Version => Ok(respond::json(StatusCode::OK, &discovery::version())),
        Target::Health { endpoint, check } => health(app, endpoint, check.as_deref(), head),
        Target::Root => Ok(respond::json(StatusCode::OK, &root(&app.store.read().registry().clone()))),
        Target::Resource(_) | Target::Backup | Target::Unknown => Err(Status::no_such_resource()),
        Target::OpenApiV2 if head.openapi_protobuf => {
            let registry = app.store.read().registry().clone();
            Ok(openapi_protobuf(app.documents.of(&registry).v2()))
        }
        _ => {
            head.check_acceptable()?;
            let registry = app.store.read().registry().clone();
            about_api(app, target, head, &registry)
        }
    }
}

fn about_api(
    app: &App,
    target: &Target,
    head: &Head,
    registry: &Arc<Registry>,
) -> Result<Response<Body>, Status> {
    match target {
        Target::CoreVersions => Ok(groups(registry, head, true)),
        Target::Groups => Ok(groups(registry, head, false)),
        Target::Group(name) => Ok(document(&discovery::group(registry, name)?, head)),
        Target::Resources { group, version } => {
            Ok(document(&discovery::resource_list(registry, group, version)?, head))
        }
        Target::OpenApiV2 => Ok(openapi_document(app.documents.of(registry).v2(), head)),
        Target::OpenApiV3 => Ok(openapi_document(app.documents.of(registry).index(), head)),
        Target::OpenApiV3Group { group, version } => {
            let found = app.documents.of(registry).group(group, version);
            Ok(openapi_document(&found.ok_or_else(Status::no_such_resource)?, head))
        }
        _ => Err(Status::no_such_resource()),
    }
}

/// `/api` and `/apis`, plain or aggregated as the client asked.
fn groups(registry: &Registry, head: &Head, core: bool) -> Response<Body> {
    let Form::Aggregated(version) = head.form else {
        let list = if core { discovery::api_versions(&head.host) } else { discovery::group_list(registry) };
        return document(&list, head);
    };
    let list = discovery::aggregated(registry, core, version);
    let mut response = document(&list, head);
    let kind = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    if let Ok(value) = HeaderValue::from_str(&kind) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    response
}

fn document(value: &Value, head: &Head) -> Response<Body> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    respond::laid_out(StatusCode::OK, bytes.into(), head)
}

/// An OpenAPI document with its hash as `ETag`, or 304 for a client that has it.
fn openapi_document(document: &Document, head: &Head) -> Response<Body> {
    let etag = format!("\"{}\"", document.hash);
    let has_it =
        head.if_none_match.as_deref().is_some_and(|list| list.split(',').any(|tag| tag.trim() == etag));
    let mut response = if has_it {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        respond::laid_out(StatusCode::OK, document.bytes.clone(), head)
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// The v2 document for client-go. It is made anew each time: kubectl asks for it only when it is about to complain.
fn openapi_protobuf(document: &Document) -> Response<Body> {
    let parsed: Value = serde_json::from_slice(&document.bytes).unwrap_or_default();
    let mut response = Response::new(Body::from(openapi::v2_protobuf(&parsed)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(openapi::V2_PROTOBUF_ANSWER));
    response
}

fn root(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups() {
        let base = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        if !group.is_empty() {
            paths.push(base.clone());
        }
        paths.extend(versions.iter().map(|version| format!("{base}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    json!({ "paths": paths })
}

fn health(app: &App, endpoint: &str, check: Option<&str>, head: &Head) -> Result<Response<Body>, Status> {
    let checks = [
        ("ping", true),
        ("store", app.store.is_healthy()),
        // A server that is going away is alive but takes no new work.
        ("shutdown", endpoint != "readyz" || !app.stop.is_cancelled()),
    ];
    let checks: Vec<(&str, bool)> = checks
        .into_iter()
        .filter(|(name, _)| check.is_none_or(|wanted| wanted == *name))
        .filter(|(name, _)| !head.query.exclude.iter().any(|excluded| excluded == name))
        .collect();
    if checks.is_empty() && check.is_some() {
        return Err(Status::no_such_resource());
    }
    let passed = checks.iter().all(|(_, ok)| *ok);
    let code = if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if passed && !head.query.verbose {
        return Ok(respond::text(code, "ok"));
    }
    let mut text: String = checks
        .iter()
        .map(|(name, ok)| if *ok { format!("[+]{name} ok\n") } else { format!("[-]{name} failed\n") })
        .collect();
    text.push_str(&format!("{endpoint} check {}\n", if passed { "passed" } else { "failed" }));
    Ok(respond::text(code, text))
}
