//! The bounds a server keeps so that no client can exhaust it.

use std::time::Duration;

/// Bounds on connections, requests, bodies and watches.
#[derive(Debug, Clone)]
pub struct Limits {
    /// What a connection may cost before and between requests.
    pub connections: ConnectionLimits,
    /// What bodies may cost while they arrive.
    pub uploads: UploadLimits,
    /// Requests of the network in flight, watches not counted; more are answered 429.
    pub requests: usize,
    /// Requests of in-process clients in flight; more wait. They have places of their own, so that however much the
    /// controllers have to do, people and programs are still let in.
    pub own_requests: usize,
    /// Watches open at once by clients of the network; more are answered 429. In-process clients are not counted.
    pub watches: usize,
    /// Watches open at once by one peer address; more are answered 429.
    pub watches_per_peer: usize,
    /// The largest request body in bytes; a larger one is answered 413 without being read.
    pub body: usize,
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
            connections: ConnectionLimits::default(),
            uploads: UploadLimits::default(),
            requests: 800,
            own_requests: 400,
            watches: 10_000,
            watches_per_peer: 5_000,
            body: 3 * 1024 * 1024,
            request_timeout: Duration::from_secs(60),
            bookmark_interval: Duration::from_secs(60),
            batch: 1024,
        }
    }
}

/// What connections may cost; the same for every port.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// Connections served at once; further ones are closed when they arrive.
    pub total: usize,
    /// Connections of one peer address served at once. All programs of this machine share the address of loopback.
    pub per_peer: usize,
    /// Requests in flight on one HTTP/2 connection.
    pub streams: u32,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long a client may take to send a request's head, once it has connected or has begun to send it.
    pub header_timeout: Duration,
    /// How long a connection may rest between requests.
    pub idle_timeout: Duration,
    /// How long a client may refuse to take what is sent to it.
    pub write_timeout: Duration,
    /// How long connections may take to finish their requests once the server is asked to stop.
    pub drain: Duration,
    /// How long, from then on, a client may refuse to take what is sent to it, and a connection may stay that has
    /// nothing but watches. Watches have ended by then, so what is left waits for a client that does not read.
    pub leave: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            total: 1024,
            per_peer: 512,
            streams: 1000,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            // Clients in Go keep idle connections for 90 seconds: they should be the ones to close.
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(60),
            drain: Duration::from_secs(10),
            leave: Duration::from_secs(1),
        }
    }
}

/// What bodies may cost while they arrive.
#[derive(Debug, Clone)]
pub struct UploadLimits {
    /// Bytes of bodies whose requests are not answered yet, in all.
    pub total: usize,
    /// Such bytes of one peer address.
    pub per_peer: usize,
    /// How long a client may send nothing in the middle of a body.
    pub idle_timeout: Duration,
}

impl Default for UploadLimits {
    fn default() -> UploadLimits {
        UploadLimits {
            total: 64 * 1024 * 1024,
            per_peer: 48 * 1024 * 1024,
            idle_timeout: Duration::from_secs(10),
        }
    }
}
