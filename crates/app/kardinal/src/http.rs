//! The web side: Bundles from CI, webhooks from forges, the local forge, metrics and probes.

mod bundles;
mod keys;
mod limits;
mod metrics;
mod pulls;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use kardinal_controllers::{Controllers, LocalForge, Metrics};
use kardinal_scm::webhook::MAX_BODY;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use keys::Keys;

/// The largest body that CI may send.
const BODY_LIMIT: usize = 1024 * 1024;
/// How long one request may take, its body included. Git has limits of its own.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long requests that are under way at the end may still take.
const GRACE: Duration = Duration::from_secs(5);

/// What the web side needs.
pub(crate) struct Web {
    pub(crate) client: kube::Client,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) forge: Option<LocalForge>,
    pub(crate) limits: limits::PerPipeline,
    pub(crate) deliveries: webhooks::Deliveries,
}

impl Web {
    pub(crate) fn new(
        client: kube::Client,
        keys: Keys,
        metrics: Arc<Metrics>,
        controllers: Arc<Controllers>,
        forge: Option<LocalForge>,
    ) -> Web {
        Web {
            client,
            keys,
            metrics,
            controllers,
            forge,
            limits: limits::PerPipeline::default(),
            deliveries: webhooks::Deliveries::default(),
        }
    }

    fn router(self: Arc<Web>) -> Router {
        let own = Router::new()
            .route("/api/v1/bundles", post(bundles::create).layer(DefaultBodyLimit::max(BODY_LIMIT)))
            .route("/webhooks", post(webhooks::receive).layer(DefaultBodyLimit::max(MAX_BODY)))
            .route("/metrics", get(metrics::show))
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready))
            .route("/forge/{namespace}/{repository}/pulls/{number}", get(pulls::page))
            .route("/forge/{namespace}/{repository}/pulls/{number}/diff", get(pulls::diff))
            .layer(middleware::from_fn(in_time))
            .with_state(self.clone());
        match &self.forge {
            Some(forge) => {
                let guard = pulls::Guard::new(self.clone());
                own.merge(kardinal_forge::router(forge.store.clone(), Arc::new(guard)))
            }
            None => own,
        }
    }
}

/// Nobody holds a place by sending slowly.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (http::StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response(),
    }
}

/// Ready means that the API server behind us answers.
async fn ready(State(web): State<Arc<Web>>) -> (http::StatusCode, &'static str) {
    match web.client.apiserver_version().await {
        Ok(_) => (http::StatusCode::OK, "ok"),
        Err(_) => (http::StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer"),
    }
}

/// A port that is ours, before anything is served on it.
pub(crate) async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        crate::failure::Failure::new(
            crate::failure::Kind::Failed,
            format!("cannot listen on `{address}`: {error}"),
        )
        .hint("choose another address with `--http`, for example `--http 127.0.0.1:0` for any free port")
        .into()
    })
}

/// Serves until `stop`, and a little longer for those who are being served.
pub(crate) async fn serve(
    listener: TcpListener,
    web: Arc<Web>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let router = web.router();
    let asked = stop.clone();
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(async move { asked.cancelled().await });
    let overdue = async {
        stop.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = serving.into_future() => ended.context("the web side ended"),
        () = overdue => Ok(()),
    }
}
