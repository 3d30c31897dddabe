//! The forge as git sees it: a real git client over HTTP on the loopback interface.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod hostile;
mod merging;
mod planted;
mod serving;
mod world;
