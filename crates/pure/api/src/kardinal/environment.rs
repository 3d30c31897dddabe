//! The parts of an environment. A Pipeline declares them and a PromotionStep carries a frozen copy, so both kinds
//! use the same types.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::duration::GoDuration;

/// How the environments of a repository are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitLayout {
    /// One directory for each environment, on one branch.
    Directory,
    /// One branch for each environment.
    Branch,
}

/// The forge that hosts a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GitProvider {
    /// GitHub, or a GitHub Enterprise server.
    Github,
    /// GitLab, hosted anywhere.
    Gitlab,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Gitea, hosted anywhere.
    Gitea,
    /// Forgejo, hosted anywhere.
    Forgejo,
    /// The local forge that `kardinal up` serves.
    Local,
}

/// Who lets a change into an environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Nobody: the change is pushed to the base branch.
    #[default]
    Auto,
    /// People: the change is a pull request, and merging it is the approval.
    PrReview,
}

/// What becomes of the environments before one whose pull request was closed without merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnReject {
    /// They keep the version: it was verified there, and nobody said that it is bad.
    #[default]
    Keep,
    /// They go back to the version that was verified there before.
    Rollback,
}

/// How the new version gets into the manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UpdateStrategy {
    /// Sets the image in `kustomization.yaml`.
    #[default]
    Kustomize,
    /// Sets the image tag in a Helm values file.
    Helm,
    /// Replaces text in plain YAML by a regular expression.
    Replace,
}

/// The adapter that judges health.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HealthType {
    /// A condition of a workload, by default `Available` of a Deployment.
    Resource,
    /// An Argo CD Application that is Healthy and Synced.
    #[serde(rename = "argocd")]
    ArgoCd,
    /// A Flux Kustomization that is Ready for its current generation.
    Flux,
    /// An Argo Rollouts Rollout whose phase is Healthy.
    ArgoRollouts,
    /// A Flagger Canary whose phase is Succeeded.
    Flagger,
}

/// The tool that delivers progressively inside the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DeliveryDelegate {
    /// Nobody: the GitOps tool rolls out at once.
    #[default]
    None,
    /// Argo Rollouts.
    ArgoRollouts,
    /// Flagger.
    Flagger,
}

/// How the new version gets into the manifests of an environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The way of editing: `kustomize` (default), `helm` or `replace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "kustomize"))]
    #[schemars(with = "UpdateStrategy")]
    pub strategy: Option<UpdateStrategy>,
    /// Settings of the `helm` strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<HelmUpdate>,
}

/// Where the image tag stands in a Helm values file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmUpdate {
    /// The dotted path of the tag in the values file. Absent: `.image.tag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image_path_template: Option<String>,
    /// The values file, relative to the environment's path. Absent: `values.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub values_file: Option<String>,
}

/// How the health of an environment is verified after the change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// The adapter. Absent: the first of `argocd`, `flux` and `resource` whose kinds are installed.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "type")]
    #[schemars(with = "HealthType")]
    pub kind: Option<HealthType>,
    /// How long the environment may take to become healthy before the step fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10m"))]
    pub timeout: Option<GoDuration>,
    /// The Secret with the kubeconfig of the cluster to look at. Absent: this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster: Option<String>,
    /// Labels that select the objects to look at, instead of one by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub label_selector: BTreeMap<String, String>,
    /// The workload that the `resource` adapter looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<HealthResource>,
    /// The Application that the `argocd` adapter looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argocd: Option<HealthTarget>,
    /// The Kustomization that the `flux` adapter looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<HealthTarget>,
    /// The Rollout that the `argoRollouts` adapter looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argo_rollouts: Option<HealthTarget>,
    /// The Canary that the `flagger` adapter looks at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flagger: Option<HealthTarget>,
}

/// A workload and the condition that makes it healthy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthResource {
    /// The kind of the workload. Absent: `Deployment`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: Option<String>,
    /// The name of the workload. Absent: the Pipeline's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// The namespace of the workload. Absent: the environment's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The condition that must be `True`. Absent: `Available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 316))]
    pub condition: Option<String>,
}

/// An object of a delivery tool, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthTarget {
    /// The name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The namespace of the object. Absent: the tool's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Who delivers progressively inside the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The tool: `none` (default), `argoRollouts` or `flagger`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "none"))]
    #[schemars(with = "DeliveryDelegate")]
    pub delegate: Option<DeliveryDelegate>,
}

/// One task of a promotion: a built-in one, or a webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionTask {
    /// The name of the task. A name that is not built in is a webhook, called at `config.url`.
    #[schemars(length(min = 1, max = 63))]
    pub uses: String,
    /// Settings of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub config: Option<Map<String, Value>>,
}

/// One environment of a Pipeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.dependsOn) || !(self.name in self.dependsOn)",
    "message": "an environment cannot depend on itself",
    "fieldPath": ".dependsOn",
}]))]
pub struct Environment {
    /// The name of the environment, unique in the Pipeline.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The directory of the environment in the repository. Absent: `environments/<name>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub path: Option<String>,
    /// How the new version gets into the manifests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// Who lets a change in: `auto` (default) pushes, `pr-review` opens a pull request that people merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "auto"))]
    #[schemars(with = "Approval")]
    pub approval: Option<Approval>,
    /// Whether an `auto` environment leaves a pull request behind as a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr: Option<bool>,
    /// What becomes of the environments before this one when its pull request is closed without merging: `keep`
    /// (default) leaves the version there, `rollback` takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "keep"))]
    #[schemars(with = "OnReject")]
    pub on_reject: Option<OnReject>,
    /// The agent that executes the promotion. Absent: the control plane itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub shard: Option<String>,
    /// How health is verified after the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Who delivers progressively inside the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// The environments that must be verified first. Absent: the one listed before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 250),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Option<Vec<String>>,
    /// The tasks of the promotion, in order. Absent: those that follow from `update.strategy` and `approval`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub steps: Option<Vec<PromotionTask>>,
}

impl Environment {
    /// The directory of the environment, the default included.
    pub fn path(&self) -> String {
        self.path.clone().unwrap_or_else(|| format!("environments/{}", self.name))
    }

    /// What becomes of the environments before this one when its pull request is rejected, the default included.
    pub fn on_reject(&self) -> OnReject {
        self.on_reject.unwrap_or_default()
    }

    /// Who lets a change in, the default included.
    pub fn approval(&self) -> Approval {
        self.approval.unwrap_or_default()
    }
}
