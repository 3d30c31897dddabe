//! The check on the commits of a pull request: what it says, how it is taken back, and which commit showed a green one when.
//!
//! A gate can close while the forge still shows what it said before. Whoever merges then has seen a green check, and the
//! evidence must not say that they forced it.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{PromotionState, PromotionStepStatus};

use super::check::may_open_pull_request;
use super::draft::{self, Draft, output};
use super::{
    CommitState, Effect, ForgeEffect, PullRequest, PullRequestState, Snapshot, change, gates, organisation,
    pending, pull_request, why,
};

/// Keeps in mind what the forge shows since `at`.
pub(super) fn shown(draft: &mut Draft<'_>, effect: &Effect, at: Timestamp) {
    match effect {
        Effect::Forge(ForgeEffect::SetCommitStatus { sha, state: CommitState::Success, .. }) => {
            // Green in other words is as green as before.
            if draft.output(draft::GREEN_HEAD) != Some(sha) {
                draft.set_output(draft::GREEN_SINCE, at.to_string());
            }
            draft.set_output(draft::GREEN_HEAD, sha.clone());
        }
        Effect::Forge(ForgeEffect::SetCommitStatus { sha, state: CommitState::Pending, .. }) => {
            if draft.output(draft::GREEN_HEAD) == Some(sha) {
                let since = draft.output(draft::GREEN_SINCE).map_or_else(|| at.to_string(), str::to_owned);
                let until = pending_since(draft.snapshot(), sha).map_or(at, |pending| pending.min(at));
                draft.set_output(draft::WAS_GREEN, format!("{sha} {since} {until}"));
            }
            forget(draft, sha);
        }
        _ => {}
    }
}

/// Keeps in mind that the forge may show a green check although it has not answered.
pub(super) fn may_be_shown(draft: &mut Draft<'_>, effect: &Effect) {
    if let Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Success, .. }) = effect {
        let now = draft.snapshot().now;
        shown(draft, effect, now);
    }
}

/// The check of this commit is not green any more, or nobody can say.
pub(super) fn forget(draft: &mut Draft<'_>, sha: &str) {
    if draft.output(draft::GREEN_HEAD) == Some(sha) {
        draft.status.outputs.remove(draft::GREEN_HEAD);
        draft.status.outputs.remove(draft::GREEN_SINCE);
    }
}

/// The commit whose check this process has set to green, and not taken back since.
pub(super) fn shown_green<'a>(snapshot: &Snapshot<'a>) -> Option<&'a str> {
    let shown = snapshot.shown.filter(|shown| shown.state == CommitState::Success)?;
    Some(&shown.sha)
}

/// Since when this process itself knows that the check of a commit is not green.
fn pending_since(snapshot: &Snapshot<'_>, sha: &str) -> Option<Timestamp> {
    let shown = snapshot.shown.filter(|shown| shown.sha == sha && shown.state == CommitState::Pending)?;
    Some(shown.since)
}

/// Whether a commit showed a green check at a merge. Forges tell its time in whole seconds: what was green in some part of
/// that second may have been seen. What this process has shown itself comes before what is written down.
pub(super) fn was_green(snapshot: &Snapshot<'_>, sha: &str, at: Timestamp) -> bool {
    let end = match at.subsec_nanosecond() {
        0 => at.saturating_add(SignedDuration::from_nanos(999_999_999)).unwrap_or(at),
        _ => at,
    };
    match snapshot.shown.filter(|shown| shown.sha == sha) {
        Some(shown) if shown.state == CommitState::Pending && shown.since < at => return false,
        Some(shown) if shown.state == CommitState::Success && shown.since <= end => return true,
        _ => {}
    }
    snapshot.step.status.as_ref().is_some_and(|status| is_on_record(status, sha, (at, end)))
}

/// Whether the status says that a commit showed a green check at some time between two.
fn is_on_record(status: &PromotionStepStatus, sha: &str, (at, end): (Timestamp, Timestamp)) -> bool {
    let time = |text: &str| text.parse::<Timestamp>().ok();
    let is_green = output(status, draft::GREEN_HEAD) == Some(sha)
        && output(status, draft::GREEN_SINCE).and_then(time).is_none_or(|since| since <= end);
    let was_green = || {
        let mut parts = output(status, draft::WAS_GREEN)?.split(' ');
        let (green, since, until) = (parts.next()?, parts.next()?, parts.next()?);
        Some(green == sha && time(since)? <= end && at <= time(until)?)
    };
    is_green || was_green().unwrap_or(false)
}

/// Forges cut longer descriptions of a commit status, or refuse them.
const DESCRIPTION_LIMIT: usize = 140;
/// What the check says of a step whose status is not the controller's own, or not the last one.
const LOST: &str = "what is known of this promotion was lost: it is looked at again";

pub(super) fn commit_status(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> (CommitState, String) {
    if let Some(strange) = pull_request::foreign(snapshot, pull_request) {
        return (CommitState::Pending, change::cut(&strange, DESCRIPTION_LIMIT).to_owned());
    }
    if let Err(unusable) = pending::usable_bundle(snapshot) {
        return (CommitState::Pending, change::cut(&why::sentence(&unusable), DESCRIPTION_LIMIT).to_owned());
    }
    let closed = gates::closed(snapshot);
    let (state, description) = match (pending::held(snapshot), closed.as_slice()) {
        (Some(held), _) => (CommitState::Pending, why::sentence(&held)),
        (None, []) => match organisation::blocker(snapshot) {
            // Nobody could ask them.
            Some(unknown) => (CommitState::Pending, why::sentence(&unknown)),
            None if gates::required(snapshot).next().is_none() => {
                (CommitState::Success, "no gates guard this environment".to_owned())
            }
            None => (CommitState::Success, "all gates are open".to_owned()),
        },
        (None, closed) => {
            let names: Vec<&str> = closed.iter().map(|gate| gate.subject.name.as_str()).collect();
            (CommitState::Pending, format!("held by {}", names.join(", ")))
        }
    };
    (state, change::cut(&description, DESCRIPTION_LIMIT).to_owned())
}

/// Equal while the commit status needs no change.
pub(super) fn status_key(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> String {
    let (state, description) = commit_status(snapshot, pull_request);
    let state = match state {
        CommitState::Pending => "pending",
        CommitState::Success => "success",
    };
    format!("{} {state} {description}", pull_request.head)
}

/// Takes the green check of a promotion that is over back: a pull request that is closed can be opened again. What was
/// merged is merged. What this process has shown counts, also where the status does not know of it.
pub(super) fn take_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, why: &str) -> Option<Effect> {
    let shown = || shown_green(snapshot).filter(|sha| !is_taken_back(snapshot, draft, sha));
    let green = draft.output(draft::GREEN_HEAD).or_else(shown)?;
    (draft.output(draft::PR_STATE) != Some(draft::MERGED)).then(|| not_green(snapshot, green, why))
}

/// Whether the check of a commit is known not to be green, or was given up.
fn is_taken_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, sha: &str) -> bool {
    let mut left = draft.output(draft::CHECK_LEFT).into_iter().flat_map(|left| left.split(' '));
    snapshot.withdrawn == Some(sha) || left.any(|one| one == sha)
}

/// The same for a step of which nothing is left afterwards. Whatever is known of the check, it is set to pending once: a
/// green one may have been shown without being written down.
pub(super) fn take_back_for_good(snapshot: &Snapshot<'_>, draft: &Draft<'_>, why: &str) -> Option<Effect> {
    take_back(snapshot, draft, why).or_else(|| {
        let is_merged = draft.output(draft::PR_STATE) == Some(draft::MERGED);
        let head = draft.output(draft::PR_HEAD).filter(|head| !is_taken_back(snapshot, draft, head))?;
        (!is_merged).then(|| not_green(snapshot, head, why))
    })
}

pub(super) fn not_green(snapshot: &Snapshot<'_>, sha: &str, why: &str) -> Effect {
    Effect::Forge(ForgeEffect::SetCommitStatus {
        sha: sha.to_owned(),
        context: change::status_context(snapshot.step),
        state: CommitState::Pending,
        description: change::cut(why, DESCRIPTION_LIMIT).to_owned(),
    })
}

/// How a green check is taken back that this process has shown, where the status does not know of it: somebody has written
/// another one, or put an older one back. While a pull request is waited for that is part of its upkeep.
pub(super) fn left_green(snapshot: &Snapshot<'_>) -> Option<Effect> {
    snapshot.key?;
    let sha = shown_green(snapshot).filter(|sha| snapshot.withdrawn != Some(*sha))?;
    if snapshot.step.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = snapshot.step.status.as_ref().filter(|_| super::is_proven(snapshot));
    let may_stay = status.is_some_and(|status| match status.state {
        Some(PromotionState::WaitingForMerge | PromotionState::HealthChecking | PromotionState::Verified) => {
            true
        }
        Some(PromotionState::Failed) => {
            output(status, draft::GREEN_HEAD) == Some(sha)
                || output(status, draft::PR_STATE) == Some(draft::MERGED)
        }
        None | Some(PromotionState::Pending | PromotionState::Promoting) => false,
    });
    (!may_stay).then(|| not_green(snapshot, sha, LOST))
}

/// How the check of the step's own pull request is taken back before a status is forgotten, and with it the memory of what
/// the check shows. `None`: there is nothing to take back.
pub(super) fn withdraw(snapshot: &Snapshot<'_>) -> Option<Effect> {
    if !may_open_pull_request(snapshot.step) || snapshot.has_no_pull_request || super::is_over(snapshot.step)
    {
        return None;
    }
    let Some(found) = snapshot.pull_request else { return Some(change::find(snapshot)) };
    let is_shown = found.state == PullRequestState::Open && snapshot.withdrawn != Some(found.head.as_str());
    is_shown.then(|| not_green(snapshot, &found.head, LOST))
}
