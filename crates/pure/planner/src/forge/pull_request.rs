//! What becomes of a pull request: numbered, compared, and merged or closed when somebody says so.

mod check;
mod plan;
mod report;
#[cfg(test)]
mod tests;
pub mod why;

use jiff::Timestamp;
use kardinal_api::forge::{PullRequest, PullRequestFile, PullRequestStatus, Repository};

use crate::sentence;

pub use check::{is_compared, is_over};
pub use plan::plan;
pub use report::{has_merged, report};

/// Everything a decision about one pull request is made from.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// The pull request as last seen.
    pub pull_request: &'a PullRequest,
    /// Its Repository, if there is one.
    pub repository: Option<&'a Repository>,
    /// What the repository says; nothing while it is not on disk.
    pub facts: Option<&'a Facts>,
    /// Why the repository says nothing about these branches, and never will: Git allows no branch of such a name, or the
    /// repository itself is not used.
    pub refused: Option<&'a str>,
    /// The numbers of the repository.
    pub numbers: Numbers<'a>,
    /// How many merges were tried just now, one after the other, of which none is to be seen.
    pub merges: u32,
    /// The part of the page's URL before the namespace, such as `http://127.0.0.1:8080/forge`.
    pub url_prefix: &'a str,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// The numbers that pull requests of one repository have or had. Nobody gives another one until this pass is over.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numbers<'a> {
    /// Those that others have.
    pub taken: &'a [u64],
    /// The highest one that is kept with the repository; absent: nobody can say.
    pub highest: Option<u64>,
    /// Whether one can be kept there now.
    pub is_on_disk: bool,
    /// The one that this pull request was given and has not in its status yet.
    pub given: Option<u64>,
}

/// What the repository says about the two branches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// The newest commit of the head branch, unless it is gone.
    pub head_tip: Option<String>,
    /// The newest commit of the base branch, unless it is gone.
    pub base_tip: Option<String>,
    /// Whether the base branch has everything that the head branch has. For a branch that is gone this speaks of
    /// `status.headCommit`.
    pub contained: bool,
    /// How the head came into the base branch. There is none for a head branch that was set back to a commit of the
    /// base branch: its change was dropped, not merged.
    pub merged: Option<Merge>,
    /// The files that both sides changed in ways that do not fit together.
    pub conflicts: Vec<String>,
    /// The files that differ.
    pub files: Vec<PullRequestFile>,
    /// How many lines the change adds.
    pub additions: u64,
    /// How many lines it removes.
    pub deletions: u64,
}

/// How a change came into the base branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The commit that brought it.
    pub commit: String,
    /// When, if the commit is a merge and so knows.
    pub at: Option<Timestamp>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Keep with the repository that this pull request has this number. The status says it only after that: otherwise the
    /// pull request could be deleted in between, and another one would get its number.
    KeepNumber {
        /// The number.
        number: u64,
    },
    /// Merge by a merge commit, if both branches are still where they are expected.
    Merge {
        /// The branch that receives the change.
        base: String,
        /// The branch with the change.
        head: String,
        /// The commit that `base` must be at.
        expected_base: String,
        /// The commit that `head` must be at.
        expected_head: String,
        /// The message of the merge commit.
        message: String,
        /// The name of its author.
        author: String,
        /// The address of its author.
        email: String,
        /// When it says it was made.
        time: Timestamp,
    },
}

/// What came of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was tried to the end; the next pass sees what it did.
    Done,
    /// Something was in the way.
    Failed,
}

/// What to do and what the status says.
pub type Plan = sentence::Plan<Effect, PullRequestStatus>;
