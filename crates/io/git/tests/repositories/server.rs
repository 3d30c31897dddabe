//! A git server for the tests: the real `git http-backend` behind a few switches.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Response, Uri},
};
use kardinal_git::{Credentials, Remote};
use tokio::io::AsyncWriteExt as _;

use crate::bench::{Bench, command, remote, run};

/// What the server does besides serving.
#[derive(Default)]
pub(crate) struct Switches {
    root: PathBuf,
    /// The value of the Authorization header that is let in; empty lets everybody in.
    pub(crate) password: String,
    /// Work as usual, but answer pushes with a cut connection.
    pub(crate) lose_answers: AtomicBool,
    /// Answer everything with this status, if it is not 0.
    pub(crate) status: AtomicU16,
    /// Pretend to know version 0 of the protocol only.
    pub(crate) old: AtomicBool,
    /// Pretend to be a heap of files for the git program, and only for it.
    pub(crate) dumb: AtomicBool,
    /// Redirect the first path to the second.
    pub(crate) redirect: Mutex<Option<(String, String)>>,
    requests: Mutex<Vec<String>>,
}

/// A running server, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) switches: Arc<Switches>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn new(bench: &Bench) -> Server {
        Server::with_password(bench, "").await
    }

    pub(crate) async fn with_password(bench: &Bench, password: &str) -> Server {
        run(&bench.bare(), &["config", "http.receivepack", "true"]);
        let root = bench.dir.path().to_owned();
        let switches = Arc::new(Switches { root, password: password.to_owned(), ..Switches::default() });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let app = Router::new()
            .fallback(serve)
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&switches));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Server { address, switches, task }
    }

    pub(crate) fn remote(&self) -> Remote {
        remote(&format!("http://{}/app.git", self.address))
    }

    pub(crate) fn remote_as(&self, credentials: Credentials) -> Remote {
        Remote { credentials, ..self.remote() }
    }

    /// The requests since the last time, as `METHOD path`.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.switches.requests.lock().unwrap())
    }
}

async fn serve(
    State(switches): State<Arc<Switches>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    switches.requests.lock().unwrap().push(format!("{method} {}", uri.path()));
    let status = switches.status.load(Ordering::SeqCst);
    if status != 0 {
        let answer = Response::builder().status(status);
        // A 403 with a waiting time would be a rate limit.
        let answer = if status == 403 { answer } else { answer.header("Retry-After", "7") };
        return answer.body(Body::empty()).unwrap();
    }
    let given = headers.get("authorization").map_or("", |value| value.to_str().unwrap());
    if !switches.password.is_empty() && given != switches.password {
        return Response::builder()
            .status(401)
            .header("WWW-Authenticate", "Basic")
            .body(Body::empty())
            .unwrap();
    }
    if let Some((from, to)) = &*switches.redirect.lock().unwrap()
        && let Some(rest) = uri.path_and_query().unwrap().as_str().strip_prefix(from.as_str())
    {
        return Response::builder()
            .status(307)
            .header("Location", format!("{to}{rest}"))
            .body(Body::empty())
            .unwrap();
    }
    let answer = backend(&switches, &method, &uri, &headers, body).await;
    if method == Method::POST
        && uri.path().ends_with("receive-pack")
        && switches.lose_answers.load(Ordering::SeqCst)
    {
        return Response::builder().status(502).body(Body::empty()).unwrap();
    }
    answer
}

async fn backend(
    switches: &Switches,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let dumb = switches.dumb.load(Ordering::SeqCst) && !header("user-agent").contains("kardinal");
    let query = if dumb { "" } else { uri.query().unwrap_or("") };
    let mut cgi = tokio::process::Command::from(command(&switches.root));
    cgi.arg("http-backend")
        .env("GIT_PROJECT_ROOT", &switches.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", uri.path())
        .env("REQUEST_METHOD", method.as_str())
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("REMOTE_USER", "alice")
        .env("REMOTE_ADDR", "127.0.0.1");
    if !switches.old.load(Ordering::SeqCst) {
        cgi.env("GIT_PROTOCOL", header("git-protocol"));
    }
    let mut child = cgi
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = tokio::spawn(async move { drop(stdin.write_all(&body).await) });
    let output = child.wait_with_output().await.unwrap().stdout;
    feed.await.unwrap();
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    let (head, body) = output.split_at(end);
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(head).lines() {
        match line.split_once(": ") {
            Some(("Status", status)) => response = response.status(status.split(' ').next().unwrap()),
            Some((name, value)) => response = response.header(name, value),
            None => {}
        }
    }
    response.body(Body::from(body.get(4..).unwrap_or_default().to_vec())).unwrap()
}
