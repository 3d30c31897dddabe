//! The wire types of every kind that kardinal serves: a module per API group, a file per kind.
//!
//! A type here says what may be written down, nothing more: field names, defaults, enums and the rules that the API
//! server itself can enforce. What an object means is decided in the planner. No type reads the clock, and none
//! keeps a field that a user cannot see with `kubectl get -o yaml`.
//!
//! Fields with a server-side default are `Option`s, so that what was read is what is written back; an accessor
//! such as [`kardinal::PipelineSpec::history_limit`] gives the default to callers that read an object which never
//! passed through a server.

#![expect(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their keys, and the lint takes that for a slip"
)]

mod crds;
mod duration;
pub mod forge;
pub mod graph;
mod group;
mod install;
pub mod kardinal;
mod reference;
mod schema;
mod wait;

pub use crds::{crd_yaml, crds};
pub use duration::{GoDuration, InvalidDuration};
pub use forge::{
    PullRequest, PullRequestSpec, PullRequestStatus, Repository, RepositorySpec, RepositoryStatus,
};
pub use graph::{Graph, GraphRevision, GraphRevisionSpec, GraphSpec, GraphStatus};
pub use install::{AGGREGATE_TO_GRAPH_LABEL, DEFAULT_POLICY_NAMESPACE, SYSTEM_NAMESPACE, install_yaml};
pub use kardinal::{
    Bundle, BundleSpec, BundleStatus, Pipeline, PipelineSpec, PipelineStatus, PolicyGate, PolicyGateSpec,
    PolicyGateStatus, PromotionStep, PromotionStepSpec, PromotionStepStatus,
};
pub use reference::kinds_markdown;
pub use wait::{Fact, Subject, Wait, WaitOn, Who};

/// The condition type that every status uses.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// All groups, in the order in which an installation lists their kinds.
const GROUPS: [group::ApiGroup; 3] = [kardinal::API_GROUP, graph::API_GROUP, forge::API_GROUP];

/// The category that `kubectl get kardinal` lists.
pub const CATEGORY: &str = "kardinal";
