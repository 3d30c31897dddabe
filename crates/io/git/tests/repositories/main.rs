//! Everything the crate promises, against real repositories and the real git program.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop loudly")]

mod barriers;
mod bench;
mod bounds;
mod crowd;
mod disk;
mod hostile;
mod planted;
mod proxy;
mod same;
mod server;
mod ssh;
mod web;
