//! What came of an effect, folded into the status.

use jiff::SignedDuration;
use kardinal_api::kardinal::{PromotionState, PromotionStep, PromotionStepStatus};

use super::check::check_current;
use super::draft::{self, Draft};
use super::tasks::{Task, TaskKind, reviewed};
use super::{
    CommitState, Effect, ForgeEffect, GitEffect, ImageMove, Note, Outcome, PullRequest, PullRequestState,
    Push, Retry, Snapshot, StepEffect, body, change, commit_check, gates, late, reopening, verifying,
    waiting, why,
};
use kardinal_planner::why::Wait;

/// How often a custom task is called before a fault fails the step.
const CALLS: u32 = 3;
/// The longest pause between two tries of somebody who cannot be reached, in seconds.
const LONGEST_PAUSE: i64 = 8;
/// The longest pause that another side may ask for.
const LONGEST_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// The longest pause after a rate limit that names no time, in milliseconds.
const LONGEST_BACKOFF: i64 = 300_000;
/// No window of a rate limit is longer.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(1);
/// How often a door that stays shut is knocked at, where the step can do without.
pub const KNOCKS: u32 = 4;
/// How often a forge may ask to try a merge again later before that means a conflict.
const CONFLICT_AFTER: u32 = 3;
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
        Outcome::Fault { message, .. } if may_give_up(snapshot, draft, effect) && attempt >= PATIENCE => {
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
        Outcome::Blocked { message } if may_give_up(snapshot, draft, effect) && attempt >= KNOCKS => {
            give_up(draft, snapshot, effect, message);
            None
        }
        Outcome::Blocked { message }
            if is_display(effect) && attempt >= KNOCKS && !takes_success_back(snapshot, draft, effect) =>
        {
            refused(draft, snapshot, effect, (None, message), attempt)
        }
        Outcome::Conflict { message, certain } => {
            Some(conflict(draft, snapshot, effect, (message, *certain), attempt))
        }
        Outcome::Refused { message, .. } if is_rebuild(effect) => {
            draft.block(&format!("{}: {message}", doing(effect)));
            Some(backoff(attempt, uid(snapshot)))
        }
        Outcome::Blocked { message } => {
            draft.block(message);
            Some(pause(attempt))
        }
        Outcome::Refused { task, message } => refused(draft, snapshot, effect, (*task, message), attempt),
        // A look at a record that is still open does not say that it can be merged now: the next try does.
        Outcome::PullRequest(found) if merges_itself(snapshot, effect, found) && draft.is_blocked() => {
            waiting::record(draft, found);
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
    let told = |key: &str| step.status.as_ref().and_then(|status| draft::output(status, key));
    // The newest commit of an open pull request will come to be known.
    let is_awaited = |sha: &str| {
        told(draft::PR_STATE) == Some(draft::OPEN) && told(draft::PR_HEAD).is_none_or(|head| head == sha)
    };
    match effect {
        Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. })
            if attempt >= KNOCKS =>
        {
            Outcome::NoPullRequest
        }
        Effect::Forge(ForgeEffect::SetCommitStatus { state: CommitState::Pending, sha, .. })
            if attempt >= KNOCKS && !is_awaited(sha) =>
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

/// How long to wait. Somebody who cannot be reached is tried again soon, so that everything goes on right after the
/// return; somebody who limits us is left alone for longer and longer.
fn wait(snapshot: &Snapshot<'_>, retry: Retry, attempt: u32) -> SignedDuration {
    match retry {
        Retry::Soon => pause(attempt),
        Retry::After(asked) => asked.clamp(pause(1), LONGEST_RETRY_AFTER),
        Retry::Limited(Some(asked)) => asked.clamp(pause(1), LONGEST_WINDOW),
        Retry::Limited(None) | Retry::Later => backoff(attempt, uid(snapshot)),
    }
}

fn uid<'a>(snapshot: &Snapshot<'a>) -> &'a str {
    snapshot.step.metadata.uid.as_deref().unwrap_or_default()
}

/// From one second, doubled each time, to five minutes. Up to half as much again is added, by the step and the
/// attempt, so that those who were limited together do not come back together.
fn backoff(attempt: u32, seed: &str) -> SignedDuration {
    let whole = 1000i64.checked_shl(attempt.saturating_sub(1).min(20)).unwrap_or(LONGEST_BACKOFF);
    let whole = whole.min(LONGEST_BACKOFF);
    let start = 0xcbf2_9ce4_8422_2325u64 ^ u64::from(attempt);
    let hash = seed.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let share = i64::try_from((hash >> 32) % 500).unwrap_or(0);
    SignedDuration::from_millis((whole + whole * share / 1000).min(LONGEST_BACKOFF))
}

/// 1, 2, 4 and then 8 seconds.
fn pause(attempt: u32) -> SignedDuration {
    let seconds = 1i64.checked_shl(attempt.saturating_sub(1)).unwrap_or(LONGEST_PAUSE);
    SignedDuration::from_secs(seconds.clamp(1, LONGEST_PAUSE))
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
fn is_replaced(snapshot: &Snapshot<'_>, sha: &str) -> bool {
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

fn is_removal(snapshot: &Snapshot<'_>) -> bool {
    snapshot.step.metadata.deletion_timestamp.is_some()
}

/// Whether the effect clears up after a step that is over.
fn is_cleanup(snapshot: &Snapshot<'_>, effect: &Effect) -> bool {
    is_removal(snapshot)
        || waiting::has_failed(snapshot)
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
    (task, message): (Option<usize>, &str),
    attempt: u32,
) -> Option<SignedDuration> {
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

/// Whether the effect only looks at the step's pull request.
fn is_look(effect: &Effect) -> bool {
    matches!(effect, Effect::Forge(ForgeEffect::ReadPullRequest { .. } | ForgeEffect::FindPullRequest { .. }))
}

/// Whether a step that has failed only looks whether its pull request was merged all the same. Nobody waits for that, and
/// it is never given up: the credentials are the team's.
fn looks_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, effect: &Effect) -> bool {
    is_look(effect)
        && waiting::has_failed(snapshot)
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

fn succeeded(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome) {
    match (effect, outcome) {
        (Effect::Git(GitEffect::Commit(order)), Outcome::Committed { .. }) if order.replaces.is_some() => {
            rebuilt(draft, snapshot, outcome);
        }
        (Effect::Forge(ForgeEffect::CommentPullRequest { .. }), _) => {
            draft.status.outputs.remove(draft::REBUILT_ON);
        }
        (Effect::Git(GitEffect::Commit(order)), Outcome::Committed { .. }) => {
            committed(draft, snapshot, &order.branch, outcome)
        }
        (Effect::Forge(ForgeEffect::OpenPullRequest(_)), Outcome::PullRequest(pull_request)) => {
            draft.set_output(draft::EVIDENCE_KEY, body::fingerprint(snapshot));
            waiting::record(draft, pull_request);
            if let Some(index) = draft.position(&TaskKind::OpenPullRequest) {
                draft.complete(index, format!("opened PR #{}", pull_request.number));
            }
            draft.advance("");
            waiting::settle(draft, snapshot, pull_request);
        }
        // What it has passed over is told with the gates at hand, by the next plan.
        (_, Outcome::PullRequest(found))
            if (waiting::has_failed(snapshot) || is_removal(snapshot))
                && found.state == PullRequestState::Merged => {}
        (_, Outcome::PullRequest(pull_request)) if is_cleanup(snapshot, effect) => {
            waiting::record(draft, pull_request);
        }
        (_, Outcome::NoPullRequest) if is_cleanup(snapshot, effect) => {
            draft.set_output(draft::PR_STATE, draft::NONE)
        }
        (Effect::Forge(ForgeEffect::FindMerge { .. }), Outcome::PullRequest(found)) => {
            nothing_to_open(draft, snapshot, Some(found));
        }
        (Effect::Forge(ForgeEffect::FindMerge { .. }), _) => nothing_to_open(draft, snapshot, None),
        // It was looked for before the step began.
        (Effect::Forge(ForgeEffect::FindPullRequest { .. }), Outcome::NoPullRequest)
            if super::is_outside(snapshot.step) => {}
        (_, Outcome::PullRequest(pull_request)) => waiting::settle(draft, snapshot, pull_request),
        (_, Outcome::NoPullRequest) => reopening::record(draft),
        (Effect::Forge(ForgeEffect::UpdatePullRequest { .. }), _) => {
            draft.set_output(draft::EVIDENCE_KEY, body::fingerprint(snapshot));
        }
        (Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }), _) if is_replaced(snapshot, sha) => {
            commit_check::forget(draft, sha)
        }
        (Effect::Forge(ForgeEffect::SetCommitStatus { .. }), _) => {
            if let Some(pull_request) = snapshot.pull_request {
                draft.set_output(draft::STATUS_KEY, waiting::status_key(snapshot, pull_request));
            }
        }
        (Effect::Forge(ForgeEffect::ClosePullRequest { .. }), _) => {
            draft.set_output(draft::PR_STATE, draft::CLOSED)
        }
        (Effect::Git(GitEffect::DeleteBranch { .. }), _) => draft.set_output(draft::BRANCH_DELETED, "true"),
        (Effect::CallTask(call), Outcome::TaskAnswer { success, message }) => {
            draft.status.outputs.remove(draft::TASK_ATTEMPTS);
            answered(draft, call.index, *success, message);
        }
        _ => {}
    }
}

fn answered(draft: &mut Draft<'_>, index: usize, success: bool, message: &str) {
    let name = draft.tasks().get(index).map(|task| task.name.clone()).unwrap_or_default();
    let message = change::cut(message, 1024);
    if success {
        draft.complete(index, message);
        draft.advance(message);
    } else {
        let why = if message.is_empty() { "it gave no reason" } else { message };
        draft.fail(Some(index), format!("task `{name}` said no: {why}"));
    }
}

fn committed(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, branch: &str, outcome: &Outcome) {
    let Outcome::Committed { commit, base, push, files, moves, source } = outcome else { return };
    draft.set_output(draft::COMMIT, commit);
    draft.set_output(draft::CHANGED, push.has_commit().to_string());
    if let Some(base) = base {
        draft.set_output(draft::BASE_COMMIT, base.clone());
    }
    if let Some(source) = source {
        draft.set_output(draft::CONFIG_COMMIT, source.clone());
    }
    let told = if push.has_commit() {
        // They were asked once more right before the push.
        draft.status.evidence = Some(gates::evidence(snapshot));
        draft.set_output(draft::BRANCH, branch);
        draft.set_output(draft::CHANGES, changes(files, moves));
        format!("pushed {} to `{branch}`", change::cut(commit, 7))
    } else {
        format!("`{}` already has this version", change::base_branch(snapshot.step))
    };
    for (index, task) in draft.tasks().iter().enumerate() {
        if task.kind.is_gathered() || task.kind == TaskKind::Push {
            draft.complete(index, done(task, &told));
        }
    }
    if !draft.opens_pull_request() {
        draft.status.promoted_at = Some(snapshot.now);
        // Of a push that was made in an earlier life nobody knows what was there before.
        if let Some(marks) = verifying::before_push(snapshot).filter(|_| *push == Push::Made) {
            draft.set_output(draft::HEALTH_BEFORE, marks);
        }
    }
    draft.advance(&told);
}

/// There is nothing to change, and now it is known whether that is the doing of this promotion.
fn nothing_to_open(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, found: Option<&PullRequest>) {
    let ours = |found: &&PullRequest| late::is_in(snapshot, found);
    if let (Some(found), Some(bundle)) = (found.filter(ours), snapshot.bundle) {
        late::go_on_from_merge(draft, snapshot, bundle, found);
        return;
    }
    // One that was found open before is closed first, as one whose change has come in by another way.
    if draft.output(draft::PR_STATE) == Some(draft::OPEN) {
        if let Some(index) = draft.position(&TaskKind::OpenPullRequest) {
            draft.complete(index, "it was open already");
        }
        draft.set_output(draft::REBUILT_ON, draft::NOTHING);
        draft.advance("");
        return;
    }
    waiting::skip(draft, snapshot, &[TaskKind::OpenPullRequest, TaskKind::WaitForMerge]);
}

/// The change stands on the newest base now. What the step has come to stays: only the commit is another one.
fn rebuilt(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, outcome: &Outcome) {
    let Outcome::Committed { commit, base, push, files, moves, .. } = outcome else { return };
    draft.status.outputs.remove(draft::CONFLICT);
    draft.set_output(draft::COMMIT, commit);
    if !push.has_commit() {
        draft.set_output(draft::CHANGED, "false");
        draft.set_output(draft::REBUILT_ON, draft::NOTHING);
        return;
    }
    let base = base.clone().unwrap_or_default();
    draft.set_output(draft::CHANGES, changes(files, moves));
    draft.set_output(draft::REBUILT_ON, base.clone());
    draft.go_on(format!("rebuilt on `{}` at {}", change::base_branch(snapshot.step), change::cut(&base, 7)));
    draft.set_output(draft::BASE_COMMIT, base);
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
            Some(found) => waiting::request(found, why::reason::CONFLICT).detail(detail),
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
        Some(found) => waiting::request(found, why::reason::FOREIGN).detail(message),
        None => why::next(message),
    }
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
