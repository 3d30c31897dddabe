//! What every forge can do for a promotion.

use futures::future::BoxFuture;
use jiff::Timestamp;
use kardinal_vcs::{CommitState, NewPullRequest, PullRequest, PullRequestState};

use crate::error::Error;

/// What a forge's methods return.
pub type Future<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// One repository on a forge.
pub trait Forge: Send + Sync {
    /// The pull request in any state from one branch into another whose body contains the marker. Whoever may open pull
    /// requests can open one more that looks the same: one that was merged counts before one that is open, an open one
    /// before one that is closed, and the first before later ones. One that was merged or closed before `since` does not
    /// count: whoever may edit it can put the marker in. Forges without a filter by branch list all their pull requests for
    /// it; [`Forge::create`] is cheaper where one is wanted anyway.
    fn find<'a>(
        &'a self,
        head: &'a str,
        base: &'a str,
        marker: &'a str,
        since: Option<Timestamp>,
    ) -> Future<'a, Option<PullRequest>>;

    /// The first pull request from one branch into another that is known to have been merged, and not before this time,
    /// whatever its body says.
    fn find_merge<'a>(
        &'a self,
        head: &'a str,
        base: &'a str,
        since: Option<Timestamp>,
    ) -> Future<'a, Option<PullRequest>>;

    /// Creates a pull request, or returns the one with the same branches and marker, in whatever state it is: asking
    /// twice gives one pull request.
    fn create<'a>(&'a self, new: &'a NewPullRequest) -> Future<'a, PullRequest>;

    /// The pull request as it is now. A number that the forge does not know is [`Error::Absent`]: right after creation
    /// some forges need a moment.
    fn get<'a>(&'a self, number: u64) -> Future<'a, PullRequest>;

    /// Changes title, body or labels; what is `None` stays.
    fn update<'a>(&'a self, number: u64, changes: &'a Changes) -> Future<'a, ()>;

    /// Merges, but only if the branch is still at this commit and the pull request still goes into this base: people can
    /// point it at another one. Merged already is fine.
    fn merge<'a>(&'a self, number: u64, head_sha: &'a str, base: &'a str) -> Future<'a, PullRequest>;

    /// Closes without merging, after saying why. Closed or merged already is fine; then nothing is said.
    fn close<'a>(&'a self, number: u64, comment: Option<&'a str>) -> Future<'a, ()>;

    /// Adds a comment.
    fn comment<'a>(&'a self, number: u64, body: &'a str) -> Future<'a, ()>;

    /// Sets a status of a commit; the newest of a context counts.
    fn set_status<'a>(&'a self, sha: &'a str, status: &'a CommitStatus) -> Future<'a, ()>;
}

/// What shall be different about a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// A new title.
    pub title: Option<String>,
    /// A new body.
    pub body: Option<String>,
    /// Labels that it shall have; others that people added stay.
    pub labels: Option<Vec<String>>,
}

/// What tells which of several pull requests with the same branches and marker counts: see [`Forge::find`].
pub(crate) struct Standing<K> {
    pub(crate) state: PullRequestState,
    /// When it was merged or closed.
    pub(crate) ended_at: Option<Timestamp>,
    /// What says which came first.
    pub(crate) order: K,
}

/// The one of several pull requests with the same branches and marker that counts.
pub(crate) fn counting<T, K: Ord>(
    all: impl IntoIterator<Item = T>,
    since: Option<Timestamp>,
    standing: impl Fn(&T) -> Standing<K>,
) -> Option<T> {
    let is_older = |one: &T| {
        let Standing { state, ended_at, .. } = standing(one);
        state != PullRequestState::Open && ended_at.zip(since).is_some_and(|(ended, since)| ended < since)
    };
    all.into_iter().filter(|one| !is_older(one)).min_by_key(|one| {
        let Standing { state, order, .. } = standing(one);
        let rank = match state {
            PullRequestState::Merged => 0,
            PullRequestState::Open => 1,
            PullRequestState::Closed => 2,
        };
        (rank, order)
    })
}

/// The first of several pull requests that was merged, and not before a time: see [`Forge::find_merge`].
pub(crate) fn first_merge(
    all: impl IntoIterator<Item = PullRequest>,
    since: Option<Timestamp>,
) -> Option<PullRequest> {
    let is_older = |one: &PullRequest| {
        since.is_some_and(|since| one.merged_at.is_none_or(|merged_at| merged_at < since))
    };
    let merges = all.into_iter().filter(|one| one.state == PullRequestState::Merged && !is_older(one));
    merges.min_by_key(|one| (one.merged_at, one.number))
}

/// The last word of one reviewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Review {
    /// Who reviewed.
    pub(crate) author: String,
    /// Approved, or asked for changes.
    pub(crate) approved: bool,
    /// The commit that was at the tip of the branch then; `None` where the forge does not tell it.
    pub(crate) commit: Option<String>,
}

impl Review {
    /// Whose last word is an approval of this commit. What was said of an earlier one is no word about what is there now;
    /// of an approval that names no commit nobody knows what it is about, so it does not count either.
    pub(crate) fn approvers(reviews: Vec<Review>, head_sha: &str) -> Vec<String> {
        let approves = |review: &Review| review.approved && review.commit.as_deref() == Some(head_sha);
        reviews.into_iter().filter(approves).map(|review| review.author).collect()
    }
}

/// A mark on a commit that the forge shows next to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    /// Its name, unique on the commit.
    pub context: String,
    /// How it stands.
    pub state: CommitState,
    /// One line for people.
    pub description: String,
    /// Where to read more.
    pub url: Option<String>,
}

/// Why a pull request that people have pointed at another branch is not merged. Whoever reads it again sees where it goes.
pub(crate) fn redirected(number: u64, wanted: &str, base: &str) -> Error {
    Error::fault(format!("pull request #{number} goes into `{base}` by now instead of `{wanted}`"))
}

/// The word that every supported forge uses for what a mark on a commit shows.
pub(crate) fn word(state: CommitState) -> &'static str {
    match state {
        CommitState::Pending => "pending",
        CommitState::Success => "success",
    }
}

/// What one reviewer said, or took back.
pub(crate) enum Word {
    /// Approved, or asked for changes.
    Said(Review),
    /// What this person said before was dismissed.
    Dismissed {
        /// Who had said it.
        author: String,
    },
}

/// The last word of each reviewer out of all that was said, oldest first: approvals and refusals stay until the same
/// person says the other or it is dismissed.
pub(crate) fn last_words(all: impl IntoIterator<Item = Word>) -> Vec<Review> {
    let mut last: Vec<Review> = Vec::new();
    for word in all {
        let (Word::Said(Review { author, .. }) | Word::Dismissed { author }) = &word;
        last.retain(|review| review.author != *author);
        if let Word::Said(review) = word {
            last.push(review);
        }
    }
    last
}
