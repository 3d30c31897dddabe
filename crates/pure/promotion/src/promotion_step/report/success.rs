//! What an effect that has come to something means for the step.

use super::{is_cleanup, is_removal, is_replaced};
use crate::promotion_step::draft::{self, Draft};
use crate::promotion_step::tasks::{Task, TaskKind};
use crate::promotion_step::{
    Effect, ForgeEffect, GitEffect, ImageMove, Outcome, PullRequest, PullRequestState, Push, Snapshot, body,
    change, closing, commit_check, gates, has_no_claim, late, pull_request, reopening, verifying,
};

/// How many changed images or files are kept in the status.
const CHANGES_LIMIT: usize = 50;

pub(super) fn succeeded(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, effect: &Effect, outcome: &Outcome) {
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
            pull_request::record(draft, pull_request);
            if let Some(index) = draft.position(&TaskKind::OpenPullRequest) {
                draft.complete(index, format!("opened PR #{}", pull_request.number));
            }
            draft.advance("");
            pull_request::record_and_go_on(draft, snapshot, pull_request);
        }
        // What it has passed over is told with the gates at hand, by the next plan.
        (_, Outcome::PullRequest(found))
            if (closing::has_failed(snapshot) || is_removal(snapshot))
                && found.state == PullRequestState::Merged => {}
        (_, Outcome::PullRequest(pull_request)) if is_cleanup(snapshot, effect) => {
            pull_request::record(draft, pull_request);
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
            if has_no_claim(snapshot.step) => {}
        (_, Outcome::PullRequest(pull_request)) => {
            pull_request::record_and_go_on(draft, snapshot, pull_request)
        }
        (_, Outcome::NoPullRequest) => reopening::record(draft),
        (Effect::Forge(ForgeEffect::UpdatePullRequest { .. }), _) => {
            draft.set_output(draft::EVIDENCE_KEY, body::fingerprint(snapshot));
        }
        (Effect::Forge(ForgeEffect::SetCommitStatus { sha, .. }), _) if is_replaced(snapshot, sha) => {
            commit_check::forget(draft, sha)
        }
        (Effect::Forge(ForgeEffect::SetCommitStatus { .. }), _) => {
            if let Some(pull_request) = snapshot.pull_request {
                draft.set_output(draft::STATUS_KEY, commit_check::status_key(snapshot, pull_request));
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
    let message = if push.has_commit() {
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
            draft.complete(index, done(task, &message));
        }
    }
    if !draft.opens_pull_request() {
        draft.status.promoted_at = Some(snapshot.now);
        // Of a push that was made in an earlier life nobody knows what was there before.
        if let Some(marks) = verifying::before_push(snapshot).filter(|_| *push == Push::Made) {
            draft.set_output(draft::HEALTH_BEFORE, marks);
        }
    }
    draft.advance(&message);
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
    pull_request::skip(draft, snapshot, &[TaskKind::OpenPullRequest, TaskKind::WaitForMerge]);
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

fn done(task: &Task, message: &str) -> String {
    match task.kind {
        TaskKind::Push => message.to_owned(),
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
