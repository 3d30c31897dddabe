//! A small server on loopback that answers as a test says and remembers what it was asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use kardinal_scm::{Credentials, Error, Http, Observer, Secret, Settings};
use serde_json::{Value, json};

pub(crate) const TOKEN: &str = "ghp_verysecrettoken";
pub(crate) const MARKER: &str = "<!-- kardinal-step: 1234 -->";
pub(crate) const HEAD: &str = "kardinal/app-v2/prod";

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    pub(crate) authorization: String,
    pub(crate) body: Value,
}

impl Asked {
    /// Method and path below the API's root, without query.
    pub(crate) fn what(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{} {}", self.method, path.strip_prefix("/api/v3").unwrap_or(path))
    }
}

/// An answer to give.
pub(crate) struct Say {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Say {
    pub(crate) fn json(status: u16, body: &Value) -> Say {
        Say { status, headers: vec![("content-type", "application/json".to_owned())], body: body.to_string() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Say {
        self.headers.push((name, value.into()));
        self
    }
}

/// The running server.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Starts it; the function gets each request and how many came before.
    pub(crate) async fn start(answer: impl Fn(&Asked, usize) -> Say + Send + Sync + 'static) -> Server {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (memory, answer) = (Arc::clone(&asked), Arc::new(answer));
        let service = axum::Router::new().fallback(move |request: Request<Body>| {
            let (memory, answer) = (Arc::clone(&memory), Arc::clone(&answer));
            async move {
                let request = read(request).await;
                let before = {
                    let mut memory = memory.lock().unwrap();
                    memory.push(request.clone());
                    memory.len() - 1
                };
                let say = answer(&request, before);
                let mut response = Response::builder().status(say.status);
                for (name, value) in say.headers {
                    response = response.header(name, value);
                }
                response.body(Body::from(say.body)).unwrap()
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, service).await });
        Server { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// What was asked, in short.
    pub(crate) fn log(&self) -> Vec<String> {
        self.asked().iter().map(Asked::what).collect()
    }

    /// The repository `acme/app` on it.
    pub(crate) fn repository(&self) -> String {
        format!("{}/acme/app.git", self.url)
    }
}

async fn read(request: Request<Body>) -> Asked {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let header = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    Asked {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        authorization: header.unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    }
}

pub(crate) fn token() -> Credentials {
    Credentials::Token(Secret::new(TOKEN))
}

/// Limits for tests: the same, with shorter pauses.
pub(crate) fn settings() -> Settings {
    Settings { first_pause: Duration::from_millis(1), ..Settings::default() }
}

pub(crate) fn http() -> Http {
    Http::new(settings(), None)
}

/// Remembers what it was told.
#[derive(Default)]
pub(crate) struct Notes(pub Mutex<Vec<(&'static str, u16)>>);

impl Observer for Notes {
    fn request(&self, endpoint: &'static str, status: u16, _elapsed: Duration) {
        self.0.lock().unwrap().push((endpoint, status));
    }
}

/// A pull request as GitHub describes it in a list.
pub(crate) fn pull(number: u64, head: &str, body: &str) -> Value {
    json!({
        "number": number,
        "html_url": format!("https://github.com/acme/app/pull/{number}"),
        "state": "open",
        "title": "[kardinal] Promote app-v2 to prod",
        "user": { "login": "kardinal-bot" },
        "body": body,
        "labels": [],
        "created_at": "2026-11-01T10:00:00Z",
        "merged_at": null,
        "merge_commit_sha": "9999999999999999999999999999999999999999",
        "head": { "label": format!("acme:{head}"), "ref": head, "sha": "1111111111111111111111111111111111111111",
                  "repo": { "id": 1, "full_name": "acme/app" } },
        "base": { "label": "acme:main", "ref": "main", "sha": "2222222222222222222222222222222222222222",
                  "repo": { "id": 1, "full_name": "acme/app" } },
        "draft": false,
    })
}

/// What went wrong with the world, and when to come back.
#[track_caller]
pub(crate) fn fault(error: Error) -> (String, Option<Duration>) {
    match error {
        Error::Fault { message, retry_after } => (message, retry_after),
        Error::Limited { message, retry_after } => (message, Some(retry_after)),
        Error::Absent(message) => (message, None),
        problem @ (Error::Problem { .. } | Error::Conflict { .. }) => {
            panic!("expected a Fault, got {problem:?}")
        }
    }
}
