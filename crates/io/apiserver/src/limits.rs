//! The bounds a server keeps so that no client can exhaust it.

use std::time::Duration;

/// Bounds on connections, requests, bodies and watches.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// Requests in flight on one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// Requests in flight in all, watches not counted; more are answered 429, those of in-process clients wait.
    pub requests: usize,
    /// Watches open at once; more are answered 429.
    pub watches: usize,
    /// The largest request body in bytes; a larger one is answered 413 without being read.
    pub body: usize,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a client may take to send a request's head, the idle time before it included.
    pub header_timeout: Duration,
    /// How long a request other than a watch may take, reading its body included.
    pub request_timeout: Duration,
    /// How often a quiet watch gets a bookmark when it asked for them.
    pub bookmark_interval: Duration,
    /// Write requests made durable together at most.
    pub batch: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 4096,
            streams_per_connection: 1000,
            requests: 800,
            watches: 10_000,
            body: 3 * 1024 * 1024,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(90),
            request_timeout: Duration::from_secs(60),
            bookmark_interval: Duration::from_secs(60),
            batch: 1024,
        }
    }
}
