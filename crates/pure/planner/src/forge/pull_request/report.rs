//! What a pull request's status says.

use jiff::SignedDuration;
use kardinal_api::forge::{MERGEABLE, PullRequestState, PullRequestStatus};
use kardinal_object::whole_second;

use super::check::Standing;
use super::{Effect, Outcome, Plan, Snapshot, why};
use crate::condition::{NewCondition, Note, Truth};
use crate::forge::RETRY;
use crate::sentence::Report;

/// The most files that a status lists.
const FILES_LIMIT: usize = 1000;

/// What the status says after the effects of a plan.
pub fn report(snapshot: &Snapshot<'_>, plan: Plan, done: &[(Effect, Outcome)]) -> Report<PullRequestStatus> {
    let later = |pause| Report { retry: Some(pause), ..Report::default() };
    // What became of it is seen in the branches.
    if has_merged(done) {
        return later(SignedDuration::ZERO);
    }
    let has_failed = of(done, Outcome::Failed).next().is_some();
    // A number that others have seen is told although it could not be kept; a new one is not.
    if has_failed && number(snapshot).is_none() {
        return later(RETRY);
    }
    Report { status: plan.status, notes: plan.notes, retry: has_failed.then_some(RETRY) }
}

/// Whether a merge was tried, and what became of it is to be seen.
pub fn has_merged(done: &[(Effect, Outcome)]) -> bool {
    of(done, Outcome::Done).any(|effect| matches!(effect, Effect::Merge { .. }))
}

fn of(done: &[(Effect, Outcome)], outcome: Outcome) -> impl Iterator<Item = &Effect> {
    done.iter().filter(move |(_, came)| *came == outcome).map(|(effect, _)| effect)
}

/// The number that the status has already.
pub(super) fn number(snapshot: &Snapshot<'_>) -> Option<u64> {
    snapshot.pull_request.status.as_ref().and_then(|status| status.number)
}

/// The status, where it is another one than before, and its transition.
pub(super) fn status(
    snapshot: &Snapshot<'_>,
    standing: &Standing<'_>,
    number: u64,
) -> (Option<PullRequestStatus>, Vec<Note>) {
    let pr = snapshot.pull_request;
    let old = pr.status.clone().unwrap_or_default();
    let generation = Some(pr.metadata.generation.unwrap_or_default());
    let new = standing.condition(snapshot);
    let note = new.is_news(&old.conditions).then(|| new.note(standing.is_trouble(&new)));
    let mut status = PullRequestStatus {
        observed_generation: generation,
        number: Some(number),
        url: Some(url(snapshot, number)),
        ..old.clone()
    };
    status.waits = why::wait(snapshot, standing, &new, &status).into_iter().collect();
    status.conditions = vec![new.since(&old.conditions, generation, snapshot.now)];
    standing.record(snapshot, &mut status);
    ((status != old).then_some(status), note.into_iter().collect())
}

fn url(snapshot: &Snapshot<'_>, number: u64) -> String {
    let namespace = snapshot.pull_request.metadata.namespace.as_deref().unwrap_or_default();
    let repository = &snapshot.pull_request.spec.repository;
    format!("{}/{namespace}/{repository}/pulls/{number}", snapshot.url_prefix.trim_end_matches('/'))
}

impl Standing<'_> {
    fn condition(&self, snapshot: &Snapshot<'_>) -> NewCondition {
        let spec = &snapshot.pull_request.spec;
        let (truth, reason, message) = match self {
            Standing::Merged(_) => (Truth::False, "Merged", format!("`{}` is in `{}`", spec.head, spec.base)),
            Standing::Closed => (
                Truth::False,
                "Closed",
                "it was given up; set `spec.desired: open` to open it again".to_owned(),
            ),
            Standing::Refused(reason) => (Truth::False, "Refused", (*reason).to_owned()),
            Standing::NoRepository { coming: true } => (
                Truth::Unknown,
                "RepositoryNotReady",
                format!("repository `{}` is being created", spec.repository),
            ),
            Standing::NoRepository { coming: false } => (
                Truth::False,
                "RepositoryMissing",
                format!("there is no Repository `{}` in this namespace; create it", spec.repository),
            ),
            Standing::Missing { branch, reason } => (
                Truth::False,
                *reason,
                format!("there is no branch `{branch}`; push it, or close the pull request"),
            ),
            Standing::Nothing => (
                Truth::False,
                "NothingToMerge",
                format!("`{}` has no commit that `{}` has not; push one", spec.head, spec.base),
            ),
            Standing::Conflicts(files) => {
                (Truth::False, "Conflicts", conflict_message(files, &spec.base, &spec.head))
            }
            Standing::HeadMoved { asked, head } => (
                Truth::False,
                "HeadMoved",
                format!(
                    "the merge was asked for `{asked}`, but `{}` is at `{head}`; look and ask again",
                    spec.head
                ),
            ),
            Standing::Fits { .. } => {
                (Truth::True, "Mergeable", format!("`{}` fits into `{}`", spec.head, spec.base))
            }
        };
        NewCondition::new(MERGEABLE, truth, reason, message)
    }

    /// Whether somebody should look.
    fn is_trouble(&self, condition: &NewCondition) -> bool {
        condition.truth == Truth::False && !matches!(self, Standing::Merged(_) | Standing::Closed)
    }

    /// What the status says; what it does not speak of stays as it was.
    fn record(&self, snapshot: &Snapshot<'_>, status: &mut PullRequestStatus) {
        let spec = &snapshot.pull_request.spec;
        match self {
            Standing::Merged(None) => {}
            Standing::Merged(Some(merge)) => {
                let head = snapshot.facts.and_then(|facts| facts.head_tip.clone());
                status.state = Some(PullRequestState::Merged);
                status.head_commit = head.or(status.head_commit.take());
                status.merge_commit = Some(merge.commit.clone());
                status.merged_at = Some(merge.at.unwrap_or_else(|| whole_second(snapshot.now)));
                status.merged_by.clone_from(&spec.merged_by);
                (status.closed_at, status.closed_by) = (None, None);
                status.mergeable = None;
            }
            Standing::Closed => {
                status.state = Some(PullRequestState::Closed);
                // Whoever is named later has not closed it.
                if status.closed_at.is_none() {
                    status.closed_at = Some(whole_second(snapshot.now));
                    status.closed_by.clone_from(&spec.closed_by);
                }
            }
            Standing::Refused(_) | Standing::NoRepository { .. } => open(status),
            Standing::Missing { .. } | Standing::Nothing => {
                open(status);
                // The last known head stays: it tells whether the branch was merged before it went.
                let facts = snapshot.facts;
                status.head_commit =
                    facts.and_then(|facts| facts.head_tip.clone()).or(status.head_commit.take());
                status.base_commit = facts.and_then(|facts| facts.base_tip.clone());
            }
            Standing::Conflicts(_) => compared(snapshot, status, false),
            Standing::HeadMoved { .. } | Standing::Fits { .. } => compared(snapshot, status, true),
        }
    }
}

/// Open, and nothing left of a time when it was not.
fn open(status: &mut PullRequestStatus) {
    status.state = Some(PullRequestState::Open);
    (status.closed_at, status.closed_by) = (None, None);
}

fn compared(snapshot: &Snapshot<'_>, status: &mut PullRequestStatus, mergeable: bool) {
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
