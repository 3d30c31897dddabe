//! A whole control plane in this process, in real time, with a local forge on disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_cluster::{SystemClock, install};
use kardinal_controllers::{Controllers, Settings};
use kardinal_testkit::outside::Workshop;
use kardinal_testkit::requests::Requests;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

/// Nothing here takes that long; who waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(300);

/// The image that travels.
pub(crate) const IMAGE: &str = "ghcr.io/myorg/my-app";

/// Where the workload is that all environments look at.
const WORKLOADS: &str = "workloads";

/// A control plane.
pub(crate) struct Place {
    pub(crate) client: kube::Client,
    pub(crate) workshop: Workshop,
    pub(crate) requests: Requests,
    controllers: Controllers,
    server: kardinal_apiserver::Server,
    _folder: tempfile::TempDir,
}

impl Place {
    /// Starts one that keeps its objects on disk, as a user's does.
    pub(crate) async fn start() -> anyhow::Result<Place> {
        let folder = tempfile::tempdir()?;
        let options = kardinal_apiserver::Options {
            data_dir: Some(folder.path().to_owned()),
            ..kardinal_apiserver::Options::default()
        };
        let server = kardinal_apiserver::Server::start(options).await?;
        let client = server.client("default");
        install::ensure_definitions(&client, &kardinal_api::crds()).await?;
        let workshop = Workshop::new()?;
        let requests = Requests::default();
        let heard = requests.overhear(server.router());
        let outside = workshop.outside(heard.clone(), &requests)?;
        let seen = Some(vec![WORKLOADS.to_owned()]);
        let settings = Settings { health_namespaces: seen, ..Settings::default() };
        let controllers = Controllers::start(heard, Arc::new(SystemClock), &settings, outside);
        Ok(Place { client, workshop, requests, controllers, server, _folder: folder })
    }

    /// Ends it.
    pub(crate) async fn stop(self) {
        self.controllers.stop().await;
        self.server.shutdown().await;
    }

    /// A workload that has the new version already: health costs nothing.
    pub(crate) async fn healthy_workload(&self, version: &str) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut wanted = Namespace::default();
        wanted.metadata.name = Some(WORKLOADS.to_owned());
        match namespaces.create(&PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => drop(made?),
        }
        let simulator = kardinal_simulator::Simulator {
            client: self.client.clone(),
            repositories: self.workshop.git.clone(),
            remote: self.workshop.remote("default", "none"),
            branch: "main".to_owned(),
            application: "my-app".to_owned(),
            environments: Vec::new(),
        };
        simulator.deploy(WORKLOADS, &format!("{IMAGE}:{version}")).await?;
        Ok(())
    }

    /// Applies a manifest.
    pub(crate) async fn apply(&self, manifest: &Value) -> anyhow::Result<()> {
        kardinal_testkit::apply(&self.client, "default", manifest).await?;
        Ok(())
    }

    /// A Pipeline whose environments follow each other.
    pub(crate) async fn pipeline(
        &self,
        name: &str,
        git: Value,
        environments: &[String],
    ) -> anyhow::Result<()> {
        let environments: Vec<Value> = environments
            .iter()
            .map(|environment| {
                json!({
                    "name": environment,
                    "path": format!("{name}/{environment}"),
                    "health": {"type": "resource", "resource": {"name": "my-app", "namespace": WORKLOADS}},
                })
            })
            .collect();
        self.apply(&json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"git": git, "environments": environments},
        }))
        .await
    }

    /// A Bundle for a Pipeline.
    pub(crate) async fn release(&self, pipeline: &str, bundle: &str, version: &str) -> anyhow::Result<()> {
        self.apply(&json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {
                "name": bundle, "namespace": "default", "labels": {"kardinal.io/pipeline": pipeline},
            },
            "spec": {"artifacts": {"images": [{"name": "my-app", "reference": format!("{IMAGE}:{version}")}]}},
        }))
        .await
    }

    /// Waits until nothing has been asked for a second.
    pub(crate) async fn quiet(&self) {
        loop {
            self.requests.take();
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.requests.take().is_empty() {
                return;
            }
        }
    }

    /// Waits until all these Bundles are verified.
    pub(crate) async fn verified(&self, bundles: &[String]) -> anyhow::Result<()> {
        let api: Api<Bundle> = Api::namespaced(self.client.clone(), "default");
        let started = Instant::now();
        for name in bundles {
            loop {
                let status = api.get(name).await?.status.unwrap_or_default();
                match status.phase {
                    Some(BundlePhase::Verified) => break,
                    Some(BundlePhase::Failed) => bail!("Bundle `{name}` failed"),
                    _ if started.elapsed() > PATIENCE => {
                        bail!("Bundle `{name}` is still on its way: {:?}", status.conditions)
                    }
                    _ => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            }
        }
        Ok(())
    }
}

/// The kustomization of an environment.
pub(crate) fn kustomization(tag: &str) -> String {
    format!("resources:\n  - ../../base\nimages:\n  - name: {IMAGE}\n    newTag: \"{tag}\"\n")
}

/// CPU seconds that this process has used.
pub(crate) fn cpu() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')').context("the form of stat")?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
    Ok((ticks(11) + ticks(12)) / 100.0)
}

/// Resident memory of this process in MiB.
pub(crate) fn memory() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).context("the form of status")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("the form of VmRSS")?.parse()?;
    Ok(kilobytes / 1024.0)
}
