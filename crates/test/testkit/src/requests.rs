//! Hears every request that goes through a client, and can let the client die at a chosen write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
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
    death: Option<Death>,
    dead: bool,
}

/// What becomes of one request.
pub(crate) enum Fate {
    /// It is carried out.
    Pass,
    /// It is carried out, and the answer is lost.
    PassUnheard,
    /// It never arrives.
    Lost,
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

    /// Lets the client die at a write counted from the beginning.
    pub fn die(&self, death: Death) {
        self.lock().death = Some(death);
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

    fn hear(&self, request: &http::Request<kube::client::Body>) -> Fate {
        let what = format!("{} {}", request.method(), request.uri());
        if request.method() == http::Method::GET {
            let mut state = self.lock();
            state.heard.push(what);
            return if state.dead { Fate::Lost } else { Fate::Pass };
        }
        self.hear_write(what)
    }

    /// Hears a write, whether to the server or to a repository.
    pub(crate) fn hear_write(&self, what: String) -> Fate {
        let mut state = self.lock();
        state.heard.push(what);
        if state.dead {
            return Fate::Lost;
        }
        state.writes += 1;
        let fate = match state.death {
            Some(Death::BeforeWrite(at)) if at == state.writes => Fate::Lost,
            Some(Death::AfterWrite(at)) if at == state.writes => Fate::PassUnheard,
            _ => return Fate::Pass,
        };
        state.dead = true;
        self.died.notify_waiters();
        fate
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        match self.requests.hear(&request) {
            Fate::Pass => self.router.call(request).boxed(),
            Fate::PassUnheard => self.router.call(request).map(move |_| Ok(gone())).boxed(),
            Fate::Lost => futures::future::ready(Ok(gone())).boxed(),
        }
    }
}
