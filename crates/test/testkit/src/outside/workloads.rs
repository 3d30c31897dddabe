//! Workloads that follow a repository, each at its own pace, with a say in what runs where.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kardinal_git::{Git, Remote, Repositories as _};
use kardinal_simulator::Simulator;
use tokio::time::Instant;

use super::Workshop;
use crate::shop::{APP, IMAGE};

/// How often the branch is looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// What becomes of a version in an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollout {
    /// It runs after a while.
    After(Duration),
    /// It never arrives: the one before keeps running.
    Never,
}

/// How an environment (first) takes a version (second).
type Behaviour = dyn Fn(&str, &str) -> Rollout + Send + Sync;

/// Brings what `main` says into the environments, as a GitOps tool and a cluster would.
pub struct Workloads {
    branch: PathBuf,
    git: Arc<Git>,
    remote: Remote,
    simulator: Simulator,
    environments: Vec<String>,
    rollout: Box<Behaviour>,
}

impl Workloads {
    /// Follows a repository. `rollout` is asked for each environment and version; an environment's Deployment is in the
    /// namespace of the same name.
    pub fn new(
        client: kube::Client,
        workshop: &Workshop,
        (namespace, repository): (&str, &str),
        environments: &[&str],
        rollout: impl Fn(&str, &str) -> Rollout + Send + Sync + 'static,
    ) -> anyhow::Result<Workloads> {
        let remote = workshop.remote(namespace, repository);
        Ok(Workloads {
            branch: workshop.forge.store.path(namespace, repository)?.join("refs/heads/main"),
            git: workshop.git.clone(),
            remote: remote.clone(),
            simulator: Simulator {
                client,
                repositories: workshop.git.clone(),
                remote,
                branch: "main".to_owned(),
                application: APP.to_owned(),
                environments: Vec::new(),
            },
            environments: environments.iter().map(|name| (*name).to_owned()).collect(),
            rollout: Box::new(rollout),
        })
    }

    /// Follows for ever.
    pub async fn run(self) {
        let mut seen = String::new();
        let mut coming: BTreeMap<String, (String, Instant)> = BTreeMap::new();
        let mut running: BTreeMap<String, String> = BTreeMap::new();
        loop {
            // A look at the file costs nothing, unlike a look through git.
            let tip = std::fs::read_to_string(&self.branch).unwrap_or_default().trim().to_owned();
            if tip != seen {
                self.look(&tip, &running, &mut coming).await;
                seen = tip;
            }
            let due: Vec<String> = coming
                .iter()
                .filter(|(_, (_, at))| *at <= Instant::now())
                .map(|(environment, _)| environment.clone())
                .collect();
            for environment in due {
                let Some((version, _)) = coming.remove(&environment) else { continue };
                let image = format!("{IMAGE}:{version}");
                // Whoever waits for it sees that it does not run.
                if self.simulator.deploy(&environment, &image).await.is_ok() {
                    running.insert(environment, version);
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn look(
        &self,
        tip: &str,
        running: &BTreeMap<String, String>,
        coming: &mut BTreeMap<String, (String, Instant)>,
    ) {
        for environment in &self.environments {
            let path = format!("environments/{environment}/kustomization.yaml");
            let Ok(Some(content)) = self.git.read(&self.remote, tip, &path).await else { continue };
            let Some(version) = version(&String::from_utf8_lossy(&content)) else { continue };
            if coming.get(environment).is_some_and(|(known, _)| *known == version) {
                continue;
            }
            coming.remove(environment);
            if running.get(environment) == Some(&version) {
                continue;
            }
            if let Rollout::After(pause) = (self.rollout)(environment, &version) {
                coming.insert(environment.clone(), (version, Instant::now() + pause));
            }
        }
    }
}

/// The version that a kustomization of the shop names.
pub fn version(kustomization: &str) -> Option<String> {
    let (_, rest) = kustomization.split_once("newTag: ")?;
    let word = rest.split_whitespace().next()?;
    Some(word.trim_matches('"').to_owned())
}
