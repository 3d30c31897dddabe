//! A step whose pull request waits for a merge: by people, or by the controller itself for a mere record.

use jiff::Timestamp;
use kardinal_api::kardinal::PromotionState;

use super::check::{Checked, may_open_pull_request};
use super::draft::{self, Draft, output};
use super::tasks::{TaskKind, reviewed};
use super::{
    CommitOrder, CommitState, Effect, ForgeEffect, GitEffect, Plan, PullRequest, PullRequestState, Snapshot,
    body, change, commit_check, gates, late, organisation, pending, reopening, why,
};
use kardinal_planner::problem::listed;
use kardinal_planner::why::Wait;

/// Forges cut longer descriptions of a commit status, or refuse them.
const DESCRIPTION_LIMIT: usize = 140;
/// What the check says of a step whose status is not the controller's own, or not the last one.
const LOST: &str = "what is known of this promotion was lost: it is looked at again";

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    if draft.output(draft::REBUILT_ON) == Some(draft::NOTHING)
        && matches!(draft.output(draft::PR_STATE), Some(draft::CLOSED | draft::LEFT))
    {
        skip_the_merge(&mut draft, snapshot);
        return draft.plan();
    }
    if draft.output(draft::PR_STATE) == Some(draft::NONE) {
        return reopening::plan(snapshot, checked);
    }
    let Some(pull_request) = snapshot.pull_request else {
        return Plan::act(look(snapshot, &draft));
    };
    if pull_request.state == PullRequestState::Open
        && let Some(effect) = upkeep(snapshot, &draft, pull_request)
    {
        return Plan::act(effect);
    }
    settle(&mut draft, snapshot, pull_request);
    draft.plan()
}

/// How to look at the pull request.
pub(super) fn look(snapshot: &Snapshot<'_>, draft: &Draft<'_>) -> Effect {
    match number(draft) {
        Some(number) => Effect::Forge(ForgeEffect::ReadPullRequest { number }),
        None => change::find(snapshot),
    }
}

/// What an open pull request needs: to show what the gates say, and to be merged when nobody else shall do it.
fn upkeep(snapshot: &Snapshot<'_>, draft: &Draft<'_>, pull_request: &PullRequest) -> Option<Effect> {
    let number = pull_request.number;
    if let Some(order) = rebuilt(snapshot, draft, pull_request) {
        return Some(Effect::Git(GitEffect::Commit(order)));
    }
    if let Some(green) = draft.output(draft::GREEN_HEAD).filter(|green| *green != pull_request.head) {
        return Some(not_green(snapshot, green, "the pull request has another commit by now"));
    }
    if let Some(on) = draft.output(draft::REBUILT_ON) {
        return Some(match on {
            draft::NOTHING => {
                Effect::Forge(ForgeEffect::ClosePullRequest { number, comment: nothing_left(snapshot) })
            }
            on => Effect::Forge(ForgeEffect::CommentPullRequest {
                number,
                comment: rebuilt_comment(snapshot, on),
            }),
        });
    }
    // First of all nobody may merge what is held; why can be read a moment later.
    let (state, description) = commit_status(snapshot, pull_request);
    let shown = Effect::Forge(ForgeEffect::SetCommitStatus {
        sha: pull_request.head.clone(),
        context: change::status_context(snapshot.step),
        state,
        description,
    });
    let is_green = draft.output(draft::GREEN_HEAD).is_some()
        || commit_check::shown_green(snapshot) == Some(pull_request.head.as_str());
    if state == CommitState::Pending && is_green {
        return Some(shown);
    }
    if let Some(bundle) = snapshot.bundle
        && draft.output(draft::EVIDENCE_KEY) != Some(&body::fingerprint(snapshot))
    {
        return Some(Effect::Forge(ForgeEffect::UpdatePullRequest {
            number,
            title: change::title(snapshot.step, bundle),
            body: body::body(snapshot, bundle, &draft.status),
            labels: body::labels(snapshot, bundle),
        }));
    }
    // What a process before this one has shown stands in the status, where somebody may have put an older one.
    if !snapshot.has_shown || draft.output(draft::STATUS_KEY) != Some(&status_key(snapshot, pull_request)) {
        return Some(shown);
    }
    // The organisation's gates hold whatever is planned; they say more than that they are closed.
    let by_team = organisation::blocker(snapshot).is_none() && !gates::closed(snapshot).is_empty();
    let is_held = snapshot.hold.is_some() || by_team || pending::usable_bundle(snapshot).is_err();
    let merges = !reviewed(&snapshot.step.spec) && !is_held;
    (merges && foreign(snapshot, pull_request).is_none()).then(|| {
        Effect::Forge(ForgeEffect::MergePullRequest {
            number,
            head_sha: pull_request.head.clone(),
            base: change::base_branch(snapshot.step),
        })
    })
}

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

/// The change once more, on the newest base, when the pull request conflicts with it. Only a branch that holds nothing
/// but our own commit is rebuilt. One that holds another commit is looked at once: it may have been rebuilt already, in a
/// life that ended before it was written down.
fn rebuilt(snapshot: &Snapshot<'_>, draft: &Draft<'_>, pull_request: &PullRequest) -> Option<CommitOrder> {
    let conflicts = pull_request.mergeable == Some(false) || draft.output(draft::CONFLICT).is_some();
    let own = draft.output(draft::COMMIT)?;
    let head = Some(pull_request.head.as_str());
    let unknown = head != Some(own) && draft.output(draft::FOREIGN_HEAD) != head;
    let wanted = unknown || (conflicts && head == Some(own));
    let held = snapshot.hold.is_some() || organisation::blocker(snapshot).is_some();
    let elsewhere = pull_request.base != change::base_branch(snapshot.step);
    if !wanted || held || elsewhere || draft.output(draft::REBUILT_ON).is_some() {
        return None;
    }
    let bundle = pending::usable_bundle(snapshot).ok()?;
    let checked = draft.checked().as_ref().ok()?;
    let order = change::order(snapshot.step, bundle, snapshot.reverted, checked).ok()?;
    Some(CommitOrder { replaces: Some(own.to_owned()), ..order })
}

fn rebuilt_comment(snapshot: &Snapshot<'_>, on: &str) -> String {
    let (base, on) = (change::base_branch(snapshot.step), change::cut(on, 7));
    format!(
        "Rebuilt by kardinal: somebody has changed the same files on `{base}`. The same change now stands on \
         `{on}`; please look at it again."
    )
}

fn nothing_left(snapshot: &Snapshot<'_>) -> String {
    let base = change::base_branch(snapshot.step);
    format!("Closed by kardinal: `{base}` already says what this pull request would change.")
}

fn commit_status(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> (CommitState, String) {
    if let Some(strange) = foreign(snapshot, pull_request) {
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

/// Writes down where the pull request stands, and goes on when it is merged.
pub(super) fn settle(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, pull_request: &PullRequest) {
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
fn skip_the_merge(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>) {
    draft.status.outputs.remove(draft::REBUILT_ON);
    skip(draft, snapshot, &[TaskKind::WaitForMerge]);
}

/// Goes on without tasks of these kinds: the base has the change already.
pub(super) fn skip(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, kinds: &[TaskKind]) {
    draft.status.promoted_at = Some(snapshot.now);
    let told = format!("`{}` already has this version", change::base_branch(snapshot.step));
    for (index, _) in draft.tasks().iter().enumerate().filter(|(_, task)| kinds.contains(&task.kind)) {
        draft.complete(index, format!("not needed: {told}"));
    }
    draft.advance(&told);
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
    let told = format!(
        "PR #{number} was closed without merging{by} at {at:.0}, which rejects this Bundle for `{environment}`"
    );
    draft.fail(None, told);
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
fn while_open(snapshot: &Snapshot<'_>, pull_request: &PullRequest) -> Vec<Wait> {
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
        .or_else(|| take_back(snapshot, &draft, &format!("this promotion is over: {why}")));
    Plan { effect, ..Plan::default() }
}

/// Takes the green check of a promotion that is over back: a pull request that is closed can be opened again. What was
/// merged is merged. What this process has shown counts, also where the status does not know of it.
pub(super) fn take_back(snapshot: &Snapshot<'_>, draft: &Draft<'_>, why: &str) -> Option<Effect> {
    let shown = || commit_check::shown_green(snapshot).filter(|sha| !is_taken_back(snapshot, draft, sha));
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

fn not_green(snapshot: &Snapshot<'_>, sha: &str, why: &str) -> Effect {
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
    let sha = commit_check::shown_green(snapshot).filter(|sha| snapshot.withdrawn != Some(*sha))?;
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
        Some(found) if snapshot.withdrawn != Some(found.head.as_str()) => {
            Some(not_green(snapshot, &found.head, "somebody else wrote the status of this promotion"))
        }
        Some(found) if found.state == PullRequestState::Open => {
            Some(Effect::Forge(ForgeEffect::ClosePullRequest { number: found.number, comment }))
        }
        Some(_) => None,
    };
    Plan { effect, ..Plan::default() }
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

/// The way to close a pull request that was open when last heard of. It is read first: it may be merged by now.
pub(super) fn close(snapshot: &Snapshot<'_>, draft: &Draft<'_>, comment: String) -> Option<Effect> {
    if draft.output(draft::PR_STATE) != Some(draft::OPEN) {
        return None;
    }
    let number = number(draft)?;
    match snapshot.pull_request.map(|found| found.state) {
        None => Some(Effect::Forge(ForgeEffect::ReadPullRequest { number })),
        Some(PullRequestState::Open) => {
            Some(Effect::Forge(ForgeEffect::ClosePullRequest { number, comment }))
        }
        Some(PullRequestState::Merged | PullRequestState::Closed) => None,
    }
}

fn number(draft: &Draft<'_>) -> Option<u64> {
    output(&draft.status, draft::PR_NUMBER)?.parse().ok()
}
