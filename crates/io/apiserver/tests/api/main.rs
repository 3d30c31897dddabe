//! The server as its clients see it: in process, over HTTPS, and across restarts.

// Helpers of tests fail by panicking; clippy knows that only of functions marked as tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

mod crds;
mod crud;
mod documents;
mod durable;
mod hostile;
mod housekeeping;
mod https;
mod protobuf;
mod sockets;
mod watching;

use axum::body::Body;
use http_body_util::BodyExt;
use kardinal_apiserver::{Options, Server, TokioClock};
use serde_json::{Value, json};
use std::sync::Arc;
use tower::ServiceExt;

/// A server in memory whose clock follows tokio's.
pub(crate) async fn memory() -> Server {
    let start = "2030-01-01T00:00:00Z".parse().unwrap();
    let clock = Arc::new(TokioClock::starting_at(start));
    Server::start(Options { clock, seed: Some(1), ..Options::default() }).await.unwrap()
}

/// One answer, read whole.
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Reply {
    /// Fails the test unless the code is the expected one.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Reply {
        assert_eq!(self.code, code, "{}", self.text);
        self
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn rv(&self) -> u64 {
        self.body["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }
}

/// A request with headers, straight onto the router.
pub(crate) async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Reply {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = server.router().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (code, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Reply { code, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text }
}

pub(crate) async fn get(server: &Server, path: &str) -> Reply {
    send(server, "GET", path, &[], "").await
}

pub(crate) async fn post(server: &Server, path: &str, body: &Value) -> Reply {
    send(server, "POST", path, &[("content-type", "application/json")], body.to_string()).await
}

pub(crate) async fn put(server: &Server, path: &str, body: &Value) -> Reply {
    send(server, "PUT", path, &[("content-type", "application/json")], body.to_string()).await
}

pub(crate) async fn patch(server: &Server, path: &str, kind: &str, body: &Value) -> Reply {
    send(server, "PATCH", path, &[("content-type", kind)], body.to_string()).await
}

pub(crate) async fn delete(server: &Server, path: &str) -> Reply {
    send(server, "DELETE", path, &[], "").await
}

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// Waits, in virtual or real time but never by sleeping, until a path answers with `code`.
pub(crate) async fn eventually(server: &Server, path: &str, code: u16) -> Reply {
    for _ in 0..10_000 {
        let reply = get(server, path).await;
        if reply.code == code {
            return reply;
        }
        tokio::task::yield_now().await;
    }
    panic!("{path} never answered {code}");
}
