//! What people see of a pull request of the local forge, and what they ask of it: decided once for the command line and the
//! web.

mod known;
mod shown;
mod wish;

use kardinal_api::forge::{PullRequest, PullRequestState};

use crate::problem::Problem;

pub use known::{numbered, pull_requests};
pub use shown::{
    Approval, approvals, check_word, compared, has_conflicts, state_word, visible_body, worst_check,
};
pub use wish::{Answer, answer, approve, close, merge};

/// Why nothing comes of what somebody asks for, by what can be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such pull request.
    NotFound(Problem),
    /// Several can be meant.
    Unclear(Problem),
    /// It is merged or given up.
    Over(Problem),
    /// A check speaks against it. One can insist.
    Check(Problem),
}

/// Its number in its repository, once the forge has given it one.
pub fn number(request: &PullRequest) -> Option<u64> {
    request.status.as_ref()?.number
}

/// Where it stands. What the forge has not looked at yet is open.
pub fn state(request: &PullRequest) -> PullRequestState {
    request.status.as_ref().and_then(|status| status.state).unwrap_or_default()
}

/// How it is called in sentences.
pub fn title(request: &PullRequest) -> String {
    let number = number(request).map(|number| format!(" #{number}")).unwrap_or_default();
    format!("Pull request{number} of \"{}\"", request.spec.repository)
}
