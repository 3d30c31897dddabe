//! What a pull request waits for, as data.

use kardinal_api::forge::{Desired, PullRequestSpec, PullRequestStatus};

use super::Snapshot;
use super::check::Standing;
use super::plan::MERGES_AT_ONCE;
use crate::condition::NewCondition;
use crate::why::{Subject, Wait, WaitOn, Who};

/// The words of [`Wait::reason`] beside those of the condition. Programs may rely on them.
pub mod reason {
    /// Somebody has to merge it.
    pub const REVIEW: &str = "Review";
    /// The merge was asked for and comes next.
    pub const MERGING: &str = "Merging";
}

/// What it waits for: the condition has the words for whatever is in the way. One that is over, or being deleted, waits for
/// nothing.
pub(super) fn wait(
    snapshot: &Snapshot<'_>,
    standing: &Standing<'_>,
    mergeable: &NewCondition,
    status: &PullRequestStatus,
) -> Option<Wait> {
    let spec = &snapshot.pull_request.spec;
    let person = |subject, needs: String| {
        let wait = Wait::new(WaitOn::Action, &mergeable.reason, subject, Who::Person);
        Some(wait.detail(mergeable.message.as_str()).basis(format!("needs a person to {needs}")))
    };
    if snapshot.pull_request.metadata.deletion_timestamp.is_some() {
        return None;
    }
    match standing {
        Standing::Merged(_) | Standing::Closed => None,
        Standing::Refused(_) => {
            person(repository(spec), "mend what is said there, or close the pull request".to_owned())
        }
        Standing::NoRepository { coming: true } => Some(repository_comes(snapshot, mergeable)),
        Standing::NoRepository { coming: false } => {
            person(repository(spec), format!("create the Repository `{}`", spec.repository))
        }
        Standing::Missing { branch, .. } => {
            person(Subject::new(*branch), format!("push `{branch}`, or to close the pull request"))
        }
        Standing::Nothing => person(Subject::new(spec.head.as_str()), format!("push to `{}`", spec.head)),
        Standing::Conflicts(_) => {
            person(Subject::new(spec.head.as_str()), format!("settle the conflicts in `{}`", spec.head))
        }
        Standing::HeadMoved { .. } => {
            person(itself(status), "look and to ask for the merge again".to_owned())
        }
        Standing::Fits { .. } => fits(snapshot, status),
    }
}

fn repository(spec: &PullRequestSpec) -> Subject {
    Subject::object("Repository", spec.repository.as_str())
}

/// It is the turn of whoever the Repository itself waits for.
fn repository_comes(snapshot: &Snapshot<'_>, mergeable: &NewCondition) -> Wait {
    let status = snapshot.repository.and_then(|repository| repository.status.as_ref());
    let who = status.and_then(|status| status.waits.first()).map_or(Who::Kardinal, |wait| wait.who);
    let subject = repository(&snapshot.pull_request.spec);
    Wait::new(WaitOn::Controller, &mergeable.reason, subject, who).detail(mergeable.message.as_str())
}

/// Its branches fit: somebody has to ask for the merge, or it comes.
fn fits(snapshot: &Snapshot<'_>, status: &PullRequestStatus) -> Option<Wait> {
    let wait = |reason, who| Wait::new(WaitOn::PullRequest, reason, itself(status), who);
    match snapshot.pull_request.spec.desired() {
        Desired::Open => {
            let wait = wait(reason::REVIEW, Who::Person).detail("nobody has asked for the merge");
            Some(wait.basis("needs a person to merge it"))
        }
        Desired::Merged if snapshot.merges >= MERGES_AT_ONCE => {
            let wait =
                wait(reason::MERGING, Who::Outside).detail("its branches moved each time it was tried");
            Some(wait.basis("it is tried again when they have moved once more"))
        }
        Desired::Merged => {
            let wait = wait(reason::MERGING, Who::Kardinal).detail("the merge was asked for");
            Some(wait.basis("kardinal merges it by itself"))
        }
        // Nobody compares it.
        Desired::Closed => None,
    }
}

/// The pull request, as people call it.
fn itself(status: &PullRequestStatus) -> Subject {
    let name = status.number.map_or_else(|| "the pull request".to_owned(), |number| format!("PR #{number}"));
    Subject { url: status.url.clone(), ..Subject::object("PullRequest", name) }
}
