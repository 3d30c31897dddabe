//! What pull requests of the local forge are found by.

use kardinal_api::forge::PullRequest;
use kardinal_cluster::Facet;
use serde_json::Value;

use crate::dialect::FacetsOf;
use crate::reconcile::objects::{is, text};

/// A pull request of the repository.
pub(crate) const REPOSITORY: &str = "repository";

/// By kind.
pub(super) const FACETS: &[FacetsOf] = &[FacetsOf { kind: is::<PullRequest>, found_by: of_pull_request }];

fn of_pull_request(request: &Value, all: &mut Vec<Facet>) {
    all.push((REPOSITORY, text(request, "/spec/repository").to_owned()));
}
