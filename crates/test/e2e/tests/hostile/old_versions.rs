//! Versions that were there before: who deletes a finished step, or calls something a rollback, brings none of them back.

use anyhow::{Context as _, ensure};
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::{APP, POLICIES};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

in_three_worlds!(promotions: a_finished_step_that_is_deleted_brings_no_old_version_back);
in_three_worlds!(promotions: a_bundle_that_gets_the_name_of_a_deleted_one_inherits_nothing_of_it);
in_three_worlds!(promotions: a_rollback_to_what_was_verified_at_another_place_passes_no_gate);

const KARDINAL: &str = "kardinal.io/v1alpha1";
const OLD: &str = "my-app-v1-29-0";
const NEW: &str = "my-app-v1-30-0";

fn pipeline(environment: &Value) -> Value {
    json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [environment]},
    })
}

async fn a_finished_step_that_is_deleted_brings_no_old_version_back(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    shop.pipeline(pipeline(&json!({"name": "dev"}))).await?;
    for (name, version) in [(OLD, "1.29.0"), (NEW, "1.30.0")] {
        shop.release(name, version, json!({})).await?;
        shop.phase(name, BundlePhase::Verified).await?;
    }
    let (log, record) = (shop.log()?, shop.bundle(OLD).await?.status.context("a status")?.environments);
    let before = shop.state(OLD, "dev", PromotionState::Verified).await?;
    let name = before.metadata.name.clone().context("it has a name")?;
    shop.story.delete(KARDINAL, "PromotionStep", &name).await?;
    shop.step(OLD, "dev", "is made anew and knows that it is over", |step| {
        let state = step.status.as_ref().and_then(|status| status.state);
        step.metadata.uid != before.metadata.uid && state == Some(PromotionState::Verified)
    })
    .await?;
    ensure!(shop.log()? == log, "nothing was pushed: {:?}", shop.log()?);
    ensure!(shop.file("environments/dev/kustomization.yaml").await?.contains("1.30.0"));
    let after = shop.bundle(OLD).await?.status.context("a status")?.environments;
    ensure!(after == record, "the evidence is what it was: {after:?}");
    shop.close().await
}

async fn a_bundle_that_gets_the_name_of_a_deleted_one_inherits_nothing_of_it(
    world: &World,
) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    shop.pipeline(pipeline(&json!({"name": "dev"}))).await?;
    shop.release(OLD, "1.29.0", json!({})).await?;
    shop.phase(OLD, BundlePhase::Verified).await?;
    shop.next_second().await?;
    // The steps of the first are still there when the second comes.
    shop.story.delete(KARDINAL, "Bundle", OLD).await?;
    shop.release(OLD, "1.30.0", json!({})).await?;
    let bundle = shop.phase(OLD, BundlePhase::Verified).await?;
    let record = bundle.status.context("a status")?.environments;
    let verified_at = record.get("dev").and_then(|entry| entry.verified_at).context("verified")?;
    let created = bundle.metadata.creation_timestamp.context("a time")?.0;
    ensure!(verified_at >= created, "{verified_at} is before {created}");
    ensure!(shop.file("environments/dev/kustomization.yaml").await?.contains("1.30.0"));
    shop.close().await
}

/// Verified without writing anything, in an environment of the same name; then the name means production.
async fn a_rollback_to_what_was_verified_at_another_place_passes_no_gate(
    world: &World,
) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["prod"]).await?;
    shop.org_manifest(&json!({
        "apiVersion": KARDINAL, "kind": "PolicyGate",
        "metadata": {"name": "soak", "namespace": POLICIES, "labels": {
            "kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/type": "gate",
        }},
        "spec": {
            "expression": "bundle.upstreamSoakMinutes >= 30 || bundle.provenance.rollbackOf != ''",
            "appliesToPaths": ["environments/prod"],
        },
    }))
    .await?;
    shop.next_second().await?;
    let nowhere = json!({"name": "canary", "path": "environments/scratch", "steps": [{"uses": "git-clone"}]});
    shop.pipeline(pipeline(&nowhere)).await?;
    for (name, version) in [(OLD, "6.6.6"), (NEW, "6.6.7")] {
        shop.release(name, version, json!({})).await?;
        shop.phase(name, BundlePhase::Verified).await?;
        shop.next_second().await?;
    }
    shop.pipeline(pipeline(&json!({"name": "canary", "path": "environments/prod"}))).await?;
    let back = "my-app-back";
    shop.release(back, "6.6.6", json!({"spec": {"provenance": {"rollbackOf": NEW}}})).await?;
    let by_hand = json!({
        "apiVersion": KARDINAL, "kind": "PromotionStep", "metadata": {"name": "by-hand"},
        "spec": {
            "pipeline": APP, "environment": "canary", "bundleRef": back, "path": "environments/prod",
            "git": {"url": shop.url(&shop.repository), "branch": "main", "provider": "local"},
            "upstreamVerified": "Verified",
        },
    });
    shop.story.apply(&by_hand).await?;
    world
        .eventually("the step is held by the gate", async || {
            let step = shop.story.find(KARDINAL, "PromotionStep", "by-hand").await?.unwrap_or_default();
            let message = step.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
            let held = message.starts_with("held by gate `soak`");
            Ok(if held { Ok(()) } else { Err(step.to_string()) })
        })
        .await?;
    let file = shop.file("environments/prod/kustomization.yaml").await?;
    ensure!(!file.contains("6.6.6"), "{file}");
    shop.close().await
}
