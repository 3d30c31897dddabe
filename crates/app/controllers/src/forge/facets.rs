//! What pull requests of the local forge are found by.

use kardinal_api::forge::PullRequest;
use kardinal_cluster::Facet;
use kardinal_planner::forge::pull_request::is_over;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::dialect::FacetsOf;
use crate::reconcile::objects::{is, text};

/// A pull request of the repository.
pub(crate) const REPOSITORY: &str = "repository";

/// The same, unless it is over: what happens in the repository concerns it no more.
pub(crate) const COMPARED: &str = "compared in repository";

/// By kind.
pub(super) const FACETS: &[FacetsOf] = &[FacetsOf { kind: is::<PullRequest>, found_by: of_pull_request }];

fn of_pull_request(request: &Value, all: &mut Vec<Facet>) {
    let repository = text(request, "/spec/repository");
    if !is_over(read(request, "/status/state"), read(request, "/spec/desired").unwrap_or_default()) {
        all.push((COMPARED, repository.to_owned()));
    }
    all.push((REPOSITORY, repository.to_owned()));
}

fn read<T: DeserializeOwned>(request: &Value, field: &str) -> Option<T> {
    request.pointer(field).and_then(|value| T::deserialize(value).ok())
}
