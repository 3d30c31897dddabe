//! The local forge: bare repositories, served over smart HTTP, for people who have only Git.
//!
//! [`Store`] keeps the repositories and merges in memory, without a work tree and without a git process; its methods
//! block, so call them where blocking is allowed. [`router`] serves them: it authenticates, reads the ref commands of
//! a push before git sees them, and hands the streams over to `git upload-pack` and `git receive-pack`.

mod error;
mod http;
mod store;

pub use error::Error;
pub use http::{Credentials, Guard, Identity, RefChange, Settings, router, router_with, same_secret};
pub use store::{Author, Comparison, FileChange, FileDiff, LastNumber, MergeOrder, Merged, Seed, Store};
