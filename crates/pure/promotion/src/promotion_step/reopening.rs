//! A pull request that is deleted while the step waits for it. Nobody has said no by that, so another one is opened.

use kardinal_api::kardinal::{PromotionState, TaskState};

use super::check::Checked;
use super::draft::{self, Draft};
use super::tasks::TaskKind;
use super::{Plan, Snapshot, commit_check, why};

/// What a new pull request does not begin without: for which Bundle the step works, and when a check was green.
const KEPT: [&str; 2] = [draft::BUNDLE_UID, draft::WAS_GREEN];

/// Writes down that the forge does not know the pull request any more.
pub(super) fn record(draft: &mut Draft<'_>) {
    let number = draft.output(draft::PR_NUMBER).and_then(|number| number.parse().ok());
    let gone = why::pull_request(number, None, why::reason::GONE);
    draft.set_output(draft::PR_STATE, draft::NONE);
    draft.warn("PullRequestGone", why::sentence(&gone));
    draft.wait([gone]);
}

/// Goes back to before the push: the branch may be gone, too, and what was pushed is found if it is not. Tasks of others
/// are not called again. Before that a green check is taken back, which anybody could put to use with the same commit.
pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    if let Some(effect) = commit_check::take_back(snapshot, &draft, "the pull request no longer exists") {
        return Plan::act(effect);
    }
    let again = draft.tasks().iter().zip(&mut draft.status.steps).filter(|(task, _)| {
        task.kind.is_gathered()
            || matches!(task.kind, TaskKind::Push | TaskKind::OpenPullRequest | TaskKind::WaitForMerge)
    });
    for (_, record) in again {
        record.state = TaskState::Pending;
        (record.started_at, record.completed_at, record.message) = (None, None, None);
    }
    draft.status.outputs.retain(|key, _| KEPT.contains(&key.as_str()));
    draft.status.pr_url = None;
    draft.status.state = Some(PromotionState::Promoting);
    draft.advance("");
    draft.plan()
}
