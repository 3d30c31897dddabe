//! Somebody wants to go back.

use anyhow::{Context as _, bail, ensure};
use kardinal_api::forge::{Check, CheckState, PullRequestState};
use kardinal_api::kardinal::{Bundle, BundlePhase, Pipeline, PromotionState, PromotionStep};
use kardinal_promotion::bundle::up_to_date;
use kardinal_promotion::intent::{self, Answer, Wish};
use kardinal_testkit::shop::APP;
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::words::{KARDINAL, approve, has_version, pipeline, why};

in_three_worlds!(promotions: back_to_a_chosen_version);
in_three_worlds!(promotions: what_is_taken_back_goes_no_further);

const ALL: [&str; 2] = ["dev", "prod"];

/// Wishes that prod goes back and returns the name of the Bundle that does it.
pub(crate) async fn wish(shop: &Shop<'_>, to: Option<&str>, emergency: bool) -> anyhow::Result<String> {
    wish_in(shop, "prod", to, emergency).await
}

async fn wish_in(
    shop: &Shop<'_>,
    environment: &str,
    to: Option<&str>,
    emergency: bool,
) -> anyhow::Result<String> {
    let world = shop.story.world;
    shop.next_second().await?;
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), &world.namespace);
    let steps: Api<PromotionStep> = Api::namespaced(world.client.clone(), &world.namespace);
    let steps = steps.list(&ListParams::default()).await?.items;
    let all = bundles.list(&ListParams::default()).await?.items;
    let all: Vec<Bundle> = all.iter().map(|bundle| up_to_date(bundle, &steps)).collect();
    let named = |name: &str| all.iter().find(|bundle| bundle.metadata.name.as_deref() == Some(name));
    let wish = Wish {
        pipeline: &pipelines.get(APP).await?,
        environment,
        bundle: to.and_then(named),
        bundles: &all.iter().collect::<Vec<_>>(),
        force: false,
    };
    let Answer::New(wanted) = intent::rollback(&wish, emergency, world.now())? else {
        bail!("it is on its way already")
    };
    let made = bundles.create(&PostParams::default(), &wanted).await?;
    Ok(made.metadata.name.unwrap_or_default())
}

async fn back_to_a_chosen_version(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    for (name, version) in
        [("my-app-v1-29-0", "1.29.0"), ("my-app-v1-30-0", "1.30.0"), ("my-app-v1-31-0", "1.31.0")]
    {
        shop.release(name, version, json!({})).await?;
        approve(&shop, name, "prod").await?;
        shop.phase(name, BundlePhase::Verified).await?;
    }

    // Without a choice it is the version before.
    let before = wish(&shop, None, false).await?;
    ensure!(before.starts_with("my-app-v1-30-0-rollback-"), "{before}");
    approve(&shop, &before, "prod").await?;
    shop.phase(&before, BundlePhase::Verified).await?;
    let request = shop.request(&before, "prod").await?;
    ensure!(
        request.spec.labels == ["kardinal", "kardinal/promotion", "kardinal/rollback"],
        "{:?}",
        request.spec.labels
    );
    has_version(&shop, "prod", "1.30.0").await?;

    let chosen = wish(&shop, Some("my-app-v1-29-0"), true).await?;
    ensure!(chosen.starts_with("my-app-v1-29-0-rollback-"), "{chosen}");
    approve(&shop, &chosen, "prod").await?;
    shop.phase(&chosen, BundlePhase::Verified).await?;
    let request = shop.request(&chosen, "prod").await?;
    ensure!(
        request.spec.labels == ["kardinal", "kardinal/promotion", "kardinal/rollback", "kardinal/emergency"],
        "{:?}",
        request.spec.labels
    );
    ensure!(request.spec.body.contains("**Emergency rollback**: takes back"), "{}", request.spec.body);
    for name in ALL {
        has_version(&shop, name, "1.29.0").await?;
    }
    let log = shop.log()?;
    ensure!(log.iter().any(|subject| *subject == format!("[kardinal] Rollback dev to {chosen}")), "{log:?}");

    // What is there already is no choice.
    let refused = wish(&shop, Some(&chosen), false).await.err().map(|error| error.to_string());
    ensure!(refused.as_deref().is_some_and(|error| error.contains("is what `prod` has now")), "{refused:?}");
    shop.fsck()?;
    shop.close().await
}

async fn what_is_taken_back_goes_no_further(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    let (good, bad) = ("my-app-v1-29-0", "my-app-v1-30-0");
    shop.release(good, "1.29.0", json!({})).await?;
    approve(&shop, good, "prod").await?;
    shop.phase(good, BundlePhase::Verified).await?;
    shop.release(bad, "1.30.0", json!({})).await?;
    shop.state(bad, "prod", PromotionState::WaitingForMerge).await?;

    let back = wish_in(&shop, "dev", None, false).await?;
    let bundle = shop.phase(bad, BundlePhase::Superseded).await?;
    ensure!(why(&bundle).contains(&format!("`{back}` takes it back")), "{}", why(&bundle));
    shop.phase(&back, BundlePhase::Verified).await?;
    shop.story.gone(KARDINAL, "PromotionStep", &format!("{bad}-prod")).await?;
    let request = shop.request(bad, "prod").await?;
    ensure!(request.status.as_ref().and_then(|status| status.state) == Some(PullRequestState::Closed));
    let green = |check: &Check| check.state == CheckState::Success;
    ensure!(!request.spec.checks.iter().any(green), "{:?}", request.spec.checks);
    let comment = request.spec.comments.last().context("somebody says why it is closed")?;
    ensure!(comment.body.contains("takes it back"), "{comment:?}");
    for name in ALL {
        has_version(&shop, name, "1.29.0").await?;
    }
    shop.fsck()?;
    shop.close().await
}
