//! The web side: Bundles from CI, webhooks from forges, the local forge, metrics and probes.

mod elsewhere;
mod forge;
mod hosts;
mod keys;
mod metrics;
mod promotion;
mod reading;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{StatusCode, header};
use kardinal_apiserver::{ConnectionLimits, Peer, UploadLimits, UploadRefused, Uploads, serve_plain};
use kardinal_controllers::{Controllers, LocalForge, Metrics};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::args::WebArguments;
use forge::{pulls, sessions};
use hosts::Hosts;
pub(crate) use keys::Keys;
use promotion::{bundles, limits, signed, tenants};

/// The group whose kinds must be served.
const KINDS: &str = "kardinal.io/v1alpha1";
/// How long one request may take, its body included. Git has limits of its own.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Who asks when no connection says it.
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// How long requests that are under way at the end may still take.
const GRACE: Duration = Duration::from_secs(5);

/// What the web side needs.
pub(crate) struct Web {
    pub(crate) client: kube::Client,
    pub(crate) keys: Keys,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) controllers: Arc<Controllers>,
    pub(crate) forge: Option<LocalForge>,
    limits: limits::PerPipeline,
    deliveries: webhooks::Deliveries,
    tenants: tenants::Tenants,
    copies: signed::Copies,
    sessions: sessions::Sessions,
    uploads: Uploads,
    hosts: Hosts,
    connections: ConnectionLimits,
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
            tenants: tenants::Tenants::new(client.clone()),
            client,
            keys,
            metrics,
            controllers,
            forge,
            limits: limits::PerPipeline::default(),
            deliveries: webhooks::Deliveries::default(),
            copies: signed::Copies::default(),
            sessions: sessions::Sessions::default(),
            uploads: Uploads::new(UploadLimits::default()),
            hosts: Hosts::Any,
            connections: ConnectionLimits { drain: GRACE, ..ConnectionLimits::default() },
        }
    }

    /// The same with what the command line says of its port.
    pub(crate) fn with(mut self, arguments: &WebArguments) -> Web {
        self.connections = ConnectionLimits { drain: GRACE, ..arguments.connections() };
        self.hosts = match (&self.forge, arguments.http_allowed_hosts.as_slice()) {
            // Without a forge there are no pages that a browser is signed in to.
            (None, []) => Hosts::Any,
            (_, names) => Hosts::named(names),
        };
        self
    }

    fn router(self: Arc<Web>) -> Router {
        let mut own = Router::new()
            .route("/api/v1/bundles", post(bundles::create))
            .route("/webhooks", post(webhooks::receive))
            .route("/metrics", get(metrics::show))
            .route("/healthz", get(async || "ok"))
            .route("/readyz", get(ready));
        if self.forge.is_some() {
            own = own
                .route("/forge/sign-in", post(pulls::sign_in))
                .route("/forge/{namespace}/{repository}/pulls/{number}", get(pulls::page))
                .route("/forge/{namespace}/{repository}/pulls/{number}/diff", get(pulls::diff));
        }
        let counted = middleware::from_fn_with_state(self.clone(), counted);
        let own = own.layer(counted).layer(middleware::from_fn(in_time)).with_state(self.clone());
        let all = match &self.forge {
            Some(forge) => {
                let guard = pulls::Guard::new(self.clone());
                own.merge(kardinal_forge::router(forge.store.clone(), Arc::new(guard)))
            }
            None => own,
        };
        all.layer(middleware::from_fn_with_state(self, hosts::check))
    }
}

/// What arrives of bodies is counted until their requests are answered. Git's is not kept here and has limits of its own.
async fn counted(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<Peer>().map_or(LOCAL, |peer| peer.0);
    let answered = web.uploads.answered(peer, request, async |request| next.run(request).await).await;
    answered.unwrap_or_else(|refused| {
        let said = format!("{refused}\n");
        match refused {
            UploadRefused::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], said).into_response()
            }
            UploadRefused::Slow => (StatusCode::REQUEST_TIMEOUT, said).into_response(),
        }
    })
}

/// Nobody holds a place by sending slowly.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_LIMIT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response(),
    }
}

/// Ready means able to work, now or when it is elected: the API server behind us answers and serves our kinds.
async fn ready(State(web): State<Arc<Web>>) -> (StatusCode, &'static str) {
    match web.client.list_api_group_resources(KINDS).await {
        Ok(_) => (StatusCode::OK, "ok"),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            (StatusCode::SERVICE_UNAVAILABLE, "the API server does not serve kardinal's kinds")
        }
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the API server does not answer"),
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
    let connections = web.connections.clone();
    serve_plain(listener, web.router(), &connections, &stop).await;
    Ok(())
}
