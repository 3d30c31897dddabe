//! A replica that stands by, and agents, as processes: what they serve, pass on and leave behind.

use std::path::Path;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kardinal_api::kardinal::{Bundle, Pipeline, PromotionStep};
use kardinal_cluster::install::ensure_namespace;
use kardinal_testkit::child::free_port;
use kardinal_testkit::up::Up;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{ci_headers, client, eventually, now, signature};
use kardinal_testkit::process::Process;

const SYSTEM: &str = "kardinal-system";

async fn server() -> anyhow::Result<(Up, kube::Client)> {
    let up = Up::start(&["--no-controllers"])?;
    let kube = kardinal_testkit::world::client_of(&up.kubeconfig).await?;
    ensure_namespace(&kube, SYSTEM).await;
    Ok((up, kube))
}

/// Somebody else leads, and does so for an hour.
async fn occupy(kube: &kube::Client) -> anyhow::Result<()> {
    let mut lease = Lease::default();
    lease.metadata.name = Some("kardinal-controller".to_owned());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some("somebody".to_owned()),
        lease_duration_seconds: Some(3600),
        renew_time: Some(MicroTime(Timestamp::now())),
        ..LeaseSpec::default()
    });
    Api::namespaced(kube.clone(), SYSTEM).create(&PostParams::default(), &lease).await?;
    Ok(())
}

/// A step that waits for its pull request to be merged.
async fn waiting_step(kube: &kube::Client) -> anyhow::Result<Api<PromotionStep>> {
    let api: Api<PromotionStep> = Api::namespaced(kube.clone(), "default");
    let step = serde_json::from_value(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
        "metadata": {"name": "waits"},
        "spec": {"pipeline": "my-app", "environment": "prod", "bundleRef": "v1",
            "git": {"url": "https://github.com/myorg/gitops"}},
    }))?;
    api.create(&PostParams::default(), &step).await?;
    let status = json!({"status": {"state": "WaitingForMerge"}});
    api.patch_status("waits", &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(api)
}

#[tokio::test]
async fn a_standby_is_ready_and_passes_webhooks_on() -> anyhow::Result<()> {
    let (up, kube) = server().await?;
    occupy(&kube).await?;
    let steps = waiting_step(&kube).await?;
    let folder = tempfile::tempdir()?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let (kubeconfig, cache) = (text(&up.kubeconfig), text(&folder.path().join("cache")));
    let arguments =
        ["controller", "--kubeconfig", &kubeconfig, "--http", &address, "--git-cache-dir", &cache];
    let keys = [("KARDINAL_WEBHOOK_SECRET", "a secret")];
    let mut standby = Process::start(folder.path(), "standby", &arguments, &keys)?;
    standby.wait_for("it stands by", |said| said.contains("on standby: `somebody` leads").then_some(()))?;
    let http = client()?;
    eventually("it is ready", async || {
        let answer = http.get(format!("http://{address}/readyz")).send().await?;
        Ok(answer.status().is_success().then_some(()))
    })
    .await?;

    let body = json!({
        "action": "closed", "number": 3, "pull_request": {"number": 3, "merged": true},
        "repository": {"clone_url": "https://github.com/myorg/gitops.git"},
    })
    .to_string();
    let answer = http
        .post(format!("http://{address}/webhooks"))
        .header("X-GitHub-Event", "pull_request")
        .header("X-GitHub-Delivery", "one")
        .header("X-Hub-Signature-256", signature("a secret", body.as_bytes())?)
        .body(body)
        .send()
        .await?;
    ensure!(answer.status().as_u16() == 202, "{} {}", answer.status(), answer.text().await?);
    let step = steps.get("waits").await?;
    let asked = step.metadata.annotations.unwrap_or_default();
    ensure!(asked.contains_key("kardinal.io/refresh"), "the leader is not told: {asked:?}");
    ensure!(step.metadata.finalizers.is_none(), "a standby does nothing else");
    ensure!(!standby.printed().contains("controllers run"), "{}", standby.printed());
    ensure!(standby.terminate()?.success(), "SIGTERM ends it well");
    let lease: Lease = Api::namespaced(kube, SYSTEM).get("kardinal-controller").await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity);
    ensure!(holder.as_deref() == Some("somebody"), "it gives back what is not its own: {holder:?}");
    Ok(())
}

/// A replica with keys for CI, and where it listens.
fn replica(folder: &Path, name: &str, kubeconfig: &str) -> anyhow::Result<(Process, String)> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let cache = text(&folder.join(name).join("cache"));
    let arguments = ["controller", "--kubeconfig", kubeconfig, "--http", &address, "--git-cache-dir", &cache];
    let keys = [("KARDINAL_API_TOKEN", "a token"), ("KARDINAL_API_SIGNING_KEY", "a key")];
    let mut process = Process::start(folder, name, &arguments, &keys)?;
    process.wait_for("it serves", |said| said.contains("web side listens").then_some(()))?;
    Ok((process, format!("http://{address}/api/v1/bundles")))
}

#[tokio::test]
async fn a_copy_of_a_request_that_goes_to_another_replica_makes_no_second_bundle() -> anyhow::Result<()> {
    let (up, kube) = server().await?;
    occupy(&kube).await?;
    let pipeline = serde_json::from_value(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "my-app"},
        "spec": {"git": {"url": "https://github.com/myorg/gitops"}, "environments": [{"name": "dev"}]},
    }))?;
    Api::<Pipeline>::namespaced(kube.clone(), "default").create(&PostParams::default(), &pipeline).await?;
    let (folder, kubeconfig, http) = (tempfile::tempdir()?, text(&up.kubeconfig), client()?);
    let (_one, first) = replica(folder.path(), "one", &kubeconfig)?;
    let (_two, second) = replica(folder.path(), "two", &kubeconfig)?;
    let body =
        json!({"pipeline": "my-app", "images": [{"repository": "r/my-app", "tag": "1.29.0"}]}).to_string();
    let made = now() - 60;
    let name = format!("my-app-v1-29-0-{made}");
    for (url, code) in [(&first, 201), (&first, 409), (&second, 200), (&second, 409)] {
        let mut request = http.post(url).body(body.clone());
        for (header, value) in ci_headers("a token", "a key", made, None, body.as_bytes())? {
            request = request.header(header, value);
        }
        let answer = request.send().await?;
        let found = answer.status().as_u16();
        let said = answer.text().await?;
        ensure!(found == code, "{found} instead of {code}: {said}");
        ensure!(code == 409 || said.contains(&name), "{said}");
    }
    let bundles = Api::<Bundle>::namespaced(kube, "default").list(&ListParams::default()).await?.items;
    ensure!(bundles.len() == 1, "{bundles:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_has_a_lease_of_its_own_and_doctor_tells_when_it_is_away() -> anyhow::Result<()> {
    let (up, kube) = server().await?;
    let folder = tempfile::tempdir()?;
    let (kubeconfig, cache) = (text(&up.kubeconfig), text(&folder.path().join("cache")));
    let control_plane = format!("--control-plane-kubeconfig={kubeconfig}");
    let (cache, own) = (format!("--git-cache-dir={cache}"), format!("--kubeconfig={kubeconfig}"));
    let arguments = ["agent", "--shard=eu-cluster", &control_plane, &cache, &own];
    let mut agent = Process::start(folder.path(), "agent", &arguments, &[])?;
    agent.wait_for("it works", |said| said.contains("controllers run").then_some(()))?;
    let leases: Api<Lease> = Api::namespaced(kube, SYSTEM);
    let lease = leases.get("kardinal-agent-eu-cluster").await?;
    let label = lease.metadata.labels.unwrap_or_default();
    ensure!(label.get("kardinal.io/shard").is_some_and(|shard| shard == "eu-cluster"), "{label:?}");
    let version = lease.metadata.annotations.unwrap_or_default();
    ensure!(version.contains_key("kardinal.io/version"), "{version:?}");
    let doctor = |log: &str| -> anyhow::Result<String> {
        let mut doctor = Process::start(folder.path(), log, &["doctor", "--kubeconfig", &kubeconfig], &[])?;
        doctor.wait_for("it has looked", |said| said.contains("shard eu-cluster: ").then(|| said.to_owned()))
    };
    let said = doctor("doctor-1")?;
    ensure!(said.contains("shard eu-cluster: its agent works"), "{said}");
    ensure!(agent.terminate()?.success(), "SIGTERM ends it well");
    let said = doctor("doctor-2")?;
    ensure!(said.contains("shard eu-cluster: agent of shard eu-cluster last seen"), "{said}");
    let holder = leases.get("kardinal-agent-eu-cluster").await?.spec.context("a spec")?.holder_identity;
    ensure!(holder.as_deref() == Some(""), "the Lease is given back: {holder:?}");
    Ok(())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
