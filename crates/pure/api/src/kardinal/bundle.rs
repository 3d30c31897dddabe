//! Bundle: an immutable snapshot of what to deploy, and the record of where it has been.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::Evidence;
use super::promotion_step::PromotionState;
use crate::Wait;

/// What to deploy, where it comes from, and how far it shall go. It cannot be changed after creation.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kardinal.io",
    version = "v1alpha1",
    kind = "Bundle",
    namespaced,
    doc = "A Bundle is an immutable, versioned snapshot of what to deploy, with its provenance and its way so far.",
    status = "BundleStatus",
    derive = "PartialEq",
    shortname = "bnd",
    category = "kardinal",
    selectable = ".status.phase",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.type"),
    printcolumn(name = "Pipeline", type_ = "string", json_path = r".metadata.labels.kardinal\.io/pipeline"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.intent.target", priority = 1),
    printcolumn(name = "Graph", type_ = "string", json_path = ".status.graphRef", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self == oldSelf",
        "message": "a Bundle is immutable: create a new one instead",
        "reason": "FieldValueForbidden",
    },
    {
        "rule": "self.type == 'config' || (has(self.artifacts.images) && size(self.artifacts.images) > 0)",
        "message": "a Bundle of type `image` or `mixed` needs at least one entry in `artifacts.images`",
        "fieldPath": ".artifacts",
    },
    {
        "rule": "self.type == 'image' || has(self.artifacts.gitCommit)",
        "message": "a Bundle of type `config` or `mixed` needs `artifacts.gitCommit`",
        "fieldPath": ".artifacts",
    },
]))]
pub struct BundleSpec {
    /// What the Bundle carries: `image` (default), `config` or `mixed`.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    #[schemars(extend("default" = "image"))]
    #[schemars(with = "BundleType")]
    pub kind: Option<BundleType>,
    /// What to deploy.
    pub artifacts: Artifacts,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// How far it shall go. Absent: through all environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<BundleIntent>,
}

impl BundleSpec {
    /// What the Bundle carries, the default included.
    pub fn kind(&self) -> BundleType {
        self.kind.unwrap_or_default()
    }
}

/// No registry takes a repository with capitals; only the host and the tag may have some.
const IMAGE_RULE: &str = r"self.reference.matches('^(([^/]*[.:][^/]*|localhost)/)?[^A-Z:@]+([:@][^/]*)?$')";
/// What people are told about such an image, however they hand it over.
pub const IMAGE_MESSAGE: &str =
    "the repository of an image is written in lower case, such as `ghcr.io/myorg/my-app:1.29.0`";

/// What a Bundle carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BundleType {
    /// Container images.
    #[default]
    Image,
    /// A commit of a configuration repository.
    Config,
    /// Both, promoted together.
    Mixed,
}

impl BundleType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BundleType::Image => "image",
            BundleType::Config => "config",
            BundleType::Mixed => "mixed",
        }
    }
}

/// What to deploy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifacts {
    /// Container images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub images: Vec<ImageArtifact>,
    /// A commit of a configuration repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<GitCommit>,
}

/// A container image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": IMAGE_RULE,
        "message": IMAGE_MESSAGE,
        "fieldPath": ".reference",
    },
]))]
pub struct ImageArtifact {
    /// The name of the image in the Bundle.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The image as a container runtime would pull it, with its tag.
    #[schemars(length(min = 1, max = 1024))]
    pub reference: String,
    /// The digest that the tag stood for when the Bundle was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub digest: Option<String>,
}

/// A commit of a configuration repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitCommit {
    /// The URL of the repository.
    #[schemars(length(min = 1, max = 2048))]
    pub repository: String,
    /// The id of the commit.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"^[0-9a-fA-F]+$"))]
    pub sha: String,
    /// What the commit does, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
}

/// Where a Bundle comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The commit that was built.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "commitSHA")]
    #[schemars(length(max = 64))]
    pub commit_sha: Option<String>,
    /// The run that built it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "ciRunURL")]
    #[schemars(length(max = 2048))]
    pub ci_run_url: Option<String>,
    /// Who made the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub author: Option<String>,
    /// When it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub build_timestamp: Option<Timestamp>,
    /// The Bundle that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub rollback_of: Option<String>,
}

/// How far a Bundle shall go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleIntent {
    /// The last environment to promote to. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub target: Option<String>,
    /// Environments to leave out, where the organisation's gates permit it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 250),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub skip: Vec<String>,
}

/// Where a Bundle stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BundlePhase {
    /// It exists and nothing has been done yet.
    Available,
    /// It is on its way.
    Promoting,
    /// It is verified in every environment that it was meant for.
    Verified,
    /// A step has failed.
    Failed,
    /// A newer Bundle has taken its place.
    Superseded,
    /// It wanted to skip an environment and may not.
    SkipDenied,
}

impl BundlePhase {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            BundlePhase::Available => "Available",
            BundlePhase::Promoting => "Promoting",
            BundlePhase::Verified => "Verified",
            BundlePhase::Failed => "Failed",
            BundlePhase::Superseded => "Superseded",
            BundlePhase::SkipDenied => "SkipDenied",
        }
    }
}

/// Where a Bundle has been.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the Bundle stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BundlePhase")]
    pub phase: Option<BundlePhase>,
    /// The Graph that runs the promotion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph_ref: Option<String>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it waits for, the most important first: the message of the condition as data. Empty when nothing is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
    /// The record of each environment, by name; it outlives the steps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, EnvironmentStatus>,
    /// The environments that go back to what they had before unless a newer Bundle comes there: see the condition
    /// `RollbackPutOff`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rollbacks_put_off: Vec<String>,
    /// The Bundle that was made last to bring an environment back from this one, for each environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rollbacks: BTreeMap<String, String>,
    /// How it failed: the message of the condition `Ready` as data. Absent unless a step has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<BundleFailure>,
}

/// How a Bundle failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleFailure {
    /// The environments that had failed when the Bundle ended; their entries in `status.environments` tell why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environments: Vec<String>,
    /// The environments that cannot go back to what they had before, because the Bundle that brought it was deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted_predecessors: Vec<DeletedPredecessor>,
}

/// What an environment had before and cannot go back to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletedPredecessor {
    /// The environment.
    pub environment: String,
    /// The Bundle that brought it, which was deleted.
    pub bundle: String,
    /// How people call what that Bundle carried.
    pub version: String,
    /// How people call what the environment goes back to instead. Absent: it keeps what has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

/// The record of one environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStatus {
    /// Where the promotion stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PromotionState")]
    pub state: Option<PromotionState>,
    /// When the change reached the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub promoted_at: Option<Timestamp>,
    /// When the environment was found healthy with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub verified_at: Option<Timestamp>,
    /// The step's proof of that time, which outlives the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub seal: Option<String>,
    /// The commit that brought the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The state in words, with what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether it failed because somebody closed its pull request without merging it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<bool>,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub rejected_at: Option<Timestamp>,
    /// Who it was, where the forge tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub failed_at: Option<Timestamp>,
    /// The pull request that carried the change.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "prURL")]
    pub pr_url: Option<String>,
    /// What proves that it was safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}
