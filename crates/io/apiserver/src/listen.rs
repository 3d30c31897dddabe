//! Serving the router over HTTPS: accept, handshake, authenticate, and let go gracefully.
//!
//! It knows nothing of Kubernetes beyond the 401 answer; requests that pass the door go to the router.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::credentials::Token;
use crate::error::Error;
use crate::http::FrontStop;
use crate::limits::Limits;

/// How long connections may take to finish their requests once the server is asked to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// The pause after a failed accept (out of file descriptors and the like), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running HTTPS front; dropping it does not stop the front, the server's shutdown does.
#[derive(Debug)]
pub struct ServeHandle {
    address: SocketAddr,
    kubeconfig: String,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl ServeHandle {
    pub(crate) fn new(
        address: SocketAddr,
        kubeconfig: String,
        task: JoinHandle<()>,
        stop: CancellationToken,
    ) -> ServeHandle {
        ServeHandle { address, kubeconfig, task, stop }
    }

    /// The address the listener is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A kubeconfig for the admin of this server. It holds the token: write it to private files only.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Stops accepting, ends watches, lets running requests finish (at most ten seconds) and closes.
    pub async fn stop(self) {
        self.stop.cancel();
        // A front that panicked has nothing left to close.
        let _ = self.task.await;
    }
}

/// Everything the accept loop needs.
pub(crate) struct Front {
    pub(crate) router: Router,
    pub(crate) token: Token,
    pub(crate) tls: Arc<rustls::ServerConfig>,
    pub(crate) limits: Limits,
    pub(crate) stop: CancellationToken,
}

/// Binds nothing itself: the caller hands over a listener and learns its address.
pub(crate) fn address_of(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(Error::Listen)
}

/// Accepts connections until `front.stop` is cancelled, then drains them.
pub(crate) async fn run(listener: TcpListener, front: Front) {
    let front = Arc::new(front);
    let acceptor = TlsAcceptor::from(front.tls.clone());
    let connections = Arc::new(Semaphore::new(front.limits.connections));
    let graceful = GracefulShutdown::new();
    loop {
        // The permit comes first: over the limit, new connections wait in the kernel's queue.
        let permit = tokio::select! {
            () = front.stop.cancelled() => break,
            permit = connections.clone().acquire_owned() => match permit { Ok(permit) => permit, Err(_) => break },
        };
        let accepted = tokio::select! {
            () = front.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let watcher = graceful.watcher();
        let (front, acceptor) = (front.clone(), acceptor.clone());
        tokio::spawn(async move {
            serve_connection(stream, acceptor, front, watcher).await;
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still busy after {DRAIN:?} and were cut");
    }
}

async fn serve_connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    front: Arc<Front>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Without it a small watch event may wait 40 ms for the peer's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let handshake = tokio::time::timeout(front.limits.handshake_timeout, acceptor.accept(stream));
    let stream = tokio::select! {
        () = front.stop.cancelled() => return,
        done = handshake => match done {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                tracing::debug!("TLS handshake timed out");
                return;
            }
        },
    };
    let service_front = front.clone();
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let front = service_front.clone();
        async move { Ok::<_, Infallible>(answer(request, &front).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(front.limits.header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(front.limits.streams_per_connection)
        .max_header_list_size(64 * 1024)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer(request: Request<hyper::body::Incoming>, front: &Front) -> Response<Body> {
    if !is_open(request.uri().path()) {
        let accepted = request
            .headers()
            .get(http::header::AUTHORIZATION)
            .is_some_and(|header| front.token.accepts(header.as_bytes()));
        if !accepted {
            return crate::http::unauthorized();
        }
    }
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(FrontStop(front.stop.clone()));
    match front.router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Paths that probes may ask without a token.
fn is_open(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
    matches!(first, "healthz" | "livez" | "readyz" | "version")
}
