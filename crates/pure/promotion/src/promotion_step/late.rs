//! A pull request of the step's own that was merged while the step did not wait for it.
//!
//! The record of a step can be taken away while its pull request is open, and a pull request that was closed can be opened
//! again. What is merged then is in the environment all the same, and the evidence tells what it has passed over.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{Bundle, PromotionState, PromotionStep};

use super::check::{Checked, CheckedStep, may_open_pull_request};
use super::draft::{self, Draft};
use super::tasks::{Task, TaskKind};
use super::{
    Plan, PullRequest, PullRequestState, Snapshot, change, closing, gates, organisation, promoting,
    pull_request, waiting, why,
};

/// How long after its end a step looks for a merge of its pull request without having heard of one.
const LOOK_BACK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How long a step that is being deleted waits for the Bundle's record at the most.
const RECORDED: SignedDuration = SignedDuration::from_mins(1);

/// What a step that has nothing on record does about a pull request of its own: one that was merged is in, whatever holds
/// the step now. `None`: there is nothing of the kind.
pub(super) fn take_up(snapshot: &Snapshot<'_>, checked: &Checked) -> Option<Plan> {
    let bundle = snapshot.bundle?;
    let step = checked.as_ref().ok()?;
    if !step.opens_pull_request() || snapshot.has_no_pull_request {
        return None;
    }
    match snapshot.pull_request {
        None => Some(Plan::act(change::find(snapshot))),
        Some(found) if is_in(snapshot, found) => {
            let mut draft = Draft::new(snapshot, checked);
            draft.list_tasks(step);
            draft.status.evidence = Some(gates::evidence(snapshot));
            go_on_from_merge(&mut draft, snapshot, bundle, found);
            Some(draft.plan())
        }
        Some(_) => None,
    }
}

/// Whether a pull request has brought its change to where the step writes, since the Bundle is there: a name can be given
/// once more, and anybody can put a marker into a body.
pub(super) fn is_in(snapshot: &Snapshot<'_>, found: &PullRequest) -> bool {
    let is_older = change::since(snapshot)
        .is_some_and(|since| found.merged_at.is_none_or(|merged_at| merged_at < since));
    found.state == PullRequestState::Merged
        && found.base == change::base_branch(snapshot.step)
        && !pull_request::is_of_another_branch(snapshot, found)
        && !is_older
}

/// The step goes on as if it had waited for the merge.
pub(super) fn go_on_from_merge(
    draft: &mut Draft<'_>,
    snapshot: &Snapshot<'_>,
    bundle: &Bundle,
    found: &PullRequest,
) {
    let message = format!("PR #{} was merged before this was written down", found.number);
    let Some(merge) = draft.position(&TaskKind::WaitForMerge) else { return };
    for (index, _) in draft.tasks().iter().enumerate().take(merge).filter(|(_, task)| !is_call(task)) {
        draft.complete(index, message.clone());
    }
    draft.set_output(draft::BRANCH, change::branch_of(snapshot.step));
    draft.set_output(draft::CHANGED, "true");
    draft.remember_bundle(bundle);
    draft.enter(PromotionState::WaitingForMerge, [why::next(message)]);
    pull_request::record_and_go_on(draft, snapshot, found);
}

/// Nobody knows whether a task of somebody else's was called.
fn is_call(task: &Task) -> bool {
    matches!(task.kind, TaskKind::Call(_))
}

/// What a step that has failed does about a pull request that somebody can open again, or has merged meanwhile. `None`: there
/// is nothing of the kind.
pub(super) fn look_back(snapshot: &Snapshot<'_>, checked: &Checked) -> Option<Plan> {
    let mut draft = Draft::new(snapshot, checked);
    let may_exist = match draft.output(draft::PR_STATE) {
        Some(state) => [draft::OPEN, draft::CLOSED, draft::LEFT].contains(&state),
        // It has begun with nothing on record, and failed at once because the Bundle had.
        None => promoting::has_finalizer(snapshot.step) && may_have_opened(snapshot, checked),
    };
    if !may_exist || snapshot.has_no_pull_request {
        return None;
    }
    match snapshot.pull_request {
        None if is_long_ago(snapshot) && !snapshot.heard_of_pull_request => None,
        None => Some(Plan::act(waiting::look(snapshot, &draft))),
        Some(found) if found.state != PullRequestState::Merged => None,
        // What the gates said is told once they can be asked.
        Some(_) if snapshot.organisation.is_err() => {
            Some(Plan { wake: Some(organisation::ask_again(snapshot)), ..Plan::default() })
        }
        Some(found) => {
            merged_all_the_same(&mut draft, snapshot, found);
            Some(draft.plan())
        }
    }
}

/// Whether the step may have opened a pull request; of one that has problems nobody knows what it did before.
fn may_have_opened(snapshot: &Snapshot<'_>, checked: &Checked) -> bool {
    let knows = checked.as_ref().map(CheckedStep::opens_pull_request);
    knows.unwrap_or_else(|_| may_open_pull_request(snapshot.step))
}

/// Whether a look is not worth its cost any more, unless something was heard of the pull request: a forge limits how often
/// it may be asked, and after a start all steps look.
fn is_long_ago(snapshot: &Snapshot<'_>) -> bool {
    let age = ended_at(snapshot).map(|end| snapshot.now.duration_since(end));
    age.is_some_and(|age| age > LOOK_BACK)
}

/// What is done about the merge of a step that is being deleted, before nothing is left of it. `None`: there is none, or it
/// is on record.
pub(super) fn on_leaving(snapshot: &Snapshot<'_>, mut draft: Draft<'_>) -> Option<Plan> {
    let found = snapshot.pull_request.filter(|found| found.state == PullRequestState::Merged)?;
    if draft.output(draft::PR_STATE) == Some(draft::MERGED) {
        return None;
    }
    if snapshot.organisation.is_err() {
        return Some(Plan { wake: Some(organisation::ask_again(snapshot)), ..Plan::default() });
    }
    match closing::has_failed(snapshot) {
        true => merged_all_the_same(&mut draft, snapshot, found),
        false => merged_meanwhile(&mut draft, snapshot, found),
    }
    Some(draft.plan())
}

/// Whether the record of the Bundle does not tell yet what the pull request of a step that is being deleted has brought.
/// Afterwards nobody else knows. That takes a moment; what takes longer will not come.
pub(super) fn awaits_record(snapshot: &Snapshot<'_>) -> bool {
    let Snapshot { step, bundle: Some(bundle), now, .. } = *snapshot else { return false };
    let Some(deleted_at) = &step.metadata.deletion_timestamp else { return false };
    let has_brought = step.status.as_ref().is_some_and(|status| status.promoted_at.is_some());
    let environments = bundle.status.as_ref().map(|status| &status.environments);
    let entry = environments.and_then(|environments| environments.get(&step.spec.environment));
    let is_on_record = entry.is_some_and(|entry| entry.promoted_at.is_some());
    let may_be = bundle.metadata.deletion_timestamp.is_none() && !is_on_record;
    has_brought && may_be && now.duration_since(deleted_at.0) < RECORDED
}

/// Somebody merged the pull request while its promotion came to an end for another reason.
fn merged_meanwhile(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, found: &PullRequest) {
    pull_request::record(draft, found);
    if !is_in(snapshot, found) {
        return;
    }
    pull_request::arrived(draft, snapshot, found);
    let at = found.merged_at.unwrap_or(snapshot.now);
    let by = found.merged_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let environment = &snapshot.step.spec.environment;
    let message = format!(
        "PR #{} was merged{by} at {at:.0} while this promotion came to its end: `{environment}` has the change, and its \
         health is not checked",
        found.number
    );
    draft.warn("MergedMeanwhile", message.clone());
    draft.add(message);
}

/// The step stays failed; what it had come to, the merge and what that has passed over are all on record.
fn merged_all_the_same(draft: &mut Draft<'_>, snapshot: &Snapshot<'_>, found: &PullRequest) {
    let at = found.merged_at.unwrap_or(snapshot.now);
    let after_the_end = ended_before(snapshot, at);
    pull_request::record(draft, found);
    if is_in(snapshot, found) {
        pull_request::arrived(draft, snapshot, found);
        // What was merged elsewhere never came to the environment: that stays rejected.
        draft.status.outputs.remove(draft::REJECTED);
    }
    let by = found.merged_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let merged = format!("merged into `{}`{by} at {at:.0} (PR #{})", found.base, found.number);
    let end = draft.status.message.clone().unwrap_or_else(|| "the promotion has failed".to_owned());
    // The words of a Bundle's record may tell it already. No seal covers words, so they silence no warning.
    let (sentence, is_known) = match after_the_end {
        true => {
            let sentence = format!("all the same it was {merged}");
            let is_known = end.contains(&sentence);
            (sentence, is_known)
        }
        false => (format!("it had been {merged}"), end.contains(&merged)),
    };
    let message = if is_known { end } else { format!("{end}; {sentence}") };
    if after_the_end {
        draft.warn("MergedAfterTheEnd", message.clone());
    }
    draft.add(message);
}

/// Whether the promotion had failed before this second, as far as its status tells. Forges tell times in whole seconds: of
/// two in the same second nobody knows which came first, and nobody is accused.
pub(super) fn ended_before(snapshot: &Snapshot<'_>, at: Timestamp) -> bool {
    ended_at(snapshot).is_some_and(|end| end.as_second() < at.as_second())
}

/// When the promotion failed. One that was rejected has a time of its own. The seal covers both.
pub(super) fn ended_at(snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    let status = snapshot.step.status.as_ref()?;
    status.rejected_at.or(status.failed_at).or_else(|| draft::verdict_since(status))
}

/// Whether a step has to look at its pull request when something has happened in the repository: to the pull request with
/// this number, or to a branch.
pub fn concerns(step: &PromotionStep, pull_request: Option<u64>) -> bool {
    let status = step.status.as_ref();
    if status.and_then(|status| status.state) == Some(PromotionState::WaitingForMerge) {
        return true;
    }
    let own = status.and_then(|status| draft::output(status, draft::PR_NUMBER));
    pull_request.is_some_and(|number| match own {
        Some(own) => own == number.to_string(),
        // It may have had one on record before.
        None => promoting::has_finalizer(step),
    })
}
