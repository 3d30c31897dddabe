//! What fails, why, and how it is taken back.

use anyhow::ensure;
use jiff::SignedDuration;
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{Bundle, BundlePhase, PromotionState};
use kardinal_testkit::world::{in_memory, promotions};
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::words::{approve, has_version, message, pipeline, record, says, why};

in_three_worlds!(promotions: a_sick_version_is_taken_back);
in_three_worlds!(promotions: a_sick_version_is_taken_back_when_the_newer_one_fails_on_its_way);
in_three_worlds!(promotions: a_failed_rollback_is_the_end);
in_three_worlds!(promotions: the_first_bundle_has_nothing_to_go_back_to);
in_three_worlds!(promotions: closing_a_pr_without_merging_rejects_the_bundle_and_keeps_upstream_as_it_is);
in_three_worlds!(promotions: closing_a_pr_without_merging_takes_upstream_back_where_on_reject_says_rollback);
in_three_worlds!(promotions: a_file_that_is_missing);

const GOOD: &str = "my-app-v1-29-0";
const BAD: &str = "my-app-v1-30-0";
const ALL: [&str; 2] = ["dev", "prod"];

/// Both environments run 1.29.0.
async fn settled<'a>(world: &'a World) -> anyhow::Result<Shop<'a>> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
    shop.release(GOOD, "1.29.0", json!({})).await?;
    approve(&shop, GOOD, "prod").await?;
    shop.phase(GOOD, BundlePhase::Verified).await?;
    Ok(shop)
}

/// 1.30.0 has come to prod, and does not start there.
async fn sick<'a>(world: &'a World) -> anyhow::Result<Shop<'a>> {
    let mut shop = settled(world).await?;
    shop.run_workloads(&["dev"]);
    shop.release(BAD, "1.30.0", json!({})).await?;
    approve(&shop, BAD, "prod").await?;
    says(&shop, BAD, "prod", "still runs 1.29.0").await?;
    shop.stop_workloads();
    world.advance(SignedDuration::from_mins(11)).await;
    let bad = shop.phase(BAD, BundlePhase::Failed).await?;
    for part in ["prod: not healthy after 10m", "still runs 1.29.0"] {
        ensure!(why(&bad).contains(part), "`{part}` is missing in: {}", why(&bad));
    }
    shop.told("RollingBack", GOOD).await?;
    Ok(shop)
}

async fn names(shop: &Shop<'_>) -> anyhow::Result<Vec<String>> {
    let api: Api<Bundle> = Api::namespaced(shop.story.world.client.clone(), &shop.story.world.namespace);
    Ok(api
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .filter_map(|bundle| bundle.metadata.name)
        .collect())
}

async fn a_sick_version_is_taken_back(world: &World) -> anyhow::Result<()> {
    const BACK: &str = "my-app-v1-29-0-rollback-40c319e3";
    let mut shop = sick(world).await?;
    shop.run_workloads(&ALL);
    // Nobody reviews dev, but a rollback that nobody asked for leaves a record there.
    shop.state(BACK, "dev", PromotionState::Verified).await?;
    has_version(&shop, "dev", "1.29.0").await?;
    shop.state(BACK, "prod", PromotionState::WaitingForMerge).await?;
    for (name, state) in [("dev", PullRequestState::Merged), ("prod", PullRequestState::Open)] {
        let request = shop.request(BACK, name).await?;
        ensure!(request.spec.labels.contains(&"kardinal/rollback".to_owned()), "{:?}", request.spec.labels);
        ensure!(
            request.spec.title == format!("[kardinal] Rollback {name} to {BACK} (reverts {BAD})"),
            "{request:?}"
        );
        ensure!(
            request.spec.body.contains(&format!("**Rollback**: takes back {BAD}")),
            "{}",
            request.spec.body
        );
        ensure!(request.status.and_then(|status| status.state) == Some(state), "{name}");
    }
    let body = shop.request(BACK, "prod").await?.spec.body;
    ensure!(body.contains("1.30.0 to 1.29.0"), "{body}");
    approve(&shop, BACK, "prod").await?;
    let back = shop.phase(BACK, BundlePhase::Verified).await?;
    let provenance = back.spec.provenance.clone().unwrap_or_default();
    ensure!(provenance.rollback_of.as_deref() == Some(BAD), "{provenance:?}");
    for name in ALL {
        has_version(&shop, name, "1.29.0").await?;
    }
    // Bundles that failed stay so.
    shop.phase(BAD, BundlePhase::Failed).await?;
    ensure!(names(&shop).await?.len() == 3, "{:?}", names(&shop).await?);
    shop.fsck()?;
    shop.close().await
}

async fn a_failed_rollback_is_the_end(world: &World) -> anyhow::Result<()> {
    const BACK: &str = "my-app-v1-29-0-rollback-40c319e3";
    let shop = sick(world).await?;
    // Not even the old version starts in dev any more.
    says(&shop, BACK, "dev", "still runs 1.30.0").await?;
    world.advance(SignedDuration::from_mins(11)).await;
    shop.phase(BACK, BundlePhase::Failed).await?;
    let names = names(&shop).await?;
    ensure!(names == [GOOD, BACK, BAD], "a rollback of a rollback: {names:?}");
    shop.close().await
}

async fn a_sick_version_is_taken_back_when_the_newer_one_fails_on_its_way(
    world: &World,
) -> anyhow::Result<()> {
    const NEWER: &str = "my-app-v1-31-0";
    const BACK: &str = "my-app-v1-29-0-rollback-40c319e3";
    let mut shop = settled(world).await?;
    shop.run_workloads(&["dev"]);
    shop.release(BAD, "1.30.0", json!({})).await?;
    approve(&shop, BAD, "prod").await?;
    says(&shop, BAD, "prod", "still runs 1.29.0").await?;
    // The next one comes before it is known that prod is not well, and does not start in dev.
    world.advance(SignedDuration::from_mins(5)).await;
    shop.release(NEWER, "1.31.0-broken", json!({})).await?;
    says(&shop, NEWER, "dev", "degraded: ").await?;
    world.advance(SignedDuration::from_mins(6)).await;
    shop.phase(BAD, BundlePhase::Failed).await?;
    shop.told("NewerOnItsWay", NEWER).await?;
    ensure!(!names(&shop).await?.contains(&BACK.to_owned()), "it would fight with `{NEWER}`");

    world.advance(SignedDuration::from_mins(5)).await;
    shop.phase(NEWER, BundlePhase::Failed).await?;
    // It takes back what it brought to dev; what goes further, made in the same moment, takes the place of that.
    shop.told("RollingBack", "`dev` goes back").await?;
    shop.told("RollingBack", BACK).await?;
    shop.run_workloads(&ALL);
    approve(&shop, BACK, "prod").await?;
    shop.phase(BACK, BundlePhase::Verified).await?;
    for name in ALL {
        has_version(&shop, name, "1.29.0").await?;
    }
    shop.fsck()?;
    shop.close().await
}

async fn the_first_bundle_has_nothing_to_go_back_to(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    shop.pipeline(pipeline(json!([{"name": "dev", "health": {"timeout": "2m"}}]))).await?;
    shop.release(GOOD, "1.29.0-broken", json!({})).await?;
    says(&shop, GOOD, "dev", "degraded: ").await?;
    world.advance(SignedDuration::from_mins(3)).await;
    let failed = shop.phase(GOOD, BundlePhase::Failed).await?;
    for part in ["dev: not healthy after 2m", "is stuck", "timed out progressing"] {
        ensure!(why(&failed).contains(part), "`{part}` is missing in: {}", why(&failed));
    }
    shop.told("NothingToRollBackTo", "no other Bundle was verified in `dev`").await?;
    ensure!(names(&shop).await? == [GOOD]);
    shop.close().await
}

async fn closing_a_pr_without_merging_rejects_the_bundle_and_keeps_upstream_as_it_is(
    world: &World,
) -> anyhow::Result<()> {
    let shop = settled(world).await?;
    shop.release(BAD, "1.30.0", json!({})).await?;
    shop.state(BAD, "prod", PromotionState::WaitingForMerge).await?;
    shop.decide(BAD, "prod", &json!({"spec": {"desired": "closed", "closedBy": "bob"}})).await?;
    let failed = shop.phase(BAD, BundlePhase::Failed).await?;
    ensure!(why(&failed).contains("prod: PR #2 was closed without merging by bob at "), "{}", why(&failed));
    let closed = shop.request(BAD, "prod").await?.status.unwrap_or_default();
    let rejected = record(&failed, "prod");
    ensure!(rejected.rejected_by.as_deref() == Some("bob"), "{rejected:?}");
    ensure!(rejected.rejected_at.is_some() && rejected.rejected_at == closed.closed_at, "{rejected:?}");
    has_version(&shop, "prod", "1.29.0").await?;
    ensure!(record(&failed, "prod").promoted_at.is_none(), "{failed:?}");
    let step = shop.state(BAD, "prod", PromotionState::Failed).await?;
    let conditions = step.status.unwrap_or_default().conditions;
    ensure!(conditions.iter().any(|condition| condition.reason == "Rejected"), "{conditions:?}");
    // Nobody said that the version is bad for dev: it stays there.
    has_version(&shop, "dev", "1.30.0").await?;
    ensure!(names(&shop).await? == [GOOD, BAD], "{:?}", names(&shop).await?);
    shop.close().await
}

async fn closing_a_pr_without_merging_takes_upstream_back_where_on_reject_says_rollback(
    world: &World,
) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    let prod = json!({"name": "prod", "approval": "pr-review", "onReject": "rollback"});
    shop.pipeline(pipeline(json!([{"name": "dev"}, prod]))).await?;
    shop.release(GOOD, "1.29.0", json!({})).await?;
    approve(&shop, GOOD, "prod").await?;
    shop.phase(GOOD, BundlePhase::Verified).await?;
    shop.release(BAD, "1.30.0", json!({})).await?;
    shop.state(BAD, "prod", PromotionState::WaitingForMerge).await?;
    shop.decide(BAD, "prod", &json!({"spec": {"desired": "closed"}})).await?;
    shop.phase(BAD, BundlePhase::Failed).await?;
    // It never came to prod, but dev has it: that is taken back, and prod is left alone.
    let back = shop.phase("my-app-v1-29-0-rollback-77a0aff2", BundlePhase::Verified).await?;
    ensure!(record(&back, "prod").state.is_none(), "{back:?}");
    has_version(&shop, "dev", "1.29.0").await?;
    shop.close().await
}

async fn a_file_that_is_missing(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "path": "environments/production"}])))
        .await?;
    shop.release(GOOD, "1.29.0", json!({})).await?;
    let failed = shop.phase(GOOD, BundlePhase::Failed).await?;
    let step = shop.state(GOOD, "prod", PromotionState::Failed).await?;
    for part in ["`environments/production` has no kustomization.yaml", "check the environment's `path`"] {
        ensure!(message(&step).contains(part), "`{part}` is missing in: {}", message(&step));
        ensure!(why(&failed).contains(part), "`{part}` is missing in: {}", why(&failed));
    }
    let tasks = step.status.unwrap_or_default().steps;
    let blamed: Vec<&str> = tasks
        .iter()
        .filter(|task| task.state == kardinal_api::kardinal::TaskState::Failed)
        .map(|task| task.name.as_str())
        .collect();
    ensure!(blamed == ["kustomize-set-image"], "{tasks:?}");
    shop.close().await
}

#[test]
fn a_step_made_anew_under_an_old_name_starts_without_the_old_backoff() -> anyhow::Result<()> {
    in_memory(promotions(), async |world| {
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        // The folder itself stays: one that is gone is made anew by the forge.
        let here = world.workshop.forge.store.path(&world.namespace, "gitops")?.join("objects");
        let away = here.with_extension("away");
        std::fs::rename(&here, &away)?;
        shop.pipeline(pipeline(json!([{"name": "dev"}]))).await?;
        shop.release(GOOD, "1.29.0", json!({})).await?;
        let old = shop.step(GOOD, "dev", "is in trouble", |step| !message(step).is_empty()).await?;
        // By now it is tried every few minutes only.
        world.advance(SignedDuration::from_mins(31)).await;
        ensure!(shop.find_step(GOOD, "dev").await?.is_some_and(|step| step.metadata.uid == old.metadata.uid));
        std::fs::rename(&away, &here)?;
        let name = old.metadata.name.clone().unwrap_or_default();
        let began = world.now();
        shop.story.delete("kardinal.io/v1alpha1", "PromotionStep", &name).await?;
        let new = shop
            .step(GOOD, "dev", "is another one and verified", |step| {
                let verified =
                    step.status.as_ref().and_then(|status| status.state) == Some(PromotionState::Verified);
                verified && step.metadata.uid != old.metadata.uid
            })
            .await?;
        ensure!(new.metadata.name == old.metadata.name);
        let took = world.now().duration_since(began);
        ensure!(took < SignedDuration::from_secs(30), "it took {took:#}");
        Ok(())
    })
}
