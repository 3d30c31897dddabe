//! What becomes of a pull request: numbered, compared, and merged or closed when somebody says so.

use jiff::Timestamp;
use kardinal_api::forge::{
    Desired, MERGEABLE, PullRequest, PullRequestFile, PullRequestState, PullRequestStatus, Repository,
};
use kardinal_object::whole_second;

use crate::condition::{NewCondition, Truth};
use crate::sentence;

/// The most files that a status lists.
const FILES_LIMIT: usize = 1000;
/// Who merges when nobody says so.
const NOBODY: &str = "kardinal";

/// Everything a decision about one pull request is made from.
#[derive(Debug, Clone)]
pub struct PullRequestSnapshot<'a> {
    /// The pull request as last seen.
    pub pull_request: &'a PullRequest,
    /// Its Repository, if there is one.
    pub repository: Option<&'a Repository>,
    /// What the repository says; nothing while it is not on disk.
    pub facts: Option<&'a RepoFacts>,
    /// Why the repository says nothing about these branches, and never will: Git allows no branch of such a name, or the
    /// repository itself is not used.
    pub refused: Option<&'a str>,
    /// The numbers of all pull requests that the repository has or had. Two that are planned at the same time must see each
    /// other's: plan those of one repository one after the other.
    pub numbers_taken: &'a [u64],
    /// The part of the page's URL before the namespace, such as `http://127.0.0.1:8080/forge`.
    pub url_prefix: &'a str,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What the repository says about the two branches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RepoFacts {
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
pub enum PullRequestEffect {
    /// Merge by a merge commit, if both branches are still where they are expected. Whatever comes of it, observe and
    /// plan again afterwards.
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

/// What to do and what to tell.
pub type PullRequestPlan = sentence::Plan<PullRequestEffect, PullRequestStatus>;

/// Whether the branches of a pull request still have a say. One that is merged, or given up and not wanted back, costs no
/// further look at them.
pub fn is_compared(pr: &PullRequest) -> bool {
    match pr.status.as_ref().and_then(|status| status.state) {
        Some(PullRequestState::Merged) => false,
        Some(PullRequestState::Closed) => pr.spec.desired() != Desired::Closed,
        Some(PullRequestState::Open) | None => true,
    }
}

/// Decides what becomes of a pull request.
pub fn plan_pull_request(snapshot: &PullRequestSnapshot<'_>) -> PullRequestPlan {
    let pr = snapshot.pull_request;
    let old = pr.status.clone().unwrap_or_default();
    let generation = pr.metadata.generation.unwrap_or_default();
    let number = old.number.unwrap_or_else(|| next_number(snapshot.numbers_taken));
    let outcome = decide(snapshot, &old);
    let new = outcome.condition(snapshot);
    let note = new.is_news(&old.conditions).then(|| new.note(outcome.is_trouble(&new)));
    let condition = new.since(&old.conditions, Some(generation), snapshot.now);
    let mut status = PullRequestStatus {
        observed_generation: Some(generation),
        number: Some(number),
        url: Some(url(snapshot, number)),
        conditions: vec![condition],
        ..old.clone()
    };
    outcome.record(snapshot, &mut status);
    PullRequestPlan {
        status: (status != old).then_some(status),
        notes: note.into_iter().collect(),
        ..PullRequestPlan::in_order(outcome.effect(snapshot, number))
    }
}

fn next_number(taken: &[u64]) -> u64 {
    taken.iter().max().map_or(1, |largest| largest.saturating_add(1))
}

fn url(snapshot: &PullRequestSnapshot<'_>, number: u64) -> String {
    let namespace = snapshot.pull_request.metadata.namespace.as_deref().unwrap_or_default();
    let repository = &snapshot.pull_request.spec.repository;
    format!("{}/{namespace}/{repository}/pulls/{number}", snapshot.url_prefix.trim_end_matches('/'))
}

/// Where a pull request stands after a look at its branches.
enum Outcome<'a> {
    /// Merged, now or before.
    Merged(Option<&'a Merge>),
    /// Given up.
    Closed,
    /// Nobody can compare these branches, for this reason.
    Refused(&'a str),
    /// There is no such Repository, or it is not on disk yet.
    NoRepository { coming: bool },
    /// A branch is gone.
    Missing { branch: &'a str, reason: &'static str },
    /// The head has nothing that the base has not.
    Nothing,
    /// Both sides changed the same.
    Conflicts(&'a [String]),
    /// The merge was asked for another commit than the one that is there.
    HeadMoved { asked: &'a str, head: &'a str },
    /// It can be merged; and shall be, if so asked.
    Fits { base: &'a str, head: &'a str },
}

fn decide<'a>(snapshot: &PullRequestSnapshot<'a>, old: &PullRequestStatus) -> Outcome<'a> {
    let spec = &snapshot.pull_request.spec;
    if old.state == Some(PullRequestState::Merged) {
        return Outcome::Merged(None);
    }
    let merged = snapshot.facts.and_then(|facts| facts.merged.as_ref());
    // Branches that never differed have not been merged: the change may still come. Unless a merge was asked for: then
    // this is what a merge looks like whose report got lost.
    let counts = spec.desired() == Desired::Merged
        || old.mergeable.is_some() && old.state != Some(PullRequestState::Closed);
    if merged.is_some() && counts {
        return Outcome::Merged(merged);
    }
    if spec.desired() == Desired::Closed {
        return Outcome::Closed;
    }
    if let Some(refused) = snapshot.refused {
        return Outcome::Refused(refused);
    }
    let (Some(_), Some(facts)) = (snapshot.repository, snapshot.facts) else {
        return Outcome::NoRepository { coming: snapshot.repository.is_some() };
    };
    let (base, head) = match (facts.base_tip.as_deref(), facts.head_tip.as_deref()) {
        (Some(base), Some(head)) => (base, head),
        (_, None) => return Outcome::Missing { branch: &spec.head, reason: "HeadMissing" },
        (None, _) => return Outcome::Missing { branch: &spec.base, reason: "BaseMissing" },
    };
    if facts.contained {
        return Outcome::Nothing;
    }
    if !facts.conflicts.is_empty() {
        return Outcome::Conflicts(&facts.conflicts);
    }
    match spec.expected_head.as_deref() {
        Some(asked) if asked != head && spec.desired() == Desired::Merged => {
            Outcome::HeadMoved { asked, head }
        }
        _ => Outcome::Fits { base, head },
    }
}

impl Outcome<'_> {
    fn condition(&self, snapshot: &PullRequestSnapshot<'_>) -> NewCondition {
        let spec = &snapshot.pull_request.spec;
        let (truth, reason, message) = match self {
            Outcome::Merged(_) => (Truth::False, "Merged", format!("`{}` is in `{}`", spec.head, spec.base)),
            Outcome::Closed => (
                Truth::False,
                "Closed",
                "it was given up; set `spec.desired: open` to open it again".to_owned(),
            ),
            Outcome::Refused(reason) => (Truth::False, "Refused", (*reason).to_owned()),
            Outcome::NoRepository { coming: true } => (
                Truth::Unknown,
                "RepositoryNotReady",
                format!("repository `{}` is being created", spec.repository),
            ),
            Outcome::NoRepository { coming: false } => (
                Truth::False,
                "RepositoryMissing",
                format!("there is no Repository `{}` in this namespace; create it", spec.repository),
            ),
            Outcome::Missing { branch, reason } => (
                Truth::False,
                *reason,
                format!("there is no branch `{branch}`; push it, or close the pull request"),
            ),
            Outcome::Nothing => (
                Truth::False,
                "NothingToMerge",
                format!("`{}` has no commit that `{}` has not; push one", spec.head, spec.base),
            ),
            Outcome::Conflicts(files) => {
                (Truth::False, "Conflicts", conflict_message(files, &spec.base, &spec.head))
            }
            Outcome::HeadMoved { asked, head } => (
                Truth::False,
                "HeadMoved",
                format!(
                    "the merge was asked for `{asked}`, but `{}` is at `{head}`; look and ask again",
                    spec.head
                ),
            ),
            Outcome::Fits { .. } => {
                (Truth::True, "Mergeable", format!("`{}` fits into `{}`", spec.head, spec.base))
            }
        };
        NewCondition::new(MERGEABLE, truth, reason, message)
    }

    /// Whether somebody should look.
    fn is_trouble(&self, condition: &NewCondition) -> bool {
        condition.truth == Truth::False && !matches!(self, Outcome::Merged(_) | Outcome::Closed)
    }

    /// What the status says; what it does not speak of stays as it was.
    fn record(&self, snapshot: &PullRequestSnapshot<'_>, status: &mut PullRequestStatus) {
        let spec = &snapshot.pull_request.spec;
        match self {
            Outcome::Merged(None) => {}
            Outcome::Merged(Some(merge)) => {
                let head = snapshot.facts.and_then(|facts| facts.head_tip.clone());
                status.state = Some(PullRequestState::Merged);
                status.head_commit = head.or(status.head_commit.take());
                status.merge_commit = Some(merge.commit.clone());
                status.merged_at = Some(merge.at.unwrap_or_else(|| whole_second(snapshot.now)));
                status.merged_by.clone_from(&spec.merged_by);
                (status.closed_at, status.closed_by) = (None, None);
                status.mergeable = None;
            }
            Outcome::Closed => {
                status.state = Some(PullRequestState::Closed);
                // Whoever is named later has not closed it.
                if status.closed_at.is_none() {
                    status.closed_at = Some(whole_second(snapshot.now));
                    status.closed_by.clone_from(&spec.closed_by);
                }
            }
            Outcome::Refused(_) | Outcome::NoRepository { .. } => open(status),
            Outcome::Missing { .. } | Outcome::Nothing => {
                open(status);
                // The last known head stays: it tells whether the branch was merged before it went.
                let facts = snapshot.facts;
                status.head_commit =
                    facts.and_then(|facts| facts.head_tip.clone()).or(status.head_commit.take());
                status.base_commit = facts.and_then(|facts| facts.base_tip.clone());
            }
            Outcome::Conflicts(_) => compared(snapshot, status, false),
            Outcome::HeadMoved { .. } | Outcome::Fits { .. } => compared(snapshot, status, true),
        }
    }

    fn effect(&self, snapshot: &PullRequestSnapshot<'_>, number: u64) -> Option<PullRequestEffect> {
        let spec = &snapshot.pull_request.spec;
        let Outcome::Fits { base, head } = self else { return None };
        if spec.desired() != Desired::Merged || snapshot.pull_request.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let author = spec.merged_by.as_deref().unwrap_or(NOBODY).to_owned();
        Some(PullRequestEffect::Merge {
            base: spec.base.clone(),
            head: spec.head.clone(),
            expected_base: (*base).to_owned(),
            expected_head: (*head).to_owned(),
            message: format!("Merge pull request #{number} from {}\n\n{}\n", spec.head, spec.title.trim()),
            email: email(&author),
            author,
            time: whole_second(snapshot.now),
        })
    }
}

/// Open, and nothing left of a time when it was not.
fn open(status: &mut PullRequestStatus) {
    status.state = Some(PullRequestState::Open);
    (status.closed_at, status.closed_by) = (None, None);
}

fn compared(snapshot: &PullRequestSnapshot<'_>, status: &mut PullRequestStatus, mergeable: bool) {
    open(status);
    status.mergeable = Some(mergeable);
    if let Some(facts) = snapshot.facts {
        status.head_commit.clone_from(&facts.head_tip);
        status.base_commit.clone_from(&facts.base_tip);
        status.files = facts.files.iter().take(FILES_LIMIT).cloned().collect();
        status.additions = Some(facts.additions);
        status.deletions = Some(facts.deletions);
    }
}

/// Names the first few files; a list of thousands helps nobody.
fn conflict_message(files: &[String], base: &str, head: &str) -> String {
    let named: Vec<String> = files.iter().take(10).map(|file| format!("`{file}`")).collect();
    let more = match files.len().saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "`{head}` and `{base}` both changed {}{more}; merge `{base}` into `{head}`, settle them and push",
        named.join(", ")
    )
}

/// An address that shows who it was, and that nobody will try to write to.
fn email(name: &str) -> String {
    let local: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || ".-_+".contains(c) { c } else { '-' }).collect();
    if name.contains('@') { name.to_owned() } else { format!("{local}@localhost") }
}
