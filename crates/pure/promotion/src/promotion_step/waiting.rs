//! A step whose pull request waits for a merge: by people, or by the controller itself for a mere record.

use super::check::Checked;
use super::draft::{self, Draft, output};
use super::tasks::reviewed;
use super::{
    CommitOrder, CommitState, Effect, ForgeEffect, GitEffect, Plan, PullRequest, PullRequestState, Snapshot,
    body, change, commit_check, gates, organisation, pending, pull_request, reopening,
};

pub(super) fn plan(snapshot: &Snapshot<'_>, checked: &Checked) -> Plan {
    let mut draft = Draft::new(snapshot, checked);
    if draft.output(draft::REBUILT_ON) == Some(draft::NOTHING)
        && matches!(draft.output(draft::PR_STATE), Some(draft::CLOSED | draft::LEFT))
    {
        pull_request::skip_the_merge(&mut draft, snapshot);
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
    pull_request::record_and_go_on(&mut draft, snapshot, pull_request);
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
        return Some(commit_check::not_green(snapshot, green, "the pull request has another commit by now"));
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
    let (state, description) = commit_check::commit_status(snapshot, pull_request);
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
    if !snapshot.has_shown
        || draft.output(draft::STATUS_KEY) != Some(&commit_check::status_key(snapshot, pull_request))
    {
        return Some(shown);
    }
    // The organisation's gates hold whatever is planned; they say more than that they are closed.
    let by_team = organisation::blocker(snapshot).is_none() && !gates::closed(snapshot).is_empty();
    let is_held = snapshot.hold.is_some() || by_team || pending::usable_bundle(snapshot).is_err();
    let merges = !reviewed(&snapshot.step.spec) && !is_held;
    (merges && pull_request::foreign(snapshot, pull_request).is_none()).then(|| {
        Effect::Forge(ForgeEffect::MergePullRequest {
            number,
            head_sha: pull_request.head.clone(),
            base: change::base_branch(snapshot.step),
        })
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

pub(super) fn number(draft: &Draft<'_>) -> Option<u64> {
    output(&draft.status, draft::PR_NUMBER)?.parse().ok()
}
