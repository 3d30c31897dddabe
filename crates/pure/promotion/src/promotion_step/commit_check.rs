//! The check on the commits of a pull request: which commit shows a green one, and which showed one when.
//!
//! A gate can close while the forge still shows what it said before. Whoever merges then has seen a green check, and the
//! evidence must not say that they forced it.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::PromotionStepStatus;

use super::draft::{self, Draft, output};
use super::{CommitState, Effect, ForgeEffect, Snapshot};

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
