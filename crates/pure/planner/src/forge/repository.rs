//! What becomes of a Repository: it is created once, and then watched.

mod check;
mod plan;
mod report;
#[cfg(test)]
mod tests;
mod why;

use jiff::Timestamp;
use kardinal_api::forge::{Repository, RepositoryStatus};

use crate::sentence;

pub use plan::plan;
pub use report::report;

/// Everything a decision about one Repository is made from.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// The Repository as last seen.
    pub repository: &'a Repository,
    /// What is on disk; nothing when there is nothing.
    pub facts: Option<Facts>,
    /// Why what is on disk is not used.
    pub problem: Option<&'a str>,
    /// The part of the clone URL before the namespace, such as `http://127.0.0.1:8080/git`.
    pub clone_prefix: &'a str,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The branch that a clone checks out.
    pub default_branch: String,
    /// Its newest commit, unless nothing was pushed yet.
    pub head: Option<String>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Create it, or point it at another default branch.
    Create {
        /// The branch that a clone checks out.
        default_branch: String,
    },
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; the next pass sees what it made.
    Done,
    /// It can never be done, for this reason.
    Refused(String),
    /// The disk was in the way.
    Failed,
}

/// What to do and what the status says.
pub type Plan = sentence::Plan<Effect, RepositoryStatus>;
