//! Pull requests and the marks on commits, as every forge has them.

use jiff::Timestamp;

/// A pull request as its forge describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// The number that people know it by.
    pub number: u64,
    /// Where people look at it.
    pub url: String,
    /// Where it stands.
    pub state: PullRequestState,
    /// The branch that it comes from; empty when that is not one of the repository itself.
    pub branch: String,
    /// The branch that it goes into now: people can point it at another one.
    pub base: String,
    /// The newest commit of its branch.
    pub head: String,
    /// When it was merged.
    pub merged_at: Option<Timestamp>,
    /// Who merged it.
    pub merged_by: Option<String>,
    /// The commit that the merge left on the base branch.
    pub merge_commit: Option<String>,
    /// Whether it could be merged without conflicts; `None` while the forge works it out.
    pub mergeable: Option<bool>,
    /// When it was closed without merging.
    pub closed_at: Option<Timestamp>,
    /// Who closed it, where the forge tells it. Only a pull request that was read by itself has it: lists do not.
    pub closed_by: Option<String>,
    /// Who approved its newest commit: an approval of an earlier one is no word about what is there now. Only a pull
    /// request that was read by itself has it.
    pub approved_by: Vec<String>,
}

/// Where a pull request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    /// It waits.
    Open,
    /// Its change is on the base branch.
    Merged,
    /// Somebody closed it without merging.
    Closed,
}

/// A pull request to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch with the change, in the same repository.
    pub head: String,
    /// The branch to merge into.
    pub base: String,
    /// The title.
    pub title: String,
    /// The body, in Markdown. It contains the marker.
    pub body: String,
    /// Labels; those that do not exist are created, those that cannot be created are left out.
    pub labels: Vec<String>,
    /// The part of the body by which it is known as our own.
    pub marker: String,
    /// One that ended before is another one, whatever it says.
    pub since: Option<Timestamp>,
}

/// What the mark on a commit shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// Something is waited for.
    Pending,
    /// Nothing stands in the way.
    Success,
}
