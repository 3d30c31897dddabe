//! Pipeline: the environments that a version goes through, and the repository that holds them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::BundleType;
use super::environment::{Environment, GitLayout, GitProvider};
use crate::Wait;

/// How many finished Bundles are kept when `historyLimit` is absent.
const HISTORY_LIMIT: u32 = 20;

/// The environments that a version goes through, in which repository, in which order.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kardinal.io",
    version = "v1alpha1",
    kind = "Pipeline",
    namespaced,
    doc = "A Pipeline lists the environments that a version goes through and the Git repository that holds them.",
    status = "PipelineStatus",
    derive = "PartialEq",
    shortname = "pipe",
    category = "kardinal",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Paused", type_ = "boolean", json_path = ".spec.paused"),
    printcolumn(name = "Repository", type_ = "string", json_path = ".spec.git.url", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PipelineSpec {
    /// The repository that holds the environments.
    pub git: PipelineGit,
    /// The environments. Without `dependsOn` each one follows the one listed before it.
    #[schemars(
        length(min = 1, max = 250),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub environments: Vec<Environment>,
    /// How many finished Bundles are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000), extend("default" = 20))]
    pub history_limit: Option<u32>,
    /// Whether promotions are held, those under way included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub paused: Option<bool>,
    /// Whether environments that received a failed Bundle are brought back to what they had before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub auto_rollback: Option<bool>,
    /// Namespaces that are searched for gate templates, in addition to the controller's and the Pipeline's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub policy_namespaces: Vec<String>,
}

impl PipelineSpec {
    /// How many finished Bundles are kept, the default included.
    pub fn history_limit(&self) -> u32 {
        self.history_limit.unwrap_or(HISTORY_LIMIT)
    }

    /// Whether a failed Bundle is taken back, the default included.
    pub fn auto_rollback(&self) -> bool {
        self.auto_rollback.unwrap_or(true)
    }

    /// Whether promotions are held, the default included.
    pub fn paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }
}

/// A repository and how to reach it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineGit {
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
    /// The Secret with the token, in the Pipeline's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// A Secret in the namespace of the object that names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// The name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where a Pipeline stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PipelinePhase {
    /// The newest version is verified in every environment.
    Ready,
    /// The newest step of some environment has failed.
    Degraded,
    /// Neither of the two.
    Unknown,
}

/// What the controller knows about a Pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the Pipeline stands: `Ready`, `Degraded` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PipelinePhase")]
    pub phase: Option<PipelinePhase>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it waits for, the most important first. Empty when nothing is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
    /// What each environment has, one entry for each type of Bundle. It outlives the Bundles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["environment", "type"]))]
    pub environments: Vec<Presence>,
}

/// What an environment has, and which Bundle brought it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Presence {
    /// The environment.
    pub environment: String,
    /// The type of the Bundle.
    #[serde(rename = "type")]
    pub kind: BundleType,
    /// The Bundle that brought it; it may be gone.
    pub bundle: String,
    /// How people call what it carries.
    pub version: String,
    /// A digest of all that it carries, for versions that people call the same. Absent in records of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// When the change reached the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub promoted_at: Option<Timestamp>,
    /// When the environment was found healthy with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub verified_at: Option<Timestamp>,
    /// The Bundle that it took back, if it is a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<String>,
    /// What it had before that, and was healthy with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Predecessor>,
    /// What lies below that, the newest first: what it would go back to after that. What was taken back is not among it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Predecessor>,
    /// Of what came until then only what is listed here is known: other versions may have been good or taken back. Absent:
    /// all are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub forgotten_until: Option<Timestamp>,
}

/// What an environment had before, and which Bundle brought it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Predecessor {
    /// The Bundle that brought it; it may be gone.
    pub bundle: String,
    /// How people call what it carries.
    pub version: String,
    /// A digest of all that it carries, for versions that people call the same. Absent in records of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// The Bundle that it took back, if it was a rollback: that one is nothing to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<String>,
    /// When the environment was found healthy with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub verified_at: Option<Timestamp>,
}
