//! Two `kardinal controller` processes on one cluster. The one that leads is stopped by SIGSTOP in the middle of a push,
//! the other one takes over, and the first one comes back: everything is there once.

use std::path::Path;

use anyhow::{Context as _, ensure};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::kardinal::BundlePhase;
use kardinal_testkit::{World, world};
use kube::Api;
use serde_json::json;

use super::proxy::{Fate, Proxy};
use super::site::{Site, at_gitea, gitea};
use kardinal_testkit::process::Process;

const BUNDLE: &str = "my-app-v1-29-0";
const ALL: [&str; 2] = ["dev", "prod"];

fn controller(world: &World, folder: &Path, log: &str) -> anyhow::Result<Process> {
    let kubeconfig = world.kubeconfig.as_ref().context("the server can be reached")?.display().to_string();
    let cache = folder.join(format!("cache-{log}")).display().to_string();
    // The forge of this story is on loopback, which is out of reach otherwise.
    let arguments = [
        "controller",
        "--kubeconfig",
        &kubeconfig,
        "--git-cache-dir",
        &cache,
        "--allowed-hosts",
        "127.0.0.1",
    ];
    Process::start(folder, log, &arguments, &[])
}

/// Waits until the process with this id holds the Lease.
async fn leads(world: &World, process: &Process) -> anyhow::Result<Lease> {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), "kardinal-system");
    let id = format!("_{}_", process.id());
    world
        .eventually("the process leads", async || {
            let lease = api.get_opt("kardinal-controller").await?;
            let holder = lease.as_ref().and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
            Ok(match (lease, holder) {
                (Some(lease), Some(holder)) if holder.contains(&id) => Ok(lease),
                (_, holder) => Err(format!("{holder:?} instead of {id}; it said: {}", process.printed())),
            })
        })
        .await
}

async fn take_turns(world: &World, site: &Site<'_>, proxy: &Proxy, folder: &Path) -> anyhow::Result<()> {
    let mut held = proxy.hold(Method::POST, "/git-receive-pack");
    let first = controller(world, folder, "first")?;
    let lease = leads(world, &first).await?;
    let version = lease.metadata.annotations.unwrap_or_default();
    ensure!(version["kardinal.io/version"] == env!("CARGO_PKG_VERSION"), "{version:?}");
    let mut second = controller(world, folder, "second")?;
    second.wait_for("it stands by", |said| said.contains("on standby").then_some(()))?;

    // The first one is stopped while its push is on its way.
    held.caught().await?;
    first.signal("STOP")?;
    leads(world, &second).await?;
    // The second one has promoted before the push of the first one arrives.
    world
        .eventually("the second one pushes", async || {
            let found = site.promotions()?;
            Ok(if found.len() == 1 { Ok(()) } else { Err(format!("{found:?}")) })
        })
        .await?;
    held.release(Fate::Forward);
    first.signal("CONT")?;
    let mut first = first;
    first.wait_for("it does not lead any more", |said| {
        said.contains("does not lead any more").then_some(())
    })?;
    site.approve(BUNDLE, "prod").await?;
    second.wait_for("it works", |said| said.contains("controllers run").then_some(()))?;

    // A clean stop of the leader hands over at once, and the promotion goes on.
    ensure!(second.terminate()?.success(), "SIGTERM ends it well");
    leads(world, &first).await?;
    site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let title = |environment: &str| format!("[kardinal] Promote {BUNDLE} to {environment}");
    site.only(&[&title("dev"), &title("prod")], &[&title("prod")])?;
    ensure!(first.terminate()?.success(), "SIGTERM ends it well");
    Ok(())
}

async fn story(world: &World, folder: &Path) -> anyhow::Result<()> {
    let Some(gitea) = gitea()? else { return Ok(()) };
    world.stop_controllers().await;
    let upstream = gitea.read().map(|gitea| gitea.url.clone()).unwrap_or_default();
    let proxy = Proxy::start(&upstream).await?;
    at_gitea(world, gitea, &ALL, Some(&proxy), async |site| {
        site.run_workloads(&ALL);
        site.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await?;
        site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
        take_turns(world, site, &proxy, folder).await
    })
    .await
}

fn logs(folder: &Path) -> String {
    let log = |name| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    format!("first:\n{}second:\n{}", log("first"), log("second"))
}

#[test]
fn on_kardinal_up() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let told = world::on_kardinal_up(world::promotions(), async |world| story(world, folder.path()).await);
    told.with_context(|| logs(folder.path()))
}

#[test]
fn on_real_kubernetes() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let told =
        world::on_real_kubernetes(world::promotions(), async |world| story(world, folder.path()).await);
    told.with_context(|| logs(folder.path()))
}
