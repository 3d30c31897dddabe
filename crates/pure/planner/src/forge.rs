//! The local forge: what becomes of a repository and of a pull request.
//!
//! A plan never supposes that its effects succeed: what they did is observed in the next pass, which says so. A crash between
//! the two costs nothing.

mod pattern;
pub mod pull_request;
pub mod repository;

use jiff::SignedDuration;

pub use pattern::protects;

/// The field manager of the statuses of the forge.
pub const MANAGER: &str = "kardinal-forge-controller";

/// How long to wait after the disk was in the way, or for somebody to mend what is on it: nobody tells of that.
pub const RETRY: SignedDuration = SignedDuration::from_secs(2);
