//! `forge.kardinal.io/v1alpha1`: repositories and pull requests for people who have only Git.
//!
//! People, the command line and the promotion controllers write `spec`; the controller of the forge alone writes
//! `status`. Nobody merges by writing to a branch: whoever wants a merge says so in `spec.desired`.

mod pull_request;
mod repository;

use kube::CustomResourceExt as _;

use crate::group::{ApiGroup, CHANGE, Holder, READ, REPORT, Right, WRITE};

pub use pull_request::{
    Check, CheckState, Comment, Desired, FileStatus, PullRequest, PullRequestFile, PullRequestSpec,
    PullRequestState, PullRequestStatus, Review, Verdict,
};
pub use repository::{Repository, RepositorySpec, RepositoryStatus};

/// The API group of the local forge.
pub const GROUP: &str = "forge.kardinal.io";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

const KINDS: &[&str] = &["repositories", "pullrequests"];

/// What the group brings along. Whoever owns a namespace decides about its local repositories, and what is merged into them.
pub(crate) const API_GROUP: ApiGroup = ApiGroup {
    name: GROUP,
    crds: || vec![Repository::crd(), PullRequest::crd()],
    rights: &[
        Right { who: Holder::Controllers, resources: KINDS, verbs: WRITE },
        Right {
            who: Holder::Controllers,
            resources: &["repositories/status", "pullrequests/status"],
            verbs: REPORT,
        },
        Right { who: Holder::Viewers, resources: KINDS, verbs: READ },
        Right { who: Holder::Admins, resources: KINDS, verbs: CHANGE },
    ],
};

/// The condition that says whether a repository can be cloned.
pub const READY: &str = "Ready";
/// The condition that says whether a pull request can be merged, and if not, why.
pub const MERGEABLE: &str = "Mergeable";
