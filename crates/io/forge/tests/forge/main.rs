//! The forge as git sees it: a real git client over HTTP on the loopback interface.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it fails"
)]

mod hostile;
mod merging;
mod serving;
mod world;
