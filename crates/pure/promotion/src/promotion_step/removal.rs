//! A step that is being deleted: its pull request is closed, its green check taken back and its branch cleared away, then
//! it may go.

use kardinal_api::kardinal::BundlePhase;

use super::check::Checked;
use super::draft::{self, Draft};
use super::{
    Effect, GitEffect, Plan, Snapshot, StepEffect, body, change, closing, commit_check, late, organisation,
    promoting, waiting,
};
use crate::bundle::SUPERSEDED;

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    if !promoting::has_finalizer(snapshot.step) {
        return Plan::default();
    }
    if let Some(plan) = late::on_leaving(snapshot, Draft::new(snapshot, checked)) {
        return plan;
    }
    let draft = Draft::new(snapshot, checked);
    let effect = pull_request(snapshot, &draft)
        .or_else(|| commit_check::take_back_for_good(snapshot, &draft, over(snapshot)))
        .or_else(|| branch(snapshot, &draft));
    match effect {
        Some(effect) => Plan::act(effect),
        None if late::awaits_record(snapshot) => {
            Plan { wake: Some(organisation::ask_again(snapshot)), ..Plan::default() }
        }
        None => Plan::act(Effect::Step(StepEffect::RemoveFinalizer)),
    }
}

fn pull_request(snapshot: &Snapshot<'_>, draft: &Draft<'_>) -> Option<Effect> {
    // Whether a pull request was opened may not have been written down, nor the push.
    let may_exist = pushed_branch(snapshot, draft) || draft.output(draft::COMMIT).is_none();
    if draft.output(draft::PR_STATE).is_none() && may_exist {
        return Some(change::find(snapshot));
    }
    let close = closing::close(snapshot, draft, why(snapshot));
    // Somebody may have merged it in the meantime; a forge takes closing it for done then.
    let is_closed =
        || draft.output(draft::PR_STATE) == Some(draft::CLOSED) && snapshot.pull_request.is_none();
    close.or_else(|| is_closed().then(|| waiting::look(snapshot, draft)))
}

/// Whether the branch of a pull request is known to have been pushed.
fn pushed_branch(snapshot: &Snapshot<'_>, draft: &Draft<'_>) -> bool {
    draft.output(draft::BRANCH) == Some(&change::branch_of(snapshot.step))
}

fn branch(snapshot: &Snapshot<'_>, draft: &Draft<'_>) -> Option<Effect> {
    // A push without a change has made no branch. One that was never written down may have.
    let unknown = draft.output(draft::COMMIT).is_none();
    let cleared = draft.output(draft::BRANCH_DELETED).is_some();
    let there = unknown || pushed_branch(snapshot, draft);
    (there && !cleared).then(|| {
        Effect::Git(GitEffect::DeleteBranch {
            branch: change::branch_of(snapshot.step),
            commit: draft.output(draft::PR_HEAD).or(draft.output(draft::COMMIT)).map(str::to_owned),
        })
    })
}

/// What the check of a promotion that goes says.
fn over(snapshot: &Snapshot<'_>) -> &'static str {
    let phase = snapshot.bundle.and_then(|bundle| bundle.status.as_ref()).and_then(|status| status.phase);
    match phase {
        Some(BundlePhase::Superseded) => "this promotion is over: its Bundle is superseded",
        _ => "this promotion is over: it was deleted",
    }
}

/// Why the pull request is closed.
fn why(snapshot: &Snapshot<'_>) -> String {
    let (name, environment) = (&snapshot.step.spec.bundle_ref, &snapshot.step.spec.environment);
    let status = snapshot.bundle.and_then(|bundle| bundle.status.as_ref());
    match status.and_then(|status| status.phase) {
        Some(BundlePhase::Superseded) => {
            let said = status.iter().flat_map(|status| &status.conditions);
            let mut said =
                said.filter(|condition| condition.reason == SUPERSEDED).map(|one| one.message.as_str());
            let why = said.next_back().unwrap_or("another Bundle makes it pointless");
            format!(
                "Closed by kardinal: `{name}` is superseded on its way to `{environment}`: {}.",
                body::escape(why)
            )
        }
        _ => format!("Closed by kardinal: the promotion of `{name}` to `{environment}` was deleted."),
    }
}
