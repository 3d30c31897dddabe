//! What came of an effect, folded into the status.

use jiff::SignedDuration;
use kardinal_api::kardinal::{PromotionState, PromotionStepStatus};

use super::draft::{self, Draft};
use super::tasks::{Task, TaskKind, opens_pull_request, reviewed};
use super::{
    Effect, ImageMove, Note, Outcome, PullRequest, PullRequestState, Snapshot, change, gates, waiting,
};

/// How often a custom task is called before a fault fails the step.
const CALLS: u32 = 3;
/// The longest pause between two tries.
const LONGEST_PAUSE: i64 = 8;
/// The longest pause that another side may ask for.
const LONGEST_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// How often a door that stays shut is knocked at, where the step can do without.
const KNOCKS: u32 = 4;
/// How often a step that is being deleted tries a world that fails: for about ten minutes.
const PATIENCE: u32 = 75;
/// How many changed images or files are kept in the status.
const CHANGES_LIMIT: usize = 50;

/// What to write, and when to try again.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole status, when it differs from the observed.
    pub status: Option<PromotionStepStatus>,
    /// Transitions.
    pub notes: Vec<Note>,
    /// After which pause to try again.
    pub retry: Option<SignedDuration>,
}

/// Folds the outcome of an effect into the status. `attempt` says how many troubles there were in a row, this one
/// included.
pub fn report(snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome, attempt: u32) -> Report {
    let mut draft = Draft::new(snapshot);
    let retry = match outcome {
        Outcome::Fault { message, .. } if is_cleanup(snapshot, effect) && attempt >= PATIENCE => {
            give_up(&mut draft, effect, message);
            None
        }
        Outcome::Fault { message, retry_after } => {
            fault(&mut draft, effect, message);
            let after = retry_after.map(|after| after.min(LONGEST_RETRY_AFTER));
            Some(after.unwrap_or_else(|| pause(attempt)).max(pause(1)))
        }
        Outcome::Blocked { message } if is_cleanup(snapshot, effect) && attempt >= KNOCKS => {
            give_up(&mut draft, effect, message);
            None
        }
        Outcome::Blocked { message } if is_display(effect) && attempt >= KNOCKS => {
            refused(&mut draft, snapshot, effect, (None, message), attempt)
        }
        Outcome::Blocked { message } => {
            draft.block(message);
            Some(pause(attempt))
        }
        Outcome::Refused { task, message } => {
            refused(&mut draft, snapshot, effect, (*task, message), attempt)
        }
        // A look at a record that is still open does not say that it can be merged now: the next try does.
        Outcome::PullRequest(found) if merges_itself(snapshot, effect, found) && draft.is_blocked() => {
            waiting::record(&mut draft, found);
            None
        }
        done => {
            draft.unblock();
            succeeded(&mut draft, snapshot, effect, done);
            None
        }
    };
    let over = draft.status.state == Some(PromotionState::Failed) && !is_cleanup(snapshot, effect);
    let retry = retry.filter(|_| !over);
    let (status, notes) = draft.finish();
    Report { status, notes, retry }
}

/// 1, 2, 4 and then 8 seconds.
fn pause(attempt: u32) -> SignedDuration {
    let seconds = 1i64.checked_shl(attempt.saturating_sub(1)).unwrap_or(LONGEST_PAUSE);
    SignedDuration::from_secs(seconds.clamp(1, LONGEST_PAUSE))
}

/// Whether the effect only shows something to people.
fn is_display(effect: &Effect) -> bool {
    matches!(effect, Effect::UpdatePullRequest { .. } | Effect::SetCommitStatus { .. })
}

/// Whether a pull request was only looked at that the controller goes on to merge by itself.
fn merges_itself(snapshot: &Snapshot<'_>, effect: &Effect, found: &PullRequest) -> bool {
    matches!(effect, Effect::ReadPullRequest { .. })
        && found.state == PullRequestState::Open
        && !is_cleanup(snapshot, effect)
        && !reviewed(&snapshot.step.spec)
}

fn is_removal(snapshot: &Snapshot<'_>) -> bool {
    snapshot.step.metadata.deletion_timestamp.is_some()
}

/// Whether the effect clears up after a step that is over.
fn is_cleanup(snapshot: &Snapshot<'_>, effect: &Effect) -> bool {
    let state = snapshot.step.status.as_ref().and_then(|status| status.state);
    let failed = state == Some(PromotionState::Failed);
    is_removal(snapshot) || failed || matches!(effect, Effect::ClosePullRequest { .. })
}

fn fault(draft: &mut Draft<'_>, effect: &Effect, message: &str) {
    if draft.status.state == Some(PromotionState::Failed) {
        return;
    }
    let Effect::CallTask(call) = effect else {
        draft.say(format!("{}: {message}; trying again", doing(effect)));
        return;
    };
    let name = draft.status.steps.get(call.index).map(|task| task.name.clone()).unwrap_or_default();
    if call.attempt >= CALLS {
        draft.status.outputs.remove(draft::TASK_ATTEMPTS);
        draft.fail(Some(call.index), format!("calling `{name}` failed {CALLS} times: {message}"));
    } else {
        draft.set_output(draft::TASK_ATTEMPTS, call.attempt.to_string());
        draft.trouble(call.index, message);
        draft.say(format!("calling `{name}`: {message}; trying again"));
    }
}

fn refused(
    draft: &mut Draft<'_>,
    snapshot: &Snapshot<'_>,
    effect: &Effect,
    (task, message): (Option<usize>, &str),
    attempt: u32,
) -> Option<SignedDuration> {
    if is_cleanup(snapshot, effect) {
        give_up(draft, effect, message);
        return None;
    }
    match effect {
        // What people are shown is not worth a failed promotion.
        effect if is_display(effect) => {
            draft.unblock();
            draft.warn("PullRequestNotUpdated", format!("{}: {message}", doing(effect)));
            succeeded(draft, snapshot, effect, &Outcome::Done);
            None
        }
        // Nothing was refused but a look.
        Effect::ReadPullRequest { .. } | Effect::FindPullRequest { .. } => {
            draft.block(&format!("{}: {message}", doing(effect)));
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

/// A step that is being deleted must not wait for ever for a door that stays shut.
fn give_up(draft: &mut Draft<'_>, effect: &Effect, message: &str) {
    draft.unblock();
    draft.warn("LeftBehind", format!("{} was given up: {message}", doing(effect)));
    match effect {
        Effect::DeleteBranch { .. } => draft.set_output(draft::BRANCH_DELETED, "false"),
        _ => draft.set_output(draft::PR_STATE, "none"),
    }
}

fn succeeded(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome) {
    match (effect, outcome) {
        (Effect::Commit(order), Outcome::Committed { .. }) => {
            committed(draft, snapshot, &order.branch, outcome)
        }
        (Effect::OpenPullRequest(_), Outcome::PullRequest(pull_request)) => {
            draft.set_output(draft::EVIDENCE_KEY, gates::key(snapshot));
            waiting::record(draft, pull_request);
            let tasks = waiting::current_tasks(snapshot);
            if let Some(index) = tasks.iter().position(|task| task.kind == TaskKind::OpenPullRequest) {
                draft.complete(index, format!("opened PR #{}", pull_request.number));
            }
            draft.advance(&tasks, "");
            waiting::settle(draft, snapshot, pull_request);
        }
        (_, Outcome::PullRequest(pull_request)) if is_cleanup(snapshot, effect) => {
            waiting::record(draft, pull_request);
        }
        (_, Outcome::PullRequest(pull_request)) => waiting::settle(draft, snapshot, pull_request),
        (_, Outcome::NoPullRequest) if is_cleanup(snapshot, effect) => {
            draft.set_output(draft::PR_STATE, "none")
        }
        (_, Outcome::NoPullRequest) => {
            draft.set_output(draft::PR_STATE, "none");
            draft.fail(None, "the pull request no longer exists");
        }
        (Effect::UpdatePullRequest { .. }, _) => draft.set_output(draft::EVIDENCE_KEY, gates::key(snapshot)),
        (Effect::SetCommitStatus { sha, .. }, _) => {
            draft.set_output(draft::STATUS_KEY, waiting::status_key(snapshot, sha));
        }
        (Effect::ClosePullRequest { .. }, _) => draft.set_output(draft::PR_STATE, "closed"),
        (Effect::DeleteBranch { .. }, _) => draft.set_output(draft::BRANCH_DELETED, "true"),
        (Effect::CallTask(call), Outcome::TaskAnswer { success, message }) => {
            draft.status.outputs.remove(draft::TASK_ATTEMPTS);
            answered(draft, snapshot, call.index, *success, message);
        }
        _ => {}
    }
}

fn answered(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, index: usize, success: bool, message: &str) {
    let tasks = waiting::current_tasks(snapshot);
    let name = tasks.get(index).map(|task| task.name.clone()).unwrap_or_default();
    let message = change::cut(message, 1024);
    if success {
        draft.complete(index, message);
        draft.advance(&tasks, message);
    } else {
        let why = if message.is_empty() { "it gave no reason" } else { message };
        draft.fail(Some(index), format!("task `{name}` said no: {why}"));
    }
}

fn committed(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, branch: &str, outcome: &Outcome) {
    let Outcome::Committed { commit, base, pushed, files, moves } = outcome else { return };
    let tasks = waiting::current_tasks(snapshot);
    draft.set_output(draft::COMMIT, commit.clone());
    draft.set_output(draft::CHANGED, pushed.to_string());
    if let Some(base) = base {
        draft.set_output(draft::BASE_COMMIT, base.clone());
    }
    let told = if *pushed {
        draft.set_output(draft::BRANCH, branch);
        draft.set_output(draft::CHANGES, changes(files, moves));
        format!("pushed {} to `{branch}`", change::cut(commit, 7))
    } else {
        format!("`{}` already has this version", change::base_branch(snapshot.step))
    };
    let by_merge = opens_pull_request(&tasks) && *pushed;
    for (index, task) in tasks.iter().enumerate() {
        let skipped = matches!(task.kind, TaskKind::OpenPullRequest | TaskKind::WaitForMerge) && !pushed;
        if task.kind.is_gathered() || task.kind == TaskKind::Push {
            draft.complete(index, done(task, &told));
        } else if skipped {
            draft.complete(index, format!("not needed: {told}"));
        }
    }
    if !by_merge {
        draft.status.promoted_at = Some(snapshot.now);
    }
    draft.advance(&tasks, &told);
}

fn done(task: &Task, told: &str) -> String {
    match task.kind {
        TaskKind::Push => told.to_owned(),
        _ => "done".to_owned(),
    }
}

/// What changed, a line for each image, or for each file where no image did.
fn changes(files: &[String], moves: &[ImageMove]) -> String {
    let lines: Vec<String> = if moves.is_empty() {
        files.iter().map(|file| file.replace(['\n', '\r'], " ")).collect()
    } else {
        let line = |moved: &ImageMove| match &moved.from {
            Some(from) => format!("{}: {from} to {}", moved.repository, moved.to),
            None => format!("{}: {} (new)", moved.repository, moved.to),
        };
        moves.iter().map(line).collect()
    };
    let more = lines.len().saturating_sub(CHANGES_LIMIT);
    let mut kept: Vec<String> = lines.into_iter().take(CHANGES_LIMIT).collect();
    if more > 0 {
        kept.push(format!("and {more} more"));
    }
    kept.join("\n")
}

/// What was being done, for a message.
fn doing(effect: &Effect) -> String {
    match effect {
        Effect::AddFinalizer | Effect::RemoveFinalizer => "updating the step".to_owned(),
        Effect::Commit(order) => format!("pushing to `{}`", order.branch),
        Effect::OpenPullRequest(_) => "opening the pull request".to_owned(),
        Effect::ReadPullRequest { number } => format!("reading PR #{number}"),
        Effect::UpdatePullRequest { number, .. } => format!("updating PR #{number}"),
        Effect::MergePullRequest { number, .. } => format!("merging PR #{number}"),
        Effect::ClosePullRequest { number, .. } => format!("closing PR #{number}"),
        Effect::FindPullRequest { .. } => "looking for the pull request".to_owned(),
        Effect::DeleteBranch { branch, .. } => format!("deleting branch `{branch}`"),
        Effect::SetCommitStatus { .. } => "setting the commit status".to_owned(),
        Effect::CallTask(call) => format!("calling task {}", call.index),
    }
}
