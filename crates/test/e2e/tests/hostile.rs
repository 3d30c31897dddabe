//! Input that nobody sends by accident, sent to a server in this process and to `kardinal up` over HTTPS: every case ends
//! in a clear error within a bounded time, the server goes on answering, and nothing panics.

#[path = "hostile/bombs.rs"]
mod bombs;
#[path = "hostile/target.rs"]
mod target;
#[path = "hostile/transport.rs"]
mod transport;
