//! Whoever owns a namespace can write the status of its steps and push branches: neither is believed.

use anyhow::{Context as _, ensure};
use kardinal_api::kardinal::{PromotionState, PromotionStep};
use kardinal_testkit::shop::{APP, POLICIES, git, kustomization};
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

in_three_worlds!(promotions: completed_tasks_that_somebody_else_wrote_verify_nothing);
in_three_worlds!(promotions: another_pull_request_is_not_taken_for_the_steps_own);
in_three_worlds!(promotions: a_commit_planted_under_the_steps_name_is_not_merged);

const KARDINAL: &str = "kardinal.io/v1alpha1";
const BUNDLE: &str = "my-app-v1-29-0";
const FILE: &str = "environments/prod/kustomization.yaml";

async fn on_the_way<'a>(world: &'a World, environment: Value) -> anyhow::Result<Shop<'a>> {
    let shop = Shop::open(world, &["prod"]).await?;
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [environment]},
    }))
    .await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    Ok(shop)
}

/// Writes a status until the controllers have noticed that it is not theirs. They may have something to write down in the
/// same moment, which then takes the place of what was forged.
async fn forge_status(shop: &Shop<'_>, step: &PromotionStep, status: Value) -> anyhow::Result<()> {
    let world = shop.story.world;
    let steps: Api<PromotionStep> = Api::namespaced(world.client.clone(), &world.namespace);
    let name = step.metadata.name.as_deref().context("it has a name")?;
    let patch = Patch::Merge(json!({"status": status}));
    world
        .eventually("the forged status is noticed", async || {
            let told = shop.events("StatusNotOurs").await?;
            if told.iter().any(|message| message.contains("it begins again")) {
                return Ok(Ok(()));
            }
            steps.patch_status(name, &PatchParams::default(), &patch).await?;
            Ok(Err("not yet".to_owned()))
        })
        .await
}

/// Nothing runs the new version, so nothing can have verified it.
async fn completed_tasks_that_somebody_else_wrote_verify_nothing(world: &World) -> anyhow::Result<()> {
    let shop = on_the_way(world, json!({"name": "prod"})).await?;
    let step = shop.state(BUNDLE, "prod", PromotionState::HealthChecking).await?;
    let tasks = step.status.iter().flat_map(|status| &status.steps);
    let done: Vec<Value> = tasks.map(|task| json!({"name": task.name, "state": "Completed"})).collect();
    forge_status(&shop, &step, json!({"state": "Promoting", "steps": done})).await?;
    let step = shop.state(BUNDLE, "prod", PromotionState::HealthChecking).await?;
    let status = step.status.context("a status")?;
    ensure!(status.seal.is_none() && status.verified_at.is_none(), "{status:?}");
    let changes = shop.log()?.iter().filter(|subject| subject.contains(BUNDLE)).count();
    ensure!(changes == 1, "what had been pushed was found again: {:?}", shop.log()?);
    shop.close().await
}

async fn another_pull_request_is_not_taken_for_the_steps_own(world: &World) -> anyhow::Result<()> {
    let shop = on_the_way(world, json!({"name": "prod", "approval": "pr-review"})).await?;
    let step = shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    plant(&shop, "feature", "something else", "evil")?;
    shop.story
        .apply(&json!({
            "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "PullRequest", "metadata": {"name": "other"},
            "spec": {"repository": shop.repository, "head": "feature", "base": "main", "title": "x", "body": ""},
        }))
        .await?;
    forge_status(&shop, &step, json!({"outputs": {"prNumber": "2", "prHead": "evil"}})).await?;
    shop.step(BUNDLE, "prod", "waits for its own pull request again", |step| {
        let status = step.status.clone().unwrap_or_default();
        let number = status.outputs.get("prNumber").map(String::as_str);
        status.state == Some(PromotionState::WaitingForMerge) && number == Some("1")
    })
    .await?;
    ensure!(shop.pull_requests().await?.len() == 2, "it found its own again and opened no other");
    shop.close().await
}

async fn a_commit_planted_under_the_steps_name_is_not_merged(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["prod"]).await?;
    shop.org_gate("closed", "prod", "false", "10s").await?;
    shop.next_second().await?;
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "prod", "pr": true}]},
    }))
    .await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let by_hand = json!({
        "apiVersion": KARDINAL, "kind": "PromotionStep", "metadata": {"name": "by-hand"},
        "spec": {
            "pipeline": APP, "environment": "prod", "bundleRef": BUNDLE, "path": "environments/prod", "pr": true,
            "git": {"url": shop.url(&shop.repository), "branch": "main", "provider": "local"},
            "upstreamVerified": "Verified",
        },
    });
    shop.story.apply(&by_hand).await?;
    let step = shop.story.find(KARDINAL, "PromotionStep", "by-hand").await?.context("it is there")?;
    let uid = step.pointer("/metadata/uid").and_then(Value::as_str).context("it has a uid")?;
    plant(&shop, &shop.branch(BUNDLE, "prod"), &format!("Promote\n\nKardinal-Step: {uid}"), "evil")?;
    let open = Patch::Merge(json!({"spec": {"expression": "true"}}));
    let gates = kardinal_testkit::apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    gates.patch("closed", &PatchParams::default(), &open).await?;
    world
        .eventually("prod has the Bundle's version", async || {
            let file = shop.file(FILE).await?;
            ensure!(!file.contains("evil"), "the planted commit was merged:\n{file}");
            Ok(if file.contains("1.29.0") { Ok(()) } else { Err(file) })
        })
        .await?;
    shop.close().await
}

/// Somebody pushes another version to a branch that begins at `main`.
fn plant(shop: &Shop<'_>, branch: &str, message: &str, version: &str) -> anyhow::Result<()> {
    let world = shop.story.world;
    let bare = world.workshop.forge.store.path(&world.namespace, &shop.repository)?.display().to_string();
    let work = tempfile::tempdir()?;
    git(work.path(), &["clone", "--quiet", &bare, "."])?;
    git(work.path(), &["checkout", "--quiet", "-b", branch])?;
    std::fs::write(work.path().join(FILE), kustomization(version))?;
    git(work.path(), &["commit", "--quiet", "--all", "-m", message])?;
    git(work.path(), &["push", "--quiet", &bare, branch])?;
    Ok(())
}
