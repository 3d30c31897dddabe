//! Holding everything, wherever it is.

use anyhow::ensure;
use kardinal_api::forge::CheckState;
use kardinal_api::kardinal::{BundlePhase, Pipeline, PolicyGate, PromotionState};
use kardinal_promotion::intent;
use kardinal_testkit::shop::APP;
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::words::{has_version, message, pipeline, says};

in_three_worlds!(promotions: a_pause_holds_at_every_phase);
in_three_worlds!(promotions: paused_in_the_spec);
in_three_worlds!(promotions: a_pause_ends_when_its_label_is_taken_away_or_names_another_pipeline);

const BUNDLE: &str = "my-app-v1-29-0";
const ALL: [&str; 3] = ["dev", "staging", "prod"];

async fn pause(shop: &Shop<'_>) -> anyhow::Result<()> {
    let world = shop.story.world;
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let gates: Api<PolicyGate> = Api::namespaced(world.client.clone(), &world.namespace);
    let freeze = intent::pause(&pipelines.get(APP).await?, "alice");
    gates.create(&PostParams::default(), &freeze).await?;
    Ok(())
}

async fn resume(shop: &Shop<'_>) -> anyhow::Result<()> {
    let world = shop.story.world;
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let gates: Api<PolicyGate> = Api::namespaced(world.client.clone(), &world.namespace);
    let all = gates.list(&ListParams::default()).await?.items;
    let wish = intent::resume(&pipelines.get(APP).await?, &all.iter().collect::<Vec<_>>());
    ensure!(wish.gates == ["freeze-my-app"], "{wish:?}");
    for name in &wish.gates {
        gates.delete(name, &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Waits until the pull request shows this.
async fn check(shop: &Shop<'_>, state: CheckState, text: &str) -> anyhow::Result<()> {
    shop.story
        .world
        .eventually(&format!("the pull request shows {state:?}"), async || {
            let checks = shop.request(BUNDLE, "prod").await?.spec.checks;
            let said = |check: &kardinal_api::forge::Check| check.description.clone().unwrap_or_default();
            let right = checks.iter().any(|check| check.state == state && said(check).contains(text));
            Ok(if right { Ok(()) } else { Err(format!("{checks:?}")) })
        })
        .await
}

/// Waits until the pull request says, or says no more, that everything is paused, by whom and since when.
async fn body(shop: &Shop<'_>, paused: bool) -> anyhow::Result<()> {
    shop.story
        .world
        .eventually(&format!("the body tells a pause: {paused}"), async || {
            let body = shop.request(BUNDLE, "prod").await?.spec.body;
            let told = ["> **Paused** since ", "is paused by alice", "kardinal resume my-app"];
            let told = told.iter().filter(|part| body.contains(**part)).count();
            Ok(if told == if paused { 3 } else { 0 } { Ok(()) } else { Err(body) })
        })
        .await
}

async fn a_pause_holds_at_every_phase(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &ALL).await?;
    shop.pipeline(pipeline(
        json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]),
    ))
    .await?;

    // Before anything has happened.
    pause(&shop).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let held = says(&shop, BUNDLE, "dev", "held: ").await?;
    ensure!(
        message(&held).contains("paused by alice") && message(&held).contains("kardinal resume"),
        "{held:?}"
    );
    ensure!(shop.log()?.len() == 1, "nothing is written while everything is held: {:?}", shop.log()?);
    resume(&shop).await?;
    shop.state(BUNDLE, "dev", PromotionState::HealthChecking).await?;
    has_version(&shop, "dev", "1.29.0").await?;

    // While health is checked: what is seen is written down, and nothing goes further.
    pause(&shop).await?;
    shop.deploy("dev", "1.29.0").await?;
    shop.state(BUNDLE, "dev", PromotionState::Verified).await?;
    says(&shop, BUNDLE, "staging", "held: ").await?;
    has_version(&shop, "staging", "1.28.0").await?;
    resume(&shop).await?;
    shop.deploy("staging", "1.29.0").await?;

    // While people are asked.
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    check(&shop, CheckState::Success, "no gates").await?;
    pause(&shop).await?;
    says(&shop, BUNDLE, "prod", "held: ").await?;
    check(&shop, CheckState::Pending, "held: ").await?;
    body(&shop, true).await?;
    resume(&shop).await?;
    says(&shop, BUNDLE, "prod", "waiting for PR #1 to be merged").await?;
    check(&shop, CheckState::Success, "no gates").await?;
    body(&shop, false).await?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.deploy("prod", "1.29.0").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    shop.close().await
}

async fn a_pause_ends_when_its_label_is_taken_away_or_names_another_pipeline(
    world: &World,
) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    shop.pipeline(pipeline(json!([{"name": "dev"}]))).await?;
    let gates: Api<PolicyGate> = Api::namespaced(world.client.clone(), &world.namespace);
    let edits = [
        (BUNDLE, "1.29.0", json!({"kardinal.io/freeze": null})),
        ("my-app-v1-30-0", "1.30.0", json!({"kardinal.io/pipeline": "another"})),
    ];
    for (name, version, labels) in edits {
        pause(&shop).await?;
        shop.release(name, version, json!({})).await?;
        says(&shop, name, "dev", "held: ").await?;
        let patch = json!({"metadata": {"labels": labels}});
        gates.patch("freeze-my-app", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        shop.phase(name, BundlePhase::Verified).await?;
        has_version(&shop, "dev", version).await?;
        gates.delete("freeze-my-app", &DeleteParams::default()).await?;
    }
    shop.close().await
}

/// `spec.paused` does the same; a record that would be merged by the controller waits too.
async fn paused_in_the_spec(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev", "staging"]).await?;
    shop.run_workloads(&["dev", "staging"]);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "staging", "pr": true}]))).await?;
    let pipelines: Api<Pipeline> = Api::namespaced(world.client.clone(), &world.namespace);
    let set = async |paused: bool| {
        let patch = json!({"spec": {"paused": paused}});
        pipelines.patch(APP, &PatchParams::default(), &Patch::Merge(&patch)).await
    };
    set(true).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    says(&shop, BUNDLE, "dev", "is paused by `spec.paused`").await?;
    ensure!(shop.log()?.len() == 1, "{:?}", shop.log()?);
    set(false).await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "staging", "1.29.0").await?;
    shop.close().await
}
