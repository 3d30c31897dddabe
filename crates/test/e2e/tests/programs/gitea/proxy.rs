//! Stands between the controllers and Gitea: hears every request, and can hold one of them up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Larger requests are not part of any scenario.
const BODY_LIMIT: usize = 16 * 1024 * 1024;

/// A proxy in front of one server.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) url: String,
    /// Where it leads.
    pub(crate) upstream: String,
    state: Arc<State>,
}

struct State {
    upstream: String,
    client: reqwest::Client,
    heard: Mutex<Vec<String>>,
    trap: Mutex<Option<Trap>>,
}

struct Trap {
    method: Method,
    part: String,
    sprung: oneshot::Sender<()>,
    fate: oneshot::Receiver<Fate>,
}

/// What becomes of a request that was held up.
pub(crate) enum Fate {
    /// It goes on, even if nobody waits for the answer any more.
    Forward,
    /// It never arrives.
    Lose,
}

/// A request that is waited for, or held up already.
pub(crate) struct Held {
    sprung: oneshot::Receiver<()>,
    fate: oneshot::Sender<Fate>,
}

impl Held {
    /// Waits until the request has come.
    pub(crate) async fn caught(&mut self) -> anyhow::Result<()> {
        let caught = tokio::time::timeout(std::time::Duration::from_secs(60), &mut self.sprung).await;
        caught.map_err(|_| anyhow::anyhow!("the request that should be held up never came"))??;
        Ok(())
    }

    /// Decides about the request.
    pub(crate) fn release(self, fate: Fate) {
        let _ = self.fate.send(fate);
    }
}

impl Proxy {
    /// Starts one.
    pub(crate) async fn start(upstream: &str) -> anyhow::Result<Proxy> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            // A connection that the server has closed meanwhile must not look like an outage.
            .pool_max_idle_per_host(0)
            .build()?;
        let state = Arc::new(State {
            upstream: upstream.to_owned(),
            client,
            heard: Mutex::default(),
            trap: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = state.clone();
        let service = Router::new().fallback(move |request: Request| pass(shared.clone(), request));
        tokio::spawn(async move { axum::serve(listener, service).await });
        Ok(Proxy { url, upstream: upstream.to_owned(), state })
    }

    /// Takes what was heard since the last call, as `POST /path`.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.state.heard))
    }

    /// Holds up the next request with this method whose path contains this.
    pub(crate) fn hold(&self, method: Method, part: &str) -> Held {
        let (sprung, caught) = oneshot::channel();
        let (decide, fate) = oneshot::channel();
        *lock(&self.state.trap) = Some(Trap { method, part: part.to_owned(), sprung, fate });
        Held { sprung: caught, fate: decide }
    }
}

async fn pass(state: Arc<State>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    lock(&state.heard).push(format!("{} {path}", parts.method));
    let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let trap = {
        let mut set = lock(&state.trap);
        let fits = set.as_ref().is_some_and(|trap| trap.method == parts.method && path.contains(&trap.part));
        if fits { set.take() } else { None }
    };
    // On its own, because a request that is on its way arrives even if its sender dies.
    let forwarding = tokio::spawn(async move {
        if let Some(trap) = trap {
            let _ = trap.sprung.send(());
            if !matches!(trap.fate.await, Ok(Fate::Forward)) {
                return StatusCode::BAD_GATEWAY.into_response();
            }
        }
        match forward(&state, &parts, &path, body).await {
            Ok(response) => response,
            Err(_) => StatusCode::BAD_GATEWAY.into_response(),
        }
    });
    forwarding.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

async fn forward(
    state: &State,
    parts: &http::request::Parts,
    path: &str,
    body: Bytes,
) -> anyhow::Result<Response> {
    let url = format!("{}{path}", state.upstream);
    let mut headers = parts.headers.clone();
    for name in [http::header::TRANSFER_ENCODING, http::header::CONNECTION, http::header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    let answer = state.client.request(parts.method.clone(), url).headers(headers).body(body).send().await?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != http::header::TRANSFER_ENCODING && name != http::header::CONNECTION {
            response = response.header(name, value);
        }
    }
    Ok(response.body(Body::from(answer.bytes().await?))?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
