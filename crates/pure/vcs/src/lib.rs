//! What repositories and forges have in common, whoever hosts them. It knows no Kubernetes and no client.

mod barrier;
mod credentials;
mod pattern;
mod pull_request;
mod remote;

pub use barrier::Barrier;
pub use credentials::{Credentials, Secret};
pub use pattern::{Written, matches_text, means_branch};
pub use pull_request::{CommitState, NewPullRequest, PullRequest, PullRequestState};
pub use remote::{Remote, take_credentials};
