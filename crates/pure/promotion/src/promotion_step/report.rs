//! What came of an effect, folded into the status.

mod retry;
mod success;

use jiff::SignedDuration;
use kardinal_api::kardinal::{PromotionState, PromotionStep, PromotionStepStatus};
use kardinal_planner::sentence;
use kardinal_planner::why::Wait;
use retry::{backoff, pause, uid, wait};
use success::succeeded;

use super::check::check_current;
use super::draft::{self, Draft};
use super::tasks::reviewed;
use super::{
    Barrier, CommitState, Effect, ForgeEffect, GitEffect, Note, Outcome, PullRequest, PullRequestState,
    Retry, Snapshot, StepEffect, closing, commit_check, pull_request, why,
};

/// How often a custom task is called before a fault fails the step.
const CALLS: u32 = 3;
/// How often something is tried that is refused until somebody acts, where the step can do without.
pub const BLOCKED_ATTEMPTS_MAX: u32 = 4;
/// How often a forge may ask to try a merge again later before that means a conflict.
const CONFLICT_AFTER: u32 = 3;
/// How often a step that is being deleted tries what fails outside: for about ten minutes.
const FAULT_ATTEMPTS_MAX: u32 = 75;

/// What to write, and when to try again.
pub type Report = sentence::Report<PromotionStepStatus>;

/// Folds the outcome of an effect into the status. `attempt` says how many troubles there were in a row, this one
/// included.
pub fn report(snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome, attempt: u32) -> Report {
    if let Some(report) = unwritten(snapshot, effect, outcome, attempt) {
        return report;
    }
    let checked = check_current(snapshot);
    let mut draft = Draft::new(snapshot, &checked);
    let retry = fold(&mut draft, snapshot, effect, outcome, attempt);
    let over = draft.status.state == Some(PromotionState::Failed) && !is_cleanup(snapshot, effect);
    let retry = retry.filter(|_| !over);
    let (status, notes) = draft.finish();
    Report { status, notes, retry }
}

/// Folds an outcome into a status that is the controller's own. Answers after which pause to try again.
fn fold(
    draft: &mut Draft<'_>,
    snapshot: &Snapshot<'_>,
    effect: &Effect,
    outcome: &Outcome,
    attempt: u32,
) -> Option<SignedDuration> {
    match outcome {
        Outcome::Held { why } => {
            draft.hold(why.iter().cloned());
            // What holds it brings the next pass about; without a pause the same change would be built at once again.
            Some(pause(1))
        }
        Outcome::Overtaken { message } => {
            draft.wait([overtaken(snapshot, message)]);
            if let Some(pull_request) = snapshot.pull_request {
                draft.set_output(draft::FOREIGN_HEAD, pull_request.head.clone());
            }
            None
        }
        trouble if is_trouble(trouble) && looks_back(snapshot, draft, effect) => {
            Some(backoff(attempt, uid(snapshot)))
        }
        Outcome::Fault { message, .. }
            if may_give_up(snapshot, draft, effect) && attempt >= FAULT_ATTEMPTS_MAX =>
        {
            give_up(draft, snapshot, effect, message);
            None
        }
        Outcome::Fault { message, retry } => {
            fault(draft, effect, message);
            commit_check::may_be_shown(draft, effect);
            if is_rebuild(effect) {
                draft.status.outputs.remove(draft::CONFLICT);
            }
            Some(wait(snapshot, *retry, attempt))
        }
        Outcome::Absent { message } => {
            fault(draft, effect, message);
            Some(pause(attempt))
        }
        Outcome::Blocked { message, .. }
            if may_give_up(snapshot, draft, effect) && attempt >= BLOCKED_ATTEMPTS_MAX =>
        {
            give_up(draft, snapshot, effect, message);
            None
        }
        Outcome::Blocked { barrier, message }
            if is_display(effect)
                && attempt >= BLOCKED_ATTEMPTS_MAX
                && !takes_success_back(snapshot, draft, effect) =>
        {
            refused(draft, snapshot, effect, (None, *barrier, message), attempt)
        }
        Outcome::Conflict { message, certain } => {
            Some(conflict(draft, snapshot, effect, (message, *certain), attempt))
        }
        Outcome::Blocked { barrier, message } => {
            draft.block(*barrier, message);
            Some(pause(attempt))
        }
        Outcome::Refused { task, barrier, message } => {
            refused(draft, snapshot, effect, (*task, *barrier, message), attempt)
        }
        // A look at a record that is still open does not say that it can be merged now: the next try does.
        Outcome::PullRequest(found) if merges_itself(snapshot, effect, found) && draft.is_blocked() => {
            pull_request::record(draft, found);
            None
        }
        done => {
            draft.unblock();
            let at = if let Outcome::Shown { at } = done { *at } else { snapshot.now };
            commit_check::shown(draft, effect, at);
            succeeded(draft, snapshot, effect, done);
            None
        }
    }
}

/// What it means that a forge does not know something, after so many troubles in a row. Right after creation some need a
/// moment to know a pull request or a commit; what is still not known after several looks is gone, and nothing is green on a
/// commit that is gone.
pub fn in_time(step: &PromotionStep, effect: &Effect, outcome: Outcome, attempt: u32) -> Outcome {
    let Outcome::Absent { message } = outcome else { return outcome };
    let output = |key: &str| step.status.as_ref().and_then(|status| draft::output(status, key));
    // The newest commit of an open pull request will come to be known.
    let is_awaited = |sha: &str| {
        output(draft::PR_STATE) == Some(draft::OPEN) && output(draft::PR_HEAD).is_none_or(|head| head == sha)
    };
    match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. })
            if attempt >= BLOCKED_ATTEMPTS_MAX =>
        {
            Outcome::NoPullRequest
        }
        Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, sha, .. })
            if attempt >= BLOCKED_ATTEMPTS_MAX && !is_awaited(sha) =>
        {
            Outcome::Done
        }
        _ => Outcome::Fault { message, retry: Retry::Soon },
    }
}

/// The report where a status is not the controller's own: nothing is written down, because that would make the rest of it
/// the controller's word.
fn unwritten(snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome, attempt: u32) -> Option<Report> {
    let forgets = *effect == Effect::Step(StepEffect::ForgetStatus);
    if !forgets && super::is_proven(snapshot) {
        return None;
    }
    let failed = is_trouble(outcome);
    let message =
        "somebody else wrote the status of this step, or changed what the step is about: it begins again";
    let note = Note { warning: true, reason: "StatusNotOurs".to_owned(), message: message.to_owned() };
    let notes = if forgets && !failed { vec![note] } else { Vec::new() };
    Some(Report { status: None, notes, retry: failed.then(|| backoff(attempt.max(1), uid(snapshot))) })
}

/// Whether nothing came of an effect.
fn is_trouble(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Fault { .. }
            | Outcome::Absent { .. }
            | Outcome::Blocked { .. }
            | Outcome::Conflict { .. }
            | Outcome::Refused { .. }
            | Outcome::Overtaken { .. }
    )
}

/// Whether the effect only shows something to people.
fn is_display(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Forge(
            ForgeEffect::UpdatePullRequest { .. }
                | ForgeEffect::SetCommitStatus { .. }
                | ForgeEffect::CommentPullRequest { .. }
        )
    )
}

/// Whether the effect takes a green check back. Until that is done people may merge what the gates hold, so it is not
/// given up, but for a commit that is not in the pull request any more: a forge may not have it any more either.
fn takes_success_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, effect: &Effect) -> bool {
    let Effect::Forge(ForgeEffect::SetCommitStatus { sha, state: CommitState::Pending, .. }) = effect else {
        return false;
    };
    let is_green = draft.output(draft::GREEN_HEAD) == Some(sha)
        || commit_check::shown_green(snapshot) == Some(sha.as_str());
    is_green && !is_replaced(snapshot, sha)
}

/// Whether an open pull request has another newest commit.
pub(super) fn is_replaced(snapshot: &Snapshot<'_>, sha: &str) -> bool {
    let open = snapshot.pull_request.filter(|found| found.state == PullRequestState::Open);
    open.is_some_and(|found| found.head != sha)
}

/// Whether what fails for long may be left undone: whatever clears up after a step that is over, as long as nobody waits
/// for it. Only a step that is being deleted cannot wait for its green check to go.
fn may_give_up(snapshot: &Snapshot<'_>, draft: &Draft<'_>, effect: &Effect) -> bool {
    is_removal(snapshot) || (is_cleanup(snapshot, effect) && !takes_success_back(snapshot, draft, effect))
}

/// Whether the effect writes the step's change once more, on a base that has moved on.
fn is_rebuild(effect: &Effect) -> bool {
    matches!(effect, Effect::Git(GitEffect::Commit(order)) if order.replaces.is_some())
}

/// Whether a pull request was only looked at that the controller goes on to merge by itself.
fn merges_itself(snapshot: &Snapshot<'_>, effect: &Effect, found: &PullRequest) -> bool {
    matches!(effect, Effect::Forge(ForgeEffect::ReadPullRequest { .. }))
        && found.state == PullRequestState::Open
        && !is_cleanup(snapshot, effect)
        && !reviewed(&snapshot.step.spec)
}

pub(super) fn is_removal(snapshot: &Snapshot<'_>) -> bool {
    snapshot.step.metadata.deletion_timestamp.is_some()
}

/// Whether the effect clears up after a step that is over.
pub(super) fn is_cleanup(snapshot: &Snapshot<'_>, effect: &Effect) -> bool {
    is_removal(snapshot)
        || closing::has_failed(snapshot)
        || matches!(effect, Effect::Forge(ForgeEffect::ClosePullRequest { .. }))
}

fn fault(draft: &mut Draft<'_>, effect: &Effect, message: &str) {
    if draft.status.state == Some(PromotionState::Failed) {
        return;
    }
    let Effect::CallTask(call) = effect else {
        draft.wait([why::outside(format!("{}: {message}", doing(effect)))]);
        return;
    };
    let name = draft.status.steps.get(call.index).map(|task| task.name.clone()).unwrap_or_default();
    if call.attempt >= CALLS {
        draft.status.outputs.remove(draft::TASK_ATTEMPTS);
        draft.fail(Some(call.index), format!("calling `{name}` failed {CALLS} times: {message}"));
    } else {
        draft.set_output(draft::TASK_ATTEMPTS, call.attempt.to_string());
        draft.trouble(call.index, message);
        draft.wait([why::outside(format!("calling `{name}`: {message}"))]);
    }
}

fn refused(
    draft: &mut Draft<'_>,
    snapshot: &Snapshot<'_>,
    effect: &Effect,
    (task, barrier, message): (Option<usize>, Barrier, &str),
    attempt: u32,
) -> Option<SignedDuration> {
    // The base may be mended.
    if is_rebuild(effect) {
        draft.block(barrier, &format!("{}: {message}", doing(effect)));
        return Some(backoff(attempt, uid(snapshot)));
    }
    if may_give_up(snapshot, draft, effect) {
        give_up(draft, snapshot, effect, message);
        return None;
    }
    match effect {
        // What people are shown is not worth a failed promotion.
        effect if is_display(effect) && !takes_success_back(snapshot, draft, effect) => {
            draft.unblock();
            draft.warn("PullRequestNotUpdated", format!("{}: {message}", doing(effect)));
            succeeded(draft, snapshot, effect, &Outcome::Done);
            None
        }
        // Nothing was refused but a look, or what must not be given up.
        Effect::Forge(
            ForgeEffect::ReadPullRequest { .. }
            | ForgeEffect::FindPullRequest { .. }
            | ForgeEffect::FindMerge { .. }
            | ForgeEffect::SetCommitStatus { .. },
        ) => {
            draft.block(barrier, &format!("{}: {message}", doing(effect)));
            Some(pause(attempt))
        }
        Effect::CallTask(call) => {
            draft.fail(Some(call.index), message);
            None
        }
        _ => {
            draft.fail(task, message);
            None
        }
    }
}

/// Whether the effect only looks at the step's pull request.
fn is_look(effect: &Effect) -> bool {
    matches!(effect, Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. }))
}

/// Whether a step that has failed only looks whether its pull request was merged all the same. Nobody waits for that, and
/// it is never given up: the credentials are the team's.
fn looks_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, effect: &Effect) -> bool {
    is_look(effect)
        && closing::has_failed(snapshot)
        && !is_removal(snapshot)
        && draft.output(draft::PR_STATE) != Some(draft::OPEN)
}

/// A step that is being deleted must not wait for ever for a door that stays shut.
fn give_up(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, effect: &Effect, message: &str) {
    draft.unblock();
    draft.warn("LeftBehind", format!("{} was given up: {message}", doing(effect)));
    match effect {
        Effect::Git(GitEffect::DeleteBranch { .. }) => draft.set_output(draft::BRANCH_DELETED, "false"),
        Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }) => {
            commit_check::forget(draft, sha);
            let left = draft.output(draft::CHECK_LEFT).map(|left| format!("{left} {sha}"));
            draft.set_output(draft::CHECK_LEFT, left.unwrap_or_else(|| sha.clone()));
        }
        _ if is_removal(snapshot) => draft.set_output(draft::PR_STATE, draft::NONE),
        _ => draft.set_output(draft::PR_STATE, draft::LEFT),
    }
}

/// A merge that is refused because of a conflict, or because of what turns out to be one when it stays.
fn conflict(
    draft: &mut Draft<'_>,
    snapshot: &Snapshot<'_>,
    effect: &Effect,
    (message, certain): (&str, bool),
    attempt: u32,
) -> SignedDuration {
    if certain || attempt >= CONFLICT_AFTER {
        draft.set_output(draft::CONFLICT, "true");
    }
    if certain {
        let detail = format!("{}: {message}", doing(effect));
        draft.wait([match snapshot.pull_request {
            Some(found) => pull_request::request(found, why::reason::CONFLICT).detail(detail),
            None => why::next(detail),
        }]);
        return pause(1);
    }
    fault(draft, effect, message);
    pause(attempt)
}

/// Others have written to the step's own branch, and a person has to look at that.
fn overtaken(snapshot: &Snapshot<'_>, message: &str) -> Wait {
    match snapshot.pull_request {
        Some(found) => pull_request::request(found, why::reason::FOREIGN).detail(message),
        None => why::next(message),
    }
}

/// What was being done, for a message.
fn doing(effect: &Effect) -> String {
    match effect {
        Effect::Step(StepEffect::AddFinalizer | StepEffect::RemoveFinalizer) => {
            "updating the step".to_owned()
        }
        Effect::Git(GitEffect::Commit(order)) if order.replaces.is_some() => {
            format!("rebuilding `{}` on the newest `{}`", order.branch, order.base)
        }
        Effect::Git(GitEffect::Commit(order)) => format!("pushing to `{}`", order.branch),
        Effect::Forge(ForgeEffect::OpenPullRequest(_)) => "opening the pull request".to_owned(),
        Effect::Forge(ForgeEffect::ReadPullRequest { number }) => format!("reading PR #{number}"),
        Effect::Forge(ForgeEffect::UpdatePullRequest { number, .. }) => format!("updating PR #{number}"),
        Effect::Forge(ForgeEffect::MergePullRequest { number, .. }) => format!("merging PR #{number}"),
        Effect::Forge(ForgeEffect::CommentPullRequest { number, .. }) => {
            format!("commenting on PR #{number}")
        }
        Effect::Forge(ForgeEffect::ClosePullRequest { number, .. }) => format!("closing PR #{number}"),
        Effect::Forge(ForgeEffect::FindPullRequest { .. } | ForgeEffect::FindMerge { .. }) => {
            "looking for the pull request".to_owned()
        }
        Effect::Git(GitEffect::DeleteBranch { branch, .. }) => format!("deleting branch `{branch}`"),
        Effect::Step(StepEffect::ForgetStatus) => "taking away the status".to_owned(),
        Effect::Forge(ForgeEffect::SetCommitStatus { .. }) => "setting the commit status".to_owned(),
        Effect::CallTask(call) => format!("calling task {}", call.index),
    }
}
