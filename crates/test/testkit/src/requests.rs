//! Hears every request that goes through a client.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use tower::util::MapRequestLayer;
use tower::{Layer as _, Service};

/// The requests heard so far, as `GET /api/v1/…`.
#[derive(Clone, Default)]
pub struct Requests {
    heard: Arc<Mutex<Vec<String>>>,
}

impl Requests {
    /// A client on this router whose requests are heard.
    pub fn overhear(&self, router: Router) -> kube::Client {
        let heard = self.heard.clone();
        let listen = move |request: http::Request<kube::client::Body>| {
            let line = format!("{} {}", request.method(), request.uri());
            heard.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            request
        };
        kube::Client::new(MapRequestLayer::new(listen).layer(AsClientService(router)), "default")
    }

    /// Takes what was heard since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The router as a service of exactly the client's request type.
#[derive(Clone)]
struct AsClientService(Router);

impl Service<http::Request<kube::client::Body>> for AsClientService {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = <Router as Service<http::Request<kube::client::Body>>>::Future;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        Service::<http::Request<kube::client::Body>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
        self.0.call(request)
    }
}
