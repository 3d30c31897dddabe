//! What a step that is over has left open is closed, so that nobody merges it by mistake.

use kardinal_api::kardinal::PromotionState;

use super::check::{Checked, may_open_pull_request};
use super::draft::{self, Draft};
use super::{
    Effect, ForgeEffect, Plan, PullRequestState, Snapshot, body, change, commit_check, late, waiting,
};

/// Whether the promotion has come to a bad end.
pub(super) fn has_failed(snapshot: &Snapshot<'_>) -> bool {
    snapshot.step.status.as_ref().and_then(|status| status.state) == Some(PromotionState::Failed)
}

/// Closes what a failed step has left open or somebody has opened again, so that nobody merges it by mistake; what was
/// merged all the same is written down.
pub(super) fn abandon(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    if let Some(plan) = late::look_back(snapshot, checked) {
        return plan;
    }
    let draft = Draft::new(snapshot, checked);
    let why = draft.status.message.as_deref().unwrap_or("the promotion has failed");
    let comment = format!("Closed by kardinal: {}.", body::escape(why));
    let effect = close(snapshot, &draft, comment)
        .or_else(|| commit_check::take_back(snapshot, &draft, &format!("this promotion is over: {why}")));
    Plan::in_order(effect)
}

/// What is done for a step that is over by a status that the controller did not write: a pull request of its own that is
/// still open shows what the gates once said, and nobody would take that back. That is taken back first, also from one that
/// is closed and can be opened again; then it is closed. Nothing is written down.
pub(super) fn orphan(snapshot: &Snapshot<'_>) -> Plan {
    if !may_open_pull_request(snapshot.step) || snapshot.has_no_pull_request {
        return Plan::default();
    }
    let comment = "Closed by kardinal: somebody else wrote the status of its PromotionStep.".to_owned();
    let effect = match snapshot.pull_request {
        None => Some(change::find(snapshot)),
        Some(found) if found.state == PullRequestState::Merged => None,
        Some(found) if snapshot.withdrawn != Some(found.head.as_str()) => Some(commit_check::not_green(
            snapshot,
            &found.head,
            "somebody else wrote the status of this promotion",
        )),
        Some(found) if found.state == PullRequestState::Open => {
            Some(Effect::Forge(ForgeEffect::ClosePullRequest { number: found.number, comment }))
        }
        Some(_) => None,
    };
    Plan::in_order(effect)
}

/// The way to close a pull request that was open when last heard of. It is read first: it may be merged by now.
pub(super) fn close(snapshot: &Snapshot<'_>, draft: &Draft<'_>, comment: String) -> Option<Effect> {
    if draft.output(draft::PR_STATE) != Some(draft::OPEN) {
        return None;
    }
    let number = waiting::number(draft)?;
    match snapshot.pull_request.map(|found| found.state) {
        None => Some(Effect::Forge(ForgeEffect::ReadPullRequest { number })),
        Some(PullRequestState::Open) => {
            Some(Effect::Forge(ForgeEffect::ClosePullRequest { number, comment }))
        }
        Some(PullRequestState::Merged | PullRequestState::Closed) => None,
    }
}
