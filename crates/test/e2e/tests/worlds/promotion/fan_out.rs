//! Two regions at the same time.

use anyhow::ensure;
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::fixture;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::json;

use super::words::{approve, has_version, record};

in_three_worlds!(promotions: two_regions_side_by_side);
in_three_worlds!(promotions: two_pushes_to_one_branch);

const BUNDLE: &str = "my-app-v1-29-0";
const ALL: [&str; 3] = ["staging", "prod-us-east", "prod-eu-west"];

async fn two_regions_side_by_side(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(fixture("pipeline-fan-out-3-9.yaml")?).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    for region in ["prod-us-east", "prod-eu-west"] {
        shop.state(BUNDLE, region, PromotionState::WaitingForMerge).await?;
    }
    let open = |request: &kardinal_api::forge::PullRequest| {
        request.status.as_ref().and_then(|status| status.state) == Some(PullRequestState::Open)
    };
    let requests = shop.pull_requests().await?;
    ensure!(requests.len() == 2 && requests.iter().all(open), "{requests:?}");

    // The second region is not waited for by the first, and its pull request still fits after the first merge.
    approve(&shop, BUNDLE, "prod-eu-west").await?;
    shop.state(BUNDLE, "prod-eu-west", PromotionState::Verified).await?;
    has_version(&shop, "prod-us-east", "1.28.0").await?;
    let waiting = shop.state(BUNDLE, "prod-us-east", PromotionState::WaitingForMerge).await?;
    ensure!(!super::words::message(&waiting).contains("conflicts"), "{waiting:?}");
    ensure!(open(&shop.request(BUNDLE, "prod-us-east").await?));
    approve(&shop, BUNDLE, "prod-us-east").await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for region in ALL {
        has_version(&shop, region, "1.29.0").await?;
        ensure!(record(&bundle, region).verified_at.is_some(), "{bundle:?}");
    }
    shop.fsck()?;
    shop.close().await
}

/// Nobody reviews: both regions are pushed to the same branch at the same time, and neither loses.
async fn two_pushes_to_one_branch(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    let mut manifest = fixture("pipeline-fan-out-3-9.yaml")?;
    for region in [1, 2] {
        manifest["spec"]["environments"][region]["approval"] = json!("auto");
    }
    shop.pipeline(manifest).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for region in ALL {
        has_version(&shop, region, "1.29.0").await?;
    }
    let mut log = shop.log()?;
    log.sort();
    let promoted = |name: &str| format!("[kardinal] Promote {BUNDLE} to {name}");
    let wanted = ["prod-eu-west", "prod-us-east", "staging"].map(promoted);
    ensure!(log == [&wanted[..], &["the beginning".to_owned()]].concat(), "{log:?}");
    shop.fsck()?;
    shop.close().await
}
