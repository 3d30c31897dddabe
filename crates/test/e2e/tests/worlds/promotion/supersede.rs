//! A newer Bundle takes the place of an older one, unless that is pinned.

use anyhow::{Context as _, ensure};
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::json;

use super::words::{GRAPHS, KARDINAL, approve, has_version, pipeline, says, why};

in_three_worlds!(promotions: a_newer_bundle_takes_over);
in_three_worlds!(promotions: a_pinned_bundle_stays);

const OLD: &str = "my-app-v1-29-0";
const NEW: &str = "my-app-v1-30-0";
const ALL: [&str; 2] = ["dev", "prod"];

async fn waiting_for_merge<'a>(world: &'a World, old: serde_json::Value) -> anyhow::Result<Shop<'a>> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    shop.release(OLD, "1.29.0", old).await?;
    shop.state(OLD, "prod", PromotionState::WaitingForMerge).await?;
    Ok(shop)
}

async fn a_newer_bundle_takes_over(world: &World) -> anyhow::Result<()> {
    let shop = waiting_for_merge(world, json!({})).await?;
    let branch = shop.branch(OLD, "prod");
    ensure!(shop.branches()?.contains(&branch), "{:?}", shop.branches()?);
    shop.release(NEW, "1.30.0", json!({})).await?;
    let old = shop.phase(OLD, BundlePhase::Superseded).await?;
    ensure!(why(&old).contains(NEW), "{}", why(&old));
    shop.story.gone(GRAPHS, "Graph", OLD).await?;
    shop.story.gone(KARDINAL, "PromotionStep", &format!("{OLD}-prod")).await?;
    let request = shop.request(OLD, "prod").await?;
    let comment = request.spec.comments.last().context("somebody says why it is closed")?;
    ensure!(comment.body.contains("superseded"), "{comment:?}");
    ensure!(request.status.and_then(|status| status.state) == Some(PullRequestState::Closed));
    ensure!(!shop.branches()?.contains(&branch), "{:?}", shop.branches()?);

    approve(&shop, NEW, "prod").await?;
    shop.phase(NEW, BundlePhase::Verified).await?;
    for name in ALL {
        has_version(&shop, name, "1.30.0").await?;
    }
    // The record of what it had reached outlives everything else of the old Bundle.
    let old = shop.phase(OLD, BundlePhase::Superseded).await?;
    ensure!(super::words::record(&old, "dev").verified_at.is_some(), "{old:?}");
    shop.fsck()?;
    shop.close().await
}

async fn a_pinned_bundle_stays(world: &World) -> anyhow::Result<()> {
    let pinned = json!({"metadata": {"annotations": {"kardinal.io/pin": "true"}}});
    let shop = waiting_for_merge(world, pinned).await?;
    shop.release(NEW, "1.30.0", json!({})).await?;
    // An environment takes one Bundle at a time: both would change the same line.
    says(&shop, NEW, "prod", &format!("waiting for `{OLD}` to leave `prod`: its PR #")).await?;
    ensure!(shop.request(NEW, "prod").await.is_err(), "there are two open pull requests");
    let old = shop.bundle(OLD).await?;
    ensure!(old.status.as_ref().and_then(|status| status.phase) == Some(BundlePhase::Promoting), "{old:?}");

    approve(&shop, OLD, "prod").await?;
    shop.phase(OLD, BundlePhase::Verified).await?;
    approve(&shop, NEW, "prod").await?;
    shop.phase(NEW, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.30.0").await?;
    shop.fsck()?;
    shop.close().await
}
