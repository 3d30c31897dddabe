//! PromotionStep: one Bundle on its way into one environment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::BundleType;
use super::environment::{Approval, Delivery, GitLayout, GitProvider, Health, PromotionTask, Update};
use super::evidence::Evidence;
use crate::Wait;

/// What an object can be called.
const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// One Bundle on its way into one environment, with a frozen copy of everything that it needs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kardinal.io",
    version = "v1alpha1",
    kind = "PromotionStep",
    namespaced,
    doc = "A PromotionStep brings one Bundle into one environment.",
    status = "PromotionStepStatus",
    derive = "PartialEq",
    shortname = "ps",
    category = "kardinal",
    selectable = ".spec.pipeline",
    selectable = ".spec.environment",
    selectable = ".spec.bundleRef",
    selectable = ".status.state",
    printcolumn(name = "Pipeline", type_ = "string", json_path = ".spec.pipeline"),
    printcolumn(name = "Env", type_ = "string", json_path = ".spec.environment"),
    printcolumn(name = "Bundle", type_ = "string", json_path = ".spec.bundleRef"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "PR", type_ = "string", json_path = ".status.prURL", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStepSpec {
    /// The Pipeline that the step belongs to.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME))]
    pub pipeline: String,
    /// The environment to promote to.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub environment: String,
    /// The Bundle to promote, in the step's namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = NAME))]
    pub bundle_ref: String,
    /// The directory of the environment in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// The repository that holds the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<PromotionStepGit>,
    /// How the new version gets into the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// Who lets the change in: `auto` (default) pushes, `pr-review` opens a pull request that people merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "auto"))]
    #[schemars(with = "Approval")]
    pub approval: Option<Approval>,
    /// Whether an `auto` step leaves a pull request behind as a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr: Option<bool>,
    /// How health is verified after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Who delivers progressively inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The tasks of the promotion, in order. Absent: those that follow from `update.strategy` and `approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub steps: Option<Vec<PromotionTask>>,
    /// The state of the step before this one; in a Graph the reference to it is also the dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub upstream_verified: Option<String>,
    /// The PolicyGates that must be ready; in a Graph the references to them are also the dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 250),
        inner(length(min = 1, max = 253)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub required_gates: Vec<String>,
}

/// A repository and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStepGit {
    /// The URL to clone from and push to.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The base branch. Absent: `main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub branch: Option<String>,
    /// How the environments are told apart: `directory` (default) or `branch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "directory"))]
    #[schemars(with = "GitLayout")]
    pub layout: Option<GitLayout>,
    /// The forge that hosts the repository: `github` (default), `gitlab`, `bitbucket`, `gitea`,
    /// `forgejo` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "github"))]
    #[schemars(with = "GitProvider")]
    pub provider: Option<GitProvider>,
    /// The name of the Secret with the token, in the step's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_ref: Option<String>,
}

/// Where a promotion stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PromotionState {
    /// Nothing has been done yet.
    Pending,
    /// The change is being written.
    Promoting,
    /// The pull request waits for somebody to merge it.
    WaitingForMerge,
    /// The change is in; the environment is being watched.
    HealthChecking,
    /// The environment is healthy with the change.
    Verified,
    /// The promotion has failed.
    Failed,
}

impl PromotionState {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            PromotionState::Pending => "Pending",
            PromotionState::Promoting => "Promoting",
            PromotionState::WaitingForMerge => "WaitingForMerge",
            PromotionState::HealthChecking => "HealthChecking",
            PromotionState::Verified => "Verified",
            PromotionState::Failed => "Failed",
        }
    }
}

/// What the controller knows about a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionStepStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the promotion stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PromotionState")]
    pub state: Option<PromotionState>,
    /// The same in words, with what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it waits for, the most important first: the message as data. Empty when the promotion is over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
    /// The pull request that carries the change.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "prURL")]
    pub pr_url: Option<String>,
    /// When the change reached the environment's branch: by push, or by merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub promoted_at: Option<Timestamp>,
    /// When the pull request was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub merged_at: Option<Timestamp>,
    /// When somebody closed the pull request without merging it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub rejected_at: Option<Timestamp>,
    /// Who did, where the forge tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// When the promotion failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub failed_at: Option<Timestamp>,
    /// When the environment was found healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub verified_at: Option<Timestamp>,
    /// Proves that the controller itself found the environment healthy at that time. The organisation's gates count no
    /// verification without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub seal: Option<String>,
    /// Proves that the controller itself wrote how far the step has come, for the step as its spec is now. The status of
    /// an unfinished step without it is taken away, and the step begins again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub progress_seal: Option<String>,
    /// What proves that the promotion was safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The tool that delivers inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated_to: Option<String>,
    /// What that tool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegated_status: Option<String>,
    /// The type of the Bundle that the step began with, from which its tasks follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BundleType")]
    pub bundle_type: Option<BundleType>,
    /// Which of the tasks runs, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub current_step_index: Option<u32>,
    /// The tasks with their progress.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<TaskStatus>,
    /// What the tasks have handed on, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, String>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The progress of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// The task, as its `uses` names it.
    pub name: String,
    /// Where the task stands.
    pub state: TaskState,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub completed_at: Option<Timestamp>,
    /// What it did, or why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaskState {
    /// Not started.
    Pending,
    /// Started.
    InProgress,
    /// Done.
    Completed,
    /// Given up.
    Failed,
}
