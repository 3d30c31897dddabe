//! `kardinal controller` dies by SIGKILL at the worst moments, and is started again: the end is the same.

use std::path::Path;

use anyhow::{Context as _, ensure};
use http::Method;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::child::Running;
use kardinal_testkit::up::binary;
use kardinal_testkit::{World, world};
use serde_json::json;

use super::proxy::{Fate, Proxy};
use super::site::{Site, at_gitea, gitea, record};

const BUNDLE: &str = "my-app-v1-29-0";
const ALL: [&str; 3] = ["dev", "staging", "prod"];

/// The product's own program with a folder that outlives it. It is killed when it is dropped.
fn controllers(world: &World, folder: &Path, life: usize) -> anyhow::Result<Running> {
    let kubeconfig = world.kubeconfig.as_ref().context("the server can be reached")?;
    let arguments = [
        "controller".to_owned(),
        // Each life begins at once, instead of waiting for the Lease of the one before.
        "--leader-elect=false".to_owned(),
        "--kubeconfig".to_owned(),
        kubeconfig.display().to_string(),
        "--git-cache-dir".to_owned(),
        folder.join("cache").display().to_string(),
        // The forge of this test is on this machine, which a controller does not reach by itself.
        "--allowed-hosts".to_owned(),
        "127.0.0.1".to_owned(),
    ];
    Running::start(&binary()?, &arguments, &folder.join(format!("log-{life}")))
}

#[test]
fn on_kardinal_up() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let told = world::on_kardinal_up(world::promotions(), async |world| {
        let Some(gitea) = gitea()? else { return Ok(()) };
        world.stop_controllers().await;
        let upstream = gitea.read().map(|gitea| gitea.url.clone()).unwrap_or_default();
        let proxy = Proxy::start(&upstream).await?;
        at_gitea(world, gitea, &ALL, Some(&proxy), async |site| {
            site.run_workloads(&ALL);
            let review = |name: &str| json!({"name": name, "approval": "pr-review"});
            site.pipeline(json!([{"name": "dev"}, review("staging"), review("prod")])).await?;
            site.shop.release(BUNDLE, "1.29.0", json!({})).await?;
            five_lives(world, site, &proxy, folder.path()).await
        })
        .await
    });
    told.with_context(|| {
        let log =
            |life| std::fs::read_to_string(folder.path().join(format!("log-{life}"))).unwrap_or_default();
        (1..=5).map(|life| format!("life {life}:\n{}", log(life))).collect::<String>()
    })
}

async fn five_lives(world: &World, site: &Site<'_>, proxy: &Proxy, folder: &Path) -> anyhow::Result<()> {
    // The push to `main` arrives, and nobody hears of it.
    let mut held = proxy.hold(Method::POST, "/git-receive-pack");
    let life = controllers(world, folder, 1)?;
    held.caught().await?;
    drop(life);
    held.release(Fate::Forward);
    world
        .eventually("the push arrives without its sender", async || {
            let found = site.promotions()?;
            Ok(if found.len() == 1 { Ok(()) } else { Err(format!("{found:?}")) })
        })
        .await?;

    // The push to the promotion branch never arrives.
    let mut held = proxy.hold(Method::POST, "/git-receive-pack");
    let life = controllers(world, folder, 2)?;
    held.caught().await?;
    drop(life);
    held.release(Fate::Lose);
    ensure!(site.branches()? == ["main"], "{:?}", site.branches()?);

    // The pull request is opened, and nobody hears of it; nor of what people do with it.
    let mut held = proxy.hold(Method::POST, "/pulls");
    let life = controllers(world, folder, 3)?;
    held.caught().await?;
    drop(life);
    held.release(Fate::Forward);
    world
        .eventually("the pull request is opened without its sender", async || {
            let found = site.pulls()?.len();
            Ok(if found == 1 { Ok(()) } else { Err(format!("{found} pull requests")) })
        })
        .await?;

    let number = site.number(BUNDLE, "staging")?;
    site.gitea().approve(&site.repository, number, "bob")?;
    site.gitea().merge_as(&site.repository, number, "alice")?;

    // The merge happens while nobody listens.
    let life = controllers(world, folder, 4)?;
    site.shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    drop(life);
    let number = site.number(BUNDLE, "prod")?;
    site.gitea().merge_as(&site.repository, number, "alice")?;

    let _life = controllers(world, folder, 5)?;
    let bundle = site.shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for (environment, by) in [("dev", &[][..]), ("staging", &["bob", "alice"]), ("prod", &["alice"])] {
        site.has_version(environment, "1.29.0")?;
        let approved = record(&bundle, environment).evidence.unwrap_or_default().approved_by;
        ensure!(approved.as_ref().is_some_and(|approved| approved == by), "{environment}: {approved:?}");
    }
    let title = |environment: &str| format!("[kardinal] Promote {BUNDLE} to {environment}");
    site.only(&[&title("dev"), &title("staging"), &title("prod")], &[&title("prod"), &title("staging")])
}
