//! Serving routers: accept within limits, handshake, authenticate, and let go gracefully. The API comes over HTTPS, the web
//! side of the program over plain HTTP; both keep the same bounds.
//!
//! It knows nothing of Kubernetes beyond the 401 answer; requests that pass the door go to the router.

mod activity;

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use self::activity::{Activity, Answer, Overdue, Received, Watched};
use crate::credentials::Token;
use crate::error::Error;
use crate::http::FrontStop;
use crate::limits::{ConnectionLimits, Limits};
use crate::shares::Shares;
use crate::uploads::Uploads;

/// Who is at the other end of the connection that a request came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Put on an answer that goes on until the server ends it, such as a watch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// The largest head of an HTTP/1 request, and what is read ahead of one.
const HEAD: usize = 64 * 1024;
/// The largest head of an HTTP/2 request.
const HEAD_LIST: u32 = 64 * 1024;
/// What a client may send on one HTTP/2 stream before anybody has read it.
const WINDOW: u32 = 256 * 1024;
/// What is said to a connection over the limit where no handshake comes first.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
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
    pub(crate) uploads: Uploads,
    pub(crate) stop: CancellationToken,
}

/// Binds nothing itself: the caller hands over a listener and learns its address.
pub(crate) fn address_of(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(Error::Listen)
}

/// Serves the API over TLS until `front.stop` is cancelled, then drains the connections.
pub(crate) async fn run(listener: TcpListener, front: Front) {
    let acceptor = TlsAcceptor::from(front.tls.clone());
    let (limits, stop) = (front.limits.connections.clone(), front.stop.clone());
    let front = Arc::new(front);
    let answer = Arc::new(move |request: Request<Body>, peer: IpAddr| {
        let front = front.clone();
        async move { answer(request, peer, &front).await }
    });
    serve(listener, Some(acceptor), &limits, &stop, answer).await;
}

/// Serves a router over plain HTTP with the bounds that the API keeps, until `stop` is cancelled; then lets running requests
/// finish for a while. Requests carry the address of their [`Peer`].
pub async fn serve_plain(
    listener: TcpListener,
    router: Router,
    limits: &ConnectionLimits,
    stop: &CancellationToken,
) {
    let answer = Arc::new(move |mut request: Request<Body>, peer: IpAddr| {
        let router = router.clone();
        async move {
            request.extensions_mut().insert(Peer(peer));
            match router.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    });
    serve(listener, None, limits, stop, answer).await;
}

/// Accepts connections until `stop`, each with its share, and drains them at the end.
async fn serve<A, F>(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    limits: &ConnectionLimits,
    stop: &CancellationToken,
    answer: Arc<A>,
) where
    A: Fn(Request<Body>, IpAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let connections = Shares::new(limits.total, limits.per_peer);
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok((stream, peer)) => (stream, peer.ip()),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Whoever comes when all is taken learns it at once instead of waiting in the kernel's queue.
        let Some(share) = connections.one(peer) else {
            tracing::debug!(%peer, "a connection over the limit is closed");
            if acceptor.is_none() {
                let _ = stream.try_write(FULL);
            }
            continue;
        };
        let (acceptor, limits, stop, answer) =
            (acceptor.clone(), limits.clone(), stop.clone(), answer.clone());
        tasks.spawn(async move {
            let answer = move |request| answer(request, peer);
            match acceptor {
                Some(acceptor) => {
                    if let Some(stream) = handshake(stream, &acceptor, &limits, &stop).await {
                        connection(stream, &limits, &stop, answer).await;
                    }
                }
                None => connection(prepared(stream), &limits, &stop, answer).await,
            }
            drop(share);
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        tracing::warn!("connections were still busy after {:?} and were cut", limits.drain);
    }
}

/// Without it a small watch event may wait 40 ms for the peer's acknowledgement.
fn prepared(stream: TcpStream) -> TcpStream {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    stream
}

async fn handshake(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    limits: &ConnectionLimits,
    stop: &CancellationToken,
) -> Option<TlsStream<TcpStream>> {
    let handshake = tokio::time::timeout(limits.handshake_timeout, acceptor.accept(prepared(stream)));
    let done = tokio::select! {
        () = stop.cancelled() => return None,
        done = handshake => done,
    };
    match done {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake timed out");
            None
        }
    }
}

/// Serves one connection as long as its client does its part.
async fn connection<S, A, F>(stream: S, limits: &ConnectionLimits, stop: &CancellationToken, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    A: Fn(Request<Body>) -> F + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let activity = Activity::new(Instant::now());
    let requests = activity.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let multiplexed = request.version() == Version::HTTP_2;
        let mut in_flight = requests.begin(multiplexed);
        let (parts, body) = request.into_parts();
        let (body, left) = Received::new(body);
        let answered = answer(Request::from_parts(parts, Body::new(body)));
        async move {
            let mut response = answered.await;
            if response.extensions().get::<Endless>().is_some() {
                in_flight.mark_endless();
            }
            if !multiplexed && left.load(Ordering::Relaxed) {
                say_close(&mut response);
            }
            Ok::<_, Infallible>(response.map(|body| Answer { body, _in_flight: in_flight }))
        }
    });
    let builder = builder(limits);
    let watched = Watched { stream, activity: activity.clone() };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(watched), service));
    let (mut leaving, mut stopping) = (false, false);
    loop {
        let deadline = activity.deadline(limits);
        let overdue = async {
            match deadline {
                Some((at, overdue)) => {
                    sleep_until(at).await;
                    overdue
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = activity.changed.notified() => {}
            () = stop.cancelled(), if !stopping => {
                (leaving, stopping) = (true, true);
                activity.leave(Instant::now());
                connection.as_mut().graceful_shutdown();
            }
            overdue = overdue => match overdue {
                Overdue::Rest if !leaving => {
                    leaving = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ => return,
            }
        }
    }
}

/// A refusal that came before the whole body was read ends its connection, because nobody knows where the next request
/// would begin; the client is told. Answers that are no refusals may still be reading.
fn say_close(response: &mut Response<Body>) {
    if response.status().is_client_error() || response.status().is_server_error() {
        response.headers_mut().insert(http::header::CONNECTION, http::HeaderValue::from_static("close"));
    }
}

fn builder(limits: &ConnectionLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // The supervisor of the connection keeps the time of heads; this is the bound that hyper itself keeps.
    let longest = limits.idle_timeout.saturating_add(limits.header_timeout);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(longest).max_buf_size(HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(HEAD_LIST)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 2)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

async fn answer(mut request: Request<Body>, peer: IpAddr, front: &Front) -> Response<Body> {
    if !is_open(request.uri().path()) {
        let accepted = request
            .headers()
            .get(http::header::AUTHORIZATION)
            .is_some_and(|header| front.token.accepts(header.as_bytes()));
        if !accepted {
            return crate::http::unauthorized();
        }
    }
    request.extensions_mut().insert(FrontStop(front.stop.clone()));
    request.extensions_mut().insert(Peer(peer));
    let routed = async |request| match front.router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let answered = front.uploads.answered(peer, request, routed).await;
    answered.unwrap_or_else(crate::http::upload_refused)
}

/// Paths that probes may ask without a token.
fn is_open(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
    matches!(first, "healthz" | "livez" | "readyz" | "version")
}
