//! Smart HTTP: `/git/<namespace>/<name>.git/{info/refs,git-upload-pack,git-receive-pack}`.

mod access;
mod answer;
mod commands;
mod gunzip;
mod process;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::store::Store;

pub use access::{Credentials, Guard, Identity, same_secret};
pub use commands::RefChange;

use answer::Refusal;
use process::Service;

/// How much a client may ask of the forge.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The git to run.
    pub git: PathBuf,
    /// The largest request, after decompression.
    pub max_body: u64,
    /// How long a client may send nothing in the middle of a request.
    pub idle: Duration,
    /// How long one request may take altogether.
    pub total: Duration,
    /// How many git processes run at the same time; further requests wait.
    pub processes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            git: PathBuf::from("git"),
            max_body: 512 * 1024 * 1024,
            idle: Duration::from_secs(60),
            total: Duration::from_secs(3600),
            processes: 16,
        }
    }
}

/// The routes of the forge, with the default settings.
pub fn router(store: Arc<Store>, guard: Arc<dyn Guard>) -> Router {
    router_with(store, guard, Settings::default())
}

/// The routes of the forge.
pub fn router_with(store: Arc<Store>, guard: Arc<dyn Guard>, settings: Settings) -> Router {
    let slots = Arc::new(Semaphore::new(settings.processes.max(1)));
    let forge = Arc::new(Forge { store, guard, settings, slots });
    Router::new()
        .route("/git/{namespace}/{repository}/info/refs", get(info_refs))
        .route("/git/{namespace}/{repository}/git-upload-pack", post(upload_pack))
        .route("/git/{namespace}/{repository}/git-receive-pack", post(receive_pack))
        .with_state(forge)
}

/// Everything that a request needs.
struct Forge {
    store: Arc<Store>,
    guard: Arc<dyn Guard>,
    settings: Settings,
    slots: Arc<Semaphore>,
}

/// A repository that exists, and somebody who may be here.
struct Admitted {
    namespace: String,
    name: String,
    folder: PathBuf,
    identity: Identity,
}

impl Forge {
    /// Who asks comes before what is asked for: nobody learns without a token which repositories exist.
    async fn admit(
        &self,
        namespace: &str,
        repository: &str,
        headers: &HeaderMap,
    ) -> Result<Admitted, Refusal> {
        let name = repository.strip_suffix(".git").unwrap_or_default();
        let path = self.store.path(namespace, name);
        let credentials = access::credentials(headers).ok_or(Refusal::Unauthorized)?;
        path.map_err(|_| Refusal::NotFound)?;
        let identity = self.guard.authenticate(namespace, name, &credentials).ok_or(Refusal::Unauthorized)?;
        if !self.store.exists(namespace, name) {
            return Err(Refusal::NotFound);
        }
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let (store, place) = (self.store.clone(), (namespace.clone(), name.clone()));
        let known = tokio::task::spawn_blocking(move || store.known(&place.0, &place.1)).await;
        let folder = known.map_err(Refusal::failed)?.map_err(|error| match error {
            Error::Problem(message) => Refusal::Bad(StatusCode::CONFLICT, message),
            fault @ Error::Fault(_) => Refusal::failed(fault),
        })?;
        Ok(Admitted { namespace, name, folder, identity })
    }

    async fn slot(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Refusal> {
        let slot = self.slots.clone().acquire_owned();
        match tokio::time::timeout(self.settings.idle, slot).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(Refusal::Busy),
        }
    }
}

/// The query of `info/refs`.
#[derive(serde::Deserialize)]
struct Wanted {
    service: Option<String>,
}

async fn info_refs(
    State(forge): State<Arc<Forge>>,
    Path((namespace, repository)): Path<(String, String)>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let admitted = forge.admit(&namespace, &repository, &headers).await?;
    let service = Service::named(wanted.service.as_deref().unwrap_or_default()).ok_or(Refusal::Dumb)?;
    let slot = forge.slot().await?;
    let protocol = process::protocol(service, &headers);
    let advertised =
        process::advertise(&forge.settings, forge.store.root(), &admitted.folder, service, protocol).await;
    drop(slot);
    Ok(answer::advertisement(service, protocol, &advertised.map_err(Refusal::failed)?))
}

async fn upload_pack(
    State(forge): State<Arc<Forge>>,
    Path((namespace, repository)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let admitted = forge.admit(&namespace, &repository, request.headers()).await?;
    let service = Service::UploadPack;
    let protocol = process::protocol(service, request.headers());
    let body = stream::body(service, &forge.settings, request)?;
    let slot = forge.slot().await?;
    let running = process::start(&forge.settings, forge.store.root(), &admitted.folder, service, protocol)
        .map_err(Refusal::failed)?;
    Ok(answer::streamed(
        service,
        stream::converse(service, running, Vec::new(), body, slot, &forge.settings, || ()),
    ))
}

async fn receive_pack(
    State(forge): State<Arc<Forge>>,
    Path((namespace, repository)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Refusal> {
    let admitted = forge.admit(&namespace, &repository, request.headers()).await?;
    let service = Service::ReceivePack;
    let mut body = stream::body(service, &forge.settings, request)?;
    let push = commands::read(&mut body).await?;
    let refused = push.refused(&admitted.identity, |branch| {
        forge.guard.protected(&admitted.namespace, &admitted.name, branch)
    });
    if !refused.is_empty() {
        // A client that still sends its pack does not listen; let it finish.
        stream::drain(&mut body).await?;
        return Ok(answer::rejected(&push, &refused));
    }
    let slot = forge.slot().await?;
    let running = process::start(&forge.settings, forge.store.root(), &admitted.folder, service, None)
        .map_err(Refusal::failed)?;
    let done = forge.clone();
    let finished = move || {
        if !push.changes.is_empty() {
            done.guard.pushed(&admitted.namespace, &admitted.name, &push.changes);
        }
    };
    Ok(answer::streamed(
        service,
        stream::converse(service, running, push.raw.clone(), body, slot, &forge.settings, finished),
    ))
}

/// The one content type that a service takes; anything else did not come from git.
fn check_content_type(service: Service, headers: &HeaderMap) -> Result<(), Refusal> {
    let expected = format!("application/x-{}-request", service.name());
    match headers.get(header::CONTENT_TYPE) {
        Some(found) if found.as_bytes() == expected.as_bytes() => Ok(()),
        _ => Err(Refusal::Bad(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("send the content type `{expected}`"),
        )),
    }
}
