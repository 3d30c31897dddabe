//! Hears every request that goes through a client, and decides what becomes of it: it may be lost, refused, done
//! without an answer, or be the last one before the client dies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::json;
use tokio::sync::Notify;
use tower::Service;

/// When a client dies, relative to its last write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The write never reaches the server.
    BeforeWrite(usize),
    /// The write is done, and nobody hears of it.
    AfterWrite(usize),
}

/// What kind of request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It changes nothing.
    Read,
    /// It changes something, on the server or in a repository.
    Write,
    /// It stays open and tells of changes.
    Watch,
}

/// A request whose fate is to be decided.
#[derive(Debug)]
pub struct Heard<'a> {
    /// Its place among the watches, or among everything else; counted from 1.
    pub number: usize,
    /// What kind of request it is.
    pub kind: Kind,
    /// As `GET /api/v1/…` or `GIT commit main`.
    pub what: &'a str,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out.
    Pass,
    /// It is carried out, and the answer is lost.
    PassUnheard,
    /// It never arrives.
    Lost,
    /// It is not carried out but answered with an error.
    Answered(StatusCode),
    /// Nothing is heard of it for ever.
    Silent,
    /// A watch that tells so many events and then ends.
    Cut {
        /// How many events are told.
        after: usize,
        /// Whether it ends with the word that its version is too old, instead of without a word.
        gone: bool,
    },
}

type Judge = Box<dyn FnMut(&Heard<'_>) -> Fate + Send>;

/// The requests of one client.
#[derive(Clone, Default)]
pub struct Requests {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// As `GET /api/v1/…`.
    heard: Vec<String>,
    writes: usize,
    plain: usize,
    watches: usize,
    death: Option<Death>,
    judge: Option<Judge>,
    dead: bool,
    /// What happens right before the next write that mentions this text.
    interruption: Option<(String, BoxFuture<'static, ()>)>,
}

impl Requests {
    /// A client on this router whose requests are heard.
    pub fn overhear(&self, router: Router) -> kube::Client {
        kube::Client::new(Overheard { router, requests: self.clone() }, "default")
    }

    /// Takes what was heard since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().heard)
    }

    /// How many writes there were in all.
    pub fn writes(&self) -> usize {
        self.lock().writes
    }

    /// How many requests there were in all, without the watches.
    pub fn plain(&self) -> usize {
        self.lock().plain
    }

    /// How many watches there were in all.
    pub fn watches(&self) -> usize {
        self.lock().watches
    }

    /// Lets somebody decide over every request from now on.
    pub fn judged_by(&self, judge: impl FnMut(&Heard<'_>) -> Fate + Send + 'static) {
        self.lock().judge = Some(Box::new(judge));
    }

    /// Lets the client die at a write counted from the beginning.
    pub fn die(&self, death: Death) {
        self.lock().death = Some(death);
    }

    /// Lets the client die now.
    pub fn kill(&self) {
        self.lock().dead = true;
        self.died.notify_waiters();
    }

    /// Waits until the client has died.
    pub async fn dead(&self) {
        loop {
            let died = self.died.notified();
            if self.lock().dead {
                return;
            }
            died.await;
        }
    }

    /// Lets requests through again, for the next life.
    pub fn revive(&self) {
        let mut state = self.lock();
        state.dead = false;
        state.death = None;
    }

    /// Lets something happen right before the next write that mentions this text: after the client has made up its mind.
    pub fn interrupt(&self, what: &str, action: impl Future<Output = ()> + Send + 'static) {
        self.lock().interruption = Some((what.to_owned(), action.boxed()));
    }

    /// Whether the interruption is still to come.
    pub fn is_interruption_pending(&self) -> bool {
        self.lock().interruption.is_some()
    }

    fn interruption(&self, request: &http::Request<kube::client::Body>) -> Option<BoxFuture<'static, ()>> {
        let meant = |(what, _): &mut (String, BoxFuture<'static, ()>)| {
            request.method() != http::Method::GET && request.uri().to_string().contains(what.as_str())
        };
        self.lock().interruption.take_if(meant).map(|(_, action)| action)
    }

    fn hear_request(&self, request: &http::Request<kube::client::Body>) -> Fate {
        let kind = match *request.method() {
            http::Method::GET if is_watch(request.uri()) => Kind::Watch,
            http::Method::GET => Kind::Read,
            _ => Kind::Write,
        };
        self.hear(kind, format!("{} {}", request.method(), request.uri()))
    }

    /// Hears a request, whether to the server or to a repository.
    pub(crate) fn hear(&self, kind: Kind, what: String) -> Fate {
        let mut state = self.lock();
        let fate = state.decide(kind, &what);
        state.heard.push(what);
        let dies = kind == Kind::Write && !state.dead && state.dies();
        if dies {
            state.dead = true;
            self.died.notify_waiters();
        }
        fate
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn decide(&mut self, kind: Kind, what: &str) -> Fate {
        if self.dead {
            return Fate::Lost;
        }
        let counter = if kind == Kind::Watch { &mut self.watches } else { &mut self.plain };
        *counter += 1;
        let heard = Heard { number: *counter, kind, what };
        if kind == Kind::Write {
            self.writes += 1;
        }
        match self.death {
            Some(Death::BeforeWrite(_)) if kind == Kind::Write && self.dies() => Fate::Lost,
            Some(Death::AfterWrite(_)) if kind == Kind::Write && self.dies() => Fate::PassUnheard,
            _ => self.judge.as_mut().map_or(Fate::Pass, |judge| judge(&heard)),
        }
    }

    fn dies(&self) -> bool {
        matches!(self.death, Some(Death::BeforeWrite(at) | Death::AfterWrite(at)) if at == self.writes)
    }
}

fn is_watch(uri: &http::Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|part| part == "watch=true" || part == "watch=1")
}

/// The router with somebody listening at the door.
#[derive(Clone)]
struct Overheard {
    router: Router,
    requests: Requests,
}

impl Service<http::Request<kube::client::Body>> for Overheard {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        Service::<http::Request<kube::client::Body>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        let gone = || StatusCode::SERVICE_UNAVAILABLE.into_response();
        if let Some(action) = self.requests.interruption(&request) {
            let mut door = self.clone();
            return async move {
                action.await;
                door.call(request).await
            }
            .boxed();
        }
        match self.requests.hear_request(&request) {
            Fate::Pass => self.router.call(request).boxed(),
            Fate::PassUnheard => self.router.call(request).map(move |_| Ok(gone())).boxed(),
            Fate::Lost => futures::future::ready(Ok(gone())).boxed(),
            Fate::Silent => futures::future::pending().boxed(),
            Fate::Answered(code) => futures::future::ready(Ok(refusal(code))).boxed(),
            Fate::Cut { after, gone } => self
                .router
                .call(request)
                .map(move |answer| answer.map(|answer| cut(answer, after, gone)))
                .boxed(),
        }
    }
}

/// An error as a server tells it.
fn refusal(code: StatusCode) -> Response {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::GONE => "Expired",
        _ => "InternalError",
    };
    (code, axum::Json(failure(code, reason))).into_response()
}

fn failure(code: StatusCode, reason: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code.as_u16(), "message": "the scenario wants it so",
    })
}

/// A watch that ends early. An event that is not told is told by the next watch.
fn cut(answer: Response, after: usize, gone: bool) -> Response {
    let (parts, body) = answer.into_parts();
    let mut told = 0;
    let events = body.into_data_stream().take_while(move |chunk| {
        told += chunk.as_ref().map_or(1, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
        futures::future::ready(told <= after)
    });
    let last = json!({"type": "ERROR", "object": failure(StatusCode::GONE, "Expired")}).to_string() + "\n";
    let last = futures::stream::iter(gone.then(|| Ok(last.into())));
    Response::from_parts(parts, Body::from_stream(events.chain(last)))
}
