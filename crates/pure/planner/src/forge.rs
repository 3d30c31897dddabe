//! The local forge: what becomes of a repository and of a pull request.
//!
//! A plan never supposes that its effects succeed: after an effect the caller observes again and plans again, and the
//! second plan says what the first one did. So a crash between the two costs nothing.

mod pattern;
mod pull_request;
mod repository;
#[cfg(test)]
mod tests;

pub use pattern::protects;
pub use pull_request::{
    Merge, PullRequestEffect, PullRequestPlan, PullRequestSnapshot, RepoFacts, is_compared, plan_pull_request,
};
pub use repository::{
    RepositoryEffect, RepositoryFacts, RepositoryPlan, RepositorySnapshot, plan_repository,
};

/// The field manager of the statuses of the forge.
pub const MANAGER: &str = "kardinal-forge-controller";
