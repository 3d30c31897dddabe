//! What has become of the pull request of a step, and what follows from that.

use jiff::Timestamp;
use kardinal_api::kardinal::PromotionState;
use kardinal_planner::problem::listed;
use kardinal_planner::why::Wait;

use super::draft::{self, Draft, output};
use super::tasks::{TaskKind, reviewed};
use super::{PullRequest, PullRequestState, Snapshot, change, gates, pending, why};

/// What of a pull request is not ours. The gates have judged our own commit on its way into our own branch; nothing else
/// is merged by the controller, or shown as allowed.
pub(super) fn foreign(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> Option<String> {
    let (branch, base) = (change::branch_of(snapshot.step), change::base_branch(snapshot.step));
    if pull_request.base != base || pull_request.branch != branch {
        return Some(format!(
            "it goes from `{}` into `{}`, and not from `{branch}` into `{base}`",
            pull_request.branch, pull_request.base
        ));
    }
    let own = snapshot.step.status.as_ref().and_then(|status| output(status, draft::COMMIT));
    (own != Some(&pull_request.head)).then(|| {
        let head = change::cut(&pull_request.head, 7);
        format!("its newest commit `{head}` is not kardinal's: somebody has pushed to `{branch}`")
    })
}

/// Writes down where the pull request stands, and goes on when it is merged.
pub(super) fn record_and_go_on(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, pull_request: &PullRequest) {
    record(draft, pull_request);
    if draft.status.state != Some(PromotionState::WaitingForMerge) {
        return;
    }
    let number = pull_request.number;
    match pull_request.state {
        PullRequestState::Open => {
            draft.wait(while_open(snapshot, pull_request));
        }
        // Our own doing, of which the record got lost.
        PullRequestState::Closed if draft.output(draft::REBUILT_ON) == Some(draft::NOTHING) => {
            skip_the_merge(draft, snapshot);
        }
        PullRequestState::Closed => {
            rejected(draft, snapshot, pull_request);
        }
        PullRequestState::Merged if is_of_another_branch(snapshot, pull_request) => {
            let (own, branch) = (change::branch_of(snapshot.step), &pull_request.branch);
            let by = pull_request.merged_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            draft.fail(None, format!("PR #{number} was merged{by} from `{branch}` and not from `{own}`"));
        }
        PullRequestState::Merged if pull_request.base != change::base_branch(snapshot.step) => {
            let (wanted, base) = (change::base_branch(snapshot.step), &pull_request.base);
            draft.fail(None, format!("PR #{number} was merged into `{base}` and not into `{wanted}`"));
        }
        PullRequestState::Merged => merged(draft, snapshot, pull_request),
    }
}

/// Whether what was merged never was the step's own: another pull request has its number. Once a branch is deleted, a forge
/// may tell none, or a name of its own; and somebody can give the branch another name, but the commit is known.
pub(super) fn is_of_another_branch(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> bool {
    let branch = pull_request.branch.as_str();
    let status = snapshot.step.status.as_ref();
    let own = status.and_then(|status| output(status, draft::COMMIT));
    !branch.is_empty()
        && !branch.starts_with("refs/")
        && branch != change::branch_of(snapshot.step)
        && own != Some(pull_request.head.as_str())
}

/// The base says it all already, so there is nothing to merge: the step goes on as if it had found that at once.
pub(super) fn skip_the_merge(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>) {
    draft.status.outputs.remove(draft::REBUILT_ON);
    skip(draft, snapshot, &[TaskKind::WaitForMerge]);
}

/// Goes on without tasks of these kinds: the base has the change already.
pub(super) fn skip(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, kinds: &[TaskKind]) {
    draft.status.promoted_at = Some(snapshot.now);
    let message = format!("`{}` already has this version", change::base_branch(snapshot.step));
    for (index, _) in draft.tasks().iter().enumerate().filter(|(_, task)| kinds.contains(&task.kind)) {
        draft.complete(index, format!("not needed: {message}"));
    }
    draft.advance(&message);
}

/// Somebody has said no: who and when stays on record.
fn rejected(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, pull_request: &PullRequest) {
    // The forge's clock may be ahead of ours.
    let at = pull_request.closed_at.unwrap_or(snapshot.now).min(snapshot.now);
    draft.set_output(draft::REJECTED, "true");
    draft.status.rejected_at = Some(at);
    draft.status.rejected_by.clone_from(&pull_request.closed_by);
    let (number, environment) = (pull_request.number, &snapshot.step.spec.environment);
    let by = pull_request.closed_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let message = format!(
        "PR #{number} was closed without merging{by} at {at:.0}, which rejects this Bundle for `{environment}`"
    );
    draft.fail(None, message);
}

/// Writes down what is known of a pull request.
pub(super) fn record(draft: &mut Draft<'_>, pull_request: &PullRequest) {
    draft.set_output(draft::PR_NUMBER, pull_request.number.to_string());
    draft.set_output(draft::PR_HEAD, pull_request.head.clone());
    let state = match pull_request.state {
        PullRequestState::Open => draft::OPEN,
        PullRequestState::Merged => draft::MERGED,
        PullRequestState::Closed => draft::CLOSED,
    };
    draft.set_output(draft::PR_STATE, state);
    draft.status.pr_url = Some(pull_request.url.clone());
}

/// What is waited for while the pull request is open: what holds it, then whoever merges it.
pub(super) fn while_open(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> Vec<Wait> {
    let base = change::base_branch(snapshot.step);
    let strange = foreign(snapshot, pull_request);
    if pull_request.mergeable == Some(false) && strange.is_some() && pull_request.base == base {
        let detail = format!(
            "PR #{} has conflicts with `{base}`, and somebody has pushed to its branch: resolve them there and merge \
             it, or close it",
            pull_request.number
        );
        return vec![request(pull_request, why::reason::CONFLICT).detail(detail)];
    }
    let held = pending::held(snapshot);
    if let (None, Some(strange)) = (&held, &strange) {
        let number = pull_request.number;
        let detail = format!("PR #{number} waits for a person to look at it: {strange}");
        return vec![request(pull_request, why::reason::FOREIGN).detail(detail)];
    }
    let reason = match strange.is_some() {
        true => why::reason::FOREIGN,
        false if reviewed(&snapshot.step.spec) => why::reason::REVIEW,
        false => why::reason::MERGING,
    };
    let mut waits: Vec<Wait> = held.into_iter().collect();
    waits.extend(gates::closed(snapshot));
    waits.push(request(pull_request, reason));
    waits
}

pub(super) fn request(pull_request: &PullRequest, reason: &str) -> Wait {
    why::pull_request(Some(pull_request.number), Some(&pull_request.url), reason)
}

fn merged(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, pull_request: &PullRequest) {
    let number = pull_request.number;
    arrived(draft, snapshot, pull_request);
    let evidence = draft.status.evidence.iter().flat_map(|evidence| &evidence.policy_gates).flatten();
    let forced = evidence.filter_map(|gate| Some((gate.name.as_str(), gate.forced_by.as_deref()?)));
    let (passed, by): (Vec<&str>, Vec<&str>) = forced.unzip();
    if let Some(by) = by.first() {
        let message = format!("PR #{number} was merged by {by} past {}", listed(passed.into_iter()));
        draft.warn("MergedPastGates", message);
    }
    if let Some(index) = draft.position(&TaskKind::WaitForMerge) {
        let by = pull_request.merged_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        draft.complete(index, format!("PR #{number} was merged{by}"));
    }
    draft.advance("");
}

/// Writes down when a merge has brought the change, and what it has passed over.
pub(super) fn arrived(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, pull_request: &PullRequest) {
    let at = pull_request.merged_at.unwrap_or(snapshot.now);
    draft.status.merged_at = Some(at);
    // The forge's clock may be ahead of ours, or behind: nothing arrives in the future, or before it was pushed.
    let pushed_at = pushed_at(draft).unwrap_or(at);
    draft.status.promoted_at = Some(at.max(pushed_at).min(snapshot.now));
    if let Some(commit) = &pull_request.merge_commit {
        draft.set_output(draft::MERGE_COMMIT, commit.clone());
    }
    let mut approved = pull_request.approved_by.clone();
    // Merging is the approval; a record that the controller merged by itself was approved by nobody.
    if reviewed(&snapshot.step.spec)
        && let Some(by) = &pull_request.merged_by
        && !approved.contains(by)
    {
        approved.push(by.clone());
    }
    let gates = gates::at_merge(snapshot, at.min(snapshot.now), pull_request);
    let evidence = draft.status.evidence.get_or_insert_default();
    evidence.approved_by = Some(approved);
    evidence.policy_gates = Some(gates);
}

/// When the change was pushed, as far as that is on record, by our own clock.
fn pushed_at(draft: &Draft<'_>) -> Option<Timestamp> {
    let push = draft.position(&TaskKind::Push)?;
    draft.snapshot().step.status.as_ref()?.steps.get(push)?.completed_at
}
