//! Repository: a bare Git repository that `kardinal up` keeps and serves.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Wait;

/// The default branch when `defaultBranch` is absent.
const DEFAULT_BRANCH: &str = "main";

/// A Git repository, and which of its branches only pull requests may change.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "forge.kardinal.io",
    version = "v1alpha1",
    kind = "Repository",
    plural = "repositories",
    namespaced,
    doc = "A Repository is a Git repository that kardinal keeps and serves. Deleting it leaves the commits on disk.",
    status = "RepositoryStatus",
    derive = "PartialEq",
    shortname = "repo",
    category = "kardinal",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(name = "Clone-URL", type_ = "string", json_path = ".status.cloneURL"),
    printcolumn(name = "Head", type_ = "string", json_path = ".status.head", priority = 1),
    printcolumn(name = "Description", type_ = "string", json_path = ".spec.description", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RepositorySpec {
    /// What the repository is for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// The branch that a clone checks out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 244),
        regex(pattern = r"^[^\s~^:?*\[\\]+$"),
        extend("default" = "main")
    )]
    pub default_branch: Option<String>,
    /// Branches that nobody may push to or delete, such as `main` or `env/*`, where `*` stands for any characters.
    /// Only pull requests and kardinal itself change them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 244)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub protected_branches: Vec<String>,
}

impl RepositorySpec {
    /// The branch that a clone checks out, the default included.
    pub fn default_branch(&self) -> &str {
        self.default_branch.as_deref().unwrap_or(DEFAULT_BRANCH)
    }
}

/// What the forge made of a Repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What to give to `git clone`.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "cloneURL")]
    pub clone_url: Option<String>,
    /// The newest commit of the default branch. Absent: nothing was pushed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What it waits for, the most important first. Empty when nothing is waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
}
