//! A stand-in for a GitOps tool and a cluster that runs workloads, for the demo and for tests.
//!
//! It syncs the image of each environment's `kustomization.yaml` into a Deployment and makes that Available, as
//! Argo CD or Flux and the Deployment controller would. The product itself never touches workloads and knows nothing
//! of this crate. A version whose tag contains `broken` never becomes Available.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kardinal_git::{Budget, FileChange, Remote, Repositories};
use kardinal_manifest::kustomize;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

const MANAGER: &str = "workload-simulator";
/// What a condition says of itself. This crate plays somebody else's controller and knows no planner, whose type for it is ours.
const HOLDS: &str = "True";
/// See [`HOLDS`].
const HOLDS_NOT: &str = "False";
/// The annotation of the pods that names the commit whose configuration they run. It stands for a ConfigMap whose name carries
/// the hash of its content.
pub const CONFIGURATION: &str = "simulator/configuration";
/// How often the branch is looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// An environment to keep in step with its directory.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The directory in the repository.
    pub path: String,
    /// The namespace of its Deployment.
    pub namespace: String,
}

/// Keeps the Deployments of one application in step with a branch.
pub struct Simulator {
    /// Where the Deployments are.
    pub client: kube::Client,
    /// How the repository is read.
    pub repositories: Arc<dyn Repositories>,
    /// The repository.
    pub remote: Remote,
    /// The branch.
    pub branch: String,
    /// The name of the Deployments.
    pub application: String,
    /// The environments.
    pub environments: Vec<Environment>,
}

/// Why a sync did not succeed. The next one may.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] kardinal_git::Error),
    /// A manifest cannot be read.
    #[error(transparent)]
    Manifest(#[from] kardinal_manifest::Error),
    /// The cluster did not take a Deployment.
    #[error(transparent)]
    Cluster(#[from] kube::Error),
}

impl Simulator {
    /// Syncs whenever the branch has moved, for ever.
    pub async fn run(self) {
        let mut synced = None;
        loop {
            match self.sync(synced.as_deref()).await {
                Ok(tip) => synced = tip,
                Err(error) => tracing::debug!(error = %error, "the simulator could not sync; it tries again"),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Syncs all environments unless the branch still is where it was; returns where it is.
    pub async fn sync(&self, synced: Option<&str>) -> Result<Option<String>, Error> {
        let tip = self.repositories.tip(&self.remote, &self.branch).await?;
        let Some(commit) = tip.as_deref().filter(|tip| Some(*tip) != synced) else { return Ok(tip) };
        // Only what a commit has touched is rolled out, as a tool does that compares manifests.
        let changed = match synced {
            None => None,
            Some(_) => Some(self.repositories.diff(&self.remote, synced, commit, &Budget::default()).await?),
        };
        for environment in &self.environments {
            let folder = format!("{}/", environment.path);
            let touched = |files: &Vec<FileChange>| files.iter().any(|file| file.path.starts_with(&folder));
            if !changed.as_ref().is_none_or(touched) {
                continue;
            }
            let path = format!("{}/kustomization.yaml", environment.path);
            let Some(content) = self.repositories.read(&self.remote, commit, &path).await? else { continue };
            let images = kustomize::images(&path, &String::from_utf8_lossy(&content))?;
            if let Some(image) = images.first() {
                self.roll_out(&environment.namespace, &reference(image), Some(commit)).await?;
            }
        }
        Ok(tip)
    }

    /// Makes the Deployment run this image, and Available unless the image is broken.
    pub async fn deploy(&self, namespace: &str, image: &str) -> Result<(), Error> {
        self.roll_out(namespace, image, None).await
    }

    /// The same with the configuration of a commit.
    async fn roll_out(&self, namespace: &str, image: &str, commit: Option<&str>) -> Result<(), Error> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
        let deployments: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let params = PatchParams::apply(MANAGER).force();
        let applied = deployments
            .patch(&self.application, &params, &Patch::Apply(&self.deployment(image, commit)))
            .await?;
        let status = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.application},
            "status": status(applied.metadata.generation.unwrap_or(1), image.contains("broken")),
        });
        deployments.patch_status(&self.application, &params, &Patch::Apply(&status)).await?;
        Ok(())
    }

    fn deployment(&self, image: &str, commit: Option<&str>) -> Value {
        let labels = BTreeMap::from([("app", self.application.as_str())]);
        let annotations: BTreeMap<&str, &str> =
            commit.map(|commit| (CONFIGURATION, commit)).into_iter().collect();
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": self.application, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": {"containers": [{"name": "app", "image": image}]},
                },
            },
        })
    }
}

fn reference(image: &kardinal_manifest::Image) -> String {
    let tag = image.tag.iter().map(|tag| format!(":{tag}"));
    let digest = image.digest.iter().map(|digest| format!("@{digest}"));
    std::iter::once(image.repository.clone()).chain(tag).chain(digest).collect()
}

fn status(generation: i64, broken: bool) -> Value {
    let condition = |kind: &str, holds: bool, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": if holds { HOLDS } else { HOLDS_NOT },
            "reason": reason,
            "message": message,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let (available, conditions) = match broken {
        false => (
            1,
            vec![
                condition(
                    "Available",
                    true,
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.",
                ),
                condition(
                    "Progressing",
                    true,
                    "NewReplicaSetAvailable",
                    "ReplicaSet has successfully progressed.",
                ),
            ],
        ),
        true => (
            0,
            vec![
                condition("Available", false, "MinimumReplicasUnavailable", "the container exits at once"),
                condition(
                    "Progressing",
                    false,
                    "ProgressDeadlineExceeded",
                    "ReplicaSet has timed out progressing.",
                ),
            ],
        ),
    };
    json!({
        "observedGeneration": generation,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": available,
        "availableReplicas": available,
        "conditions": conditions,
    })
}
