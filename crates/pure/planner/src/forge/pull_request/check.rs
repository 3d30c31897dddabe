//! Where a pull request stands: what its branches say, or what somebody has to mend.

use kardinal_api::forge::{Desired, PullRequest, PullRequestState};

use super::{Merge, Snapshot};

/// Whether the branches of a pull request still have a say. One that is over costs no further look at them.
pub fn is_compared(pr: &PullRequest) -> bool {
    !is_over(pr.status.as_ref().and_then(|status| status.state), pr.spec.desired())
}

/// Whether it is merged, or given up and not wanted back.
pub fn is_over(state: Option<PullRequestState>, desired: Desired) -> bool {
    match state {
        Some(PullRequestState::Merged) => true,
        Some(PullRequestState::Closed) => desired == Desired::Closed,
        Some(PullRequestState::Open) | None => false,
    }
}

/// Where a pull request stands after a look at its branches.
pub(super) enum Standing<'a> {
    /// Merged, now or before.
    Merged(Option<&'a Merge>),
    /// Given up.
    Closed,
    /// Nobody can compare these branches, for this reason.
    Refused(&'a str),
    /// There is no such Repository, or it is not on disk yet.
    NoRepository { coming: bool },
    /// A branch is gone.
    Missing { branch: &'a str, reason: &'static str },
    /// The head has nothing that the base has not.
    Nothing,
    /// Both sides changed the same.
    Conflicts(&'a [String]),
    /// The merge was asked for another commit than the one that is there.
    HeadMoved { asked: &'a str, head: &'a str },
    /// It can be merged; and shall be, if so asked.
    Fits { base: &'a str, head: &'a str },
}

/// Where it stands now.
pub(super) fn check<'a>(snapshot: &Snapshot<'a>) -> Standing<'a> {
    let spec = &snapshot.pull_request.spec;
    let old = snapshot.pull_request.status.as_ref();
    let old_state = old.and_then(|status| status.state);
    if old_state == Some(PullRequestState::Merged) {
        return Standing::Merged(None);
    }
    let merged = snapshot.facts.and_then(|facts| facts.merged.as_ref());
    // Branches that never differed have not been merged: the change may still come. Unless a merge was asked for: then
    // this is what a merge looks like whose report got lost.
    let counts = spec.desired() == Desired::Merged
        || old.is_some_and(|status| status.mergeable.is_some())
            && old_state != Some(PullRequestState::Closed);
    if merged.is_some() && counts {
        return Standing::Merged(merged);
    }
    if spec.desired() == Desired::Closed {
        return Standing::Closed;
    }
    if let Some(refused) = snapshot.refused {
        return Standing::Refused(refused);
    }
    let (Some(_), Some(facts)) = (snapshot.repository, snapshot.facts) else {
        return Standing::NoRepository { coming: snapshot.repository.is_some() };
    };
    let (base, head) = match (facts.base_tip.as_deref(), facts.head_tip.as_deref()) {
        (Some(base), Some(head)) => (base, head),
        (_, None) => return Standing::Missing { branch: &spec.head, reason: "HeadMissing" },
        (None, _) => return Standing::Missing { branch: &spec.base, reason: "BaseMissing" },
    };
    if facts.contained {
        return Standing::Nothing;
    }
    if !facts.conflicts.is_empty() {
        return Standing::Conflicts(&facts.conflicts);
    }
    match spec.expected_head.as_deref() {
        Some(asked) if asked != head && spec.desired() == Desired::Merged => {
            Standing::HeadMoved { asked, head }
        }
        _ => Standing::Fits { base, head },
    }
}
