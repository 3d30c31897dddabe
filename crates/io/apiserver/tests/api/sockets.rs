//! Clients that do not do their part, on real sockets of loopback. Nothing here waits for a fixed time: each attack ends when
//! the server ends it.

use std::sync::Arc;
use std::time::Duration;

use crate::*;
use axum::Router;
use axum::routing::{get, post};
use kardinal_apiserver::{ConnectionLimits, Limits, UploadLimits, serve_plain};
use rustls_pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

/// Long enough that nothing ends by itself within a test.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

/// No bound that is not set by the test comes into play.
fn patient() -> ConnectionLimits {
    ConnectionLimits {
        handshake_timeout: LONG,
        header_timeout: LONG,
        idle_timeout: LONG,
        write_timeout: LONG,
        ..ConnectionLimits::default()
    }
}

/// A plain port, until it is dropped.
struct Port {
    address: std::net::SocketAddr,
    stop: CancellationToken,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Port {
    async fn open(limits: ConnectionLimits) -> Port {
        let large = || async { vec![b'x'; 64 << 20] };
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/large", get(large))
            .route("/body", post(async |body: axum::body::Bytes| body.len().to_string()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let stopped = stop.clone();
        tokio::spawn(async move { serve_plain(listener, router, &limits, &stopped).await });
        Port { address, stop }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// From another address of loopback.
    async fn connect_from(&self, address: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
}

/// Everything until the server closes; a connection that it resets has said nothing more.
async fn until_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

/// One answer on a connection that stays open.
async fn hello(stream: &mut TcpStream) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"hello") {
        assert!(stream.read_buf(&mut said).await.unwrap() > 0, "{}", String::from_utf8_lossy(&said));
    }
}

#[tokio::test]
async fn a_connection_that_sends_nothing_is_closed() {
    let port = Port::open(ConnectionLimits { header_timeout: SHORT, ..patient() }).await;
    assert_eq!(until_closed(&mut port.connect().await).await, "");
}

#[tokio::test]
async fn half_a_header_is_closed() {
    let port = Port::open(ConnectionLimits { header_timeout: SHORT, ..patient() }).await;
    let mut stream = port.send("GET / HTTP/1.1\r\nHost: x\r\nX-Half: ").await;
    assert!(!until_closed(&mut stream).await.contains("200"));
}

#[tokio::test]
async fn a_connection_that_rests_too_long_is_closed() {
    let port = Port::open(ConnectionLimits { idle_timeout: SHORT, ..patient() }).await;
    let mut stream = port.connect().await;
    hello(&mut stream).await;
    assert_eq!(until_closed(&mut stream).await, "");
}

#[tokio::test]
async fn a_header_without_an_end_is_refused() {
    let port = Port::open(patient()).await;
    let mut stream = port.send("GET / HTTP/1.1\r\nX-Endless: ").await;
    // It stops taking more, or answers; either way this loop ends.
    while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
    let said = until_closed(&mut stream).await;
    assert!(said.is_empty() || said.contains("431"), "{said}");
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_at_once_and_others_go_on() {
    let port = Port::open(ConnectionLimits { total: 2, per_peer: 2, ..patient() }).await;
    let (mut first, mut second) = (port.connect().await, port.connect().await);
    hello(&mut first).await;
    hello(&mut second).await;
    let refused = until_closed(&mut port.connect().await).await;
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("Retry-After: 1"), "{refused}");
    hello(&mut first).await;
    drop(second);
    // The place is free as soon as the server has seen the end.
    loop {
        let mut next = port.connect().await;
        if next.write_all(b"GET / HTTP/1.0\r\n\r\n").await.is_ok()
            && until_closed(&mut next).await.ends_with("hello")
        {
            break;
        }
    }
}

#[tokio::test]
async fn one_peer_does_not_take_all_connections() {
    let port = Port::open(ConnectionLimits { total: 3, per_peer: 2, ..patient() }).await;
    let (mut first, mut second) = (port.connect().await, port.connect().await);
    hello(&mut first).await;
    hello(&mut second).await;
    assert!(until_closed(&mut port.connect().await).await.contains("503"));
    hello(&mut port.connect_from("127.0.0.2").await).await;
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let port = Port::open(ConnectionLimits { write_timeout: SHORT, ..patient() }).await;
    let mut stream = port.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    // Not read until the server has given up; then only what was on its way is there.
    stream.readable().await.unwrap();
    let cut = async {
        loop {
            // A write tells that the other side is gone.
            if stream.write_all(b"\r\n").await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    cut.await;
    let said = until_closed(&mut stream).await;
    assert!(said.len() < 64 << 20, "all of it was sent");
}

#[tokio::test]
async fn a_handshake_that_is_never_finished_is_closed() {
    let limits = Limits {
        connections: ConnectionLimits { handshake_timeout: SHORT, ..patient() },
        ..Limits::default()
    };
    let server = Server::start(Options { limits, ..Options::default() }).await.unwrap();
    let handle = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).await.unwrap();
    let mut silent = TcpStream::connect(handle.local_addr()).await.unwrap();
    assert_eq!(until_closed(&mut silent).await, "");
    let mut half = TcpStream::connect(handle.local_addr()).await.unwrap();
    half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    assert_eq!(until_closed(&mut half).await, "");
    server.shutdown().await;
}

/// A connection to the API through TLS, and its token.
async fn secure(
    handle: &kardinal_apiserver::ServeHandle,
) -> (tokio_rustls::client::TlsStream<TcpStream>, String) {
    let kubeconfig: Value = serde_saphyr::from_str(handle.kubeconfig()).unwrap();
    let text = |pointer: &str| kubeconfig.pointer(pointer).unwrap().as_str().unwrap().to_owned();
    let ca = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        text("/clusters/0/cluster/certificate-authority-data"),
    );
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls_pki_types::CertificateDer::from_pem_slice(&ca.unwrap()).unwrap()).unwrap();
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let stream = TcpStream::connect(handle.local_addr()).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    (stream, text("/users/0/user/token"))
}

/// A server whose clients may have so many bytes under way, for so long.
async fn receiving(total: usize, idle_timeout: Duration) -> (Server, kardinal_apiserver::ServeHandle) {
    let uploads = UploadLimits { total, per_peer: total, idle_timeout };
    let limits = Limits { connections: patient(), uploads, request_timeout: LONG, ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }).await.unwrap();
    let handle = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).await.unwrap();
    (server, handle)
}

/// Announces 2000 bytes and sends fewer.
async fn begin(
    handle: &kardinal_apiserver::ServeHandle,
    length: usize,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let (mut stream, token) = secure(handle).await;
    let head = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; length]).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn memory_for_unfinished_requests_is_bounded() {
    let (server, handle) = receiving(1000, LONG).await;
    // What is announced costs nothing, what has arrived does.
    let slow = begin(&handle, 900).await;
    while server.unfinished_bytes() < 900 {
        tokio::task::yield_now().await;
    }
    let refused = until_closed(&mut begin(&handle, 200).await).await;
    assert!(refused.starts_with("HTTP/1.1 429 ") && refused.contains("retry-after: 1"), "{refused}");
    assert!(server.unfinished_bytes() <= 1000);
    drop(slow);
    while server.unfinished_bytes() > 0 {
        tokio::task::yield_now().await;
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_that_stops_arriving_has_an_end() {
    let (server, handle) = receiving(1000, SHORT).await;
    let given_up = until_closed(&mut begin(&handle, 900).await).await;
    assert!(given_up.starts_with("HTTP/1.1 504 ") && given_up.contains("too slowly"), "{given_up}");
    assert_eq!(server.unfinished_bytes(), 0);
    server.shutdown().await;
}

/// More than all buffers between a server and a client that does not read.
async fn fill(server: &Server) {
    for at in 0..24 {
        let mut large = config_map(&format!("large-{at}"));
        large["data"]["a"] = "x".repeat(900 << 10).into();
        crate::post(server, MAPS, &large).await.expect(201);
    }
}

/// A server whose end waits for busy connections as long as it takes, but for nobody who does not read.
async fn leaving() -> (Server, kardinal_apiserver::ServeHandle) {
    let connections = ConnectionLimits { drain: LONG, leave: SHORT, ..patient() };
    let limits = Limits { connections, ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() }).await.unwrap();
    let handle = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap()).await.unwrap();
    (server, handle)
}

/// Long enough for any machine, and far less than [`LONG`].
const GUARD: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_end_waits_for_no_watch_that_is_not_read() {
    let (server, handle) = leaving().await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let (mut stream, token) = secure(&handle).await;
        let head =
            format!("GET {MAPS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // The watch is open when its answer begins; from here on nothing is read.
        assert!(stream.read(&mut [0; 64]).await.is_ok());
        streams.push(stream);
    }
    fill(&server).await;
    tokio::time::timeout(GUARD, server.shutdown()).await.expect("it waits for those who do not read");
    drop(streams);
}

#[tokio::test]
async fn the_end_waits_for_no_watch_that_is_not_read_on_a_shared_connection() {
    let (server, handle) = leaving().await;
    fill(&server).await;
    let (stream, token) = secure(&handle).await;
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Body>(executor, io).await.unwrap();
    // The connection itself is read, its streams are not.
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let request = http::Request::get(format!("https://localhost{MAPS}?watch=true"))
            .header("authorization", format!("Bearer {token}"))
            .body(Body::empty())
            .unwrap();
        answers.push(sender.send_request(request).await.unwrap());
    }
    tokio::time::timeout(GUARD, server.shutdown()).await.expect("it waits for those who do not read");
    drop(answers);
    connection.abort();
}

#[tokio::test]
async fn a_refusal_before_the_body_was_read_says_that_the_connection_ends() {
    let (server, handle) = receiving(1 << 20, LONG).await;
    let (_, token) = secure(&handle).await;
    for (path, token, code) in
        [(MAPS, "wrong", 401), ("/nowhere", token.as_str(), 405), (MAPS, token.as_str(), 413)]
    {
        let (mut stream, _) = secure(&handle).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: 90000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let said = until_closed(&mut stream).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {code} ")), "{said}");
        assert!(said.to_ascii_lowercase().contains("\r\nconnection: close\r\n"), "{said}");
    }
    server.shutdown().await;
}
