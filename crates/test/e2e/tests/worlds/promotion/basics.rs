//! The smallest promotions: without people, and with somebody who merges.

use anyhow::ensure;
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::json;

use super::words::{gate_is, has_version, pipeline, record};

in_three_worlds!(promotions: automatic_environments);
in_three_worlds!(promotions: people_decide);

/// Two environments without people: both are written, one after the other, and verified.
async fn automatic_environments(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev", "staging"]).await?;
    shop.run_workloads(&["dev", "staging"]);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "staging"}]))).await?;
    shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
    let bundle = shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
    for name in ["dev", "staging"] {
        let record = record(&bundle, name);
        ensure!(record.verified_at.is_some() && record.commit.is_some(), "{record:?}");
        has_version(&shop, name, "1.29.0").await?;
    }
    let log = shop.log()?;
    ensure!(
        log == [
            "[kardinal] Promote my-app-v1-29-0 to staging",
            "[kardinal] Promote my-app-v1-29-0 to dev",
            "the beginning",
        ],
        "{log:?}"
    );
    shop.fsck()?;
    shop.close().await
}

/// The specification's three environments: two org gates, a pull request that somebody merges, evidence at the end.
async fn people_decide(world: &World) -> anyhow::Result<()> {
    const BUNDLE: &str = "my-app-v1-29-0-1712567890";
    let all = ["dev", "staging", "prod"];
    let mut shop = Shop::open(world, &all).await?;
    shop.run_workloads(&all);
    shop.org_gate("business-hours", "prod", "schedule.hour >= 0", "5m").await?;
    shop.org_gate("staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30", "1m").await?;
    let review = json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]);
    shop.pipeline(pipeline(review)).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    gate_is(&shop, "my-app-v1-29-0-staging-soak", false).await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "prod waits for its gates");
    world.advance(SignedDuration::from_mins(31)).await;
    let waiting = shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let requests = shop.pull_requests().await?;
    ensure!(requests.len() == 1, "{requests:?}");
    ensure!(waiting.status.unwrap_or_default().pr_url.is_some());
    has_version(&shop, "prod", "1.28.0").await?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let evidence = record(&bundle, "prod").evidence.unwrap_or_default();
    ensure!(evidence.approved_by.as_deref() == Some(&["alice".to_owned()]), "{evidence:?}");
    ensure!(evidence.policy_gates.as_ref().map(Vec::len) == Some(2), "{evidence:?}");
    has_version(&shop, "prod", "1.29.0").await?;
    shop.fsck()?;
    shop.close().await
}
