//! What somebody deletes while a promotion waits for it is neither a dead end nor evidence.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, PolicyGate, PromotionState, PromotionStep};
use kardinal_testkit::shop::{APP, POLICIES};
use kardinal_testkit::{Shop, World, in_three_worlds};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

in_three_worlds!(promotions: a_deleted_pull_request_is_opened_anew);
in_three_worlds!(promotions: a_deleted_gate_of_the_organisation_holds_nobody_and_is_no_evidence);
in_three_worlds!(promotions: a_gate_of_the_organisation_that_is_replaced_lets_nobody_pass);

const KARDINAL: &str = "kardinal.io/v1alpha1";
const FORGE: &str = "forge.kardinal.io/v1alpha1";
const BUNDLE: &str = "my-app-v1-29-0";

async fn pipeline(shop: &Shop<'_>) -> anyhow::Result<()> {
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "prod", "approval": "pr-review"}]},
    }))
    .await
}

async fn a_deleted_pull_request_is_opened_anew(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    pipeline(&shop).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let number = |step: &PromotionStep| step.status.as_ref()?.outputs.get("prNumber").cloned();
    let first = shop.step(BUNDLE, "prod", "has its pull request", |step| number(step).is_some()).await?;
    let request = shop.request(BUNDLE, "prod").await?.metadata.name.context("a name")?;
    shop.story.delete(FORGE, "PullRequest", &request).await?;
    let is_another = |step: &PromotionStep| number(step).is_some_and(|one| Some(one) != number(&first));
    shop.step(BUNDLE, "prod", "has another pull request", is_another).await?;
    let told = shop.events("PullRequestGone").await?;
    ensure!(told.iter().any(|message| message.contains("PR #1 no longer exists")), "{told:?}");
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    shop.close().await
}

async fn a_deleted_gate_of_the_organisation_holds_nobody_and_is_no_evidence(
    world: &World,
) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    shop.org_gate("freeze", "prod", "false", "10s").await?;
    shop.org_gate("open", "prod", "true", "10s").await?;
    shop.next_second().await?;
    pipeline(&shop).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let gates = kardinal_testkit::apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    world
        .eventually("the gate has an instance that is closed", async || {
            let all = Api::<PolicyGate>::namespaced(world.client.clone(), &world.namespace);
            let all = all.list(&ListParams::default()).await?.items;
            let ready = |gate: &PolicyGate| gate.status.as_ref().and_then(|status| status.ready);
            let closed = all.iter().any(|gate| ready(gate) == Some(false));
            Ok(closed.then_some(()).ok_or_else(|| format!("{all:?}")))
        })
        .await?;
    gates.delete("freeze", &DeleteParams::default()).await?;
    // Whoever replaces a gate deletes it for a moment: it holds for a minute more.
    world
        .eventually("the instance tells that its gate is deleted", async || {
            let all = Api::<PolicyGate>::namespaced(world.client.clone(), &world.namespace);
            let all = all.list(&ListParams::default()).await?.items;
            let told = |gate: &PolicyGate| gate.status.as_ref().and_then(|status| status.reason.clone());
            let told: Vec<String> = all.iter().filter_map(told).collect();
            let is_told = told.iter().any(|reason| reason.contains("unless it comes back"));
            Ok(is_told.then_some(()).ok_or_else(|| format!("{told:?}")))
        })
        .await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "it holds until that is certain");
    world.advance(SignedDuration::from_secs(62)).await;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let body = shop.request(BUNDLE, "prod").await?.spec.body;
    ensure!(!body.contains("freeze"), "{body}");
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let step = shop.find_step(BUNDLE, "prod").await?.context("the step")?;
    let evidence = step.status.and_then(|status| status.evidence).context("evidence")?;
    let named: Vec<String> = evidence.policy_gates.into_iter().flatten().map(|gate| gate.name).collect();
    ensure!(named == ["open"], "{named:?}");
    shop.close().await
}

async fn a_gate_of_the_organisation_that_is_replaced_lets_nobody_pass(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["prod"]).await?;
    shop.run_workloads(&["prod"]);
    shop.org_gate("freeze", "prod", "false", "10s").await?;
    shop.next_second().await?;
    pipeline(&shop).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let instance = async |what: &str, wanted: &dyn Fn(&PolicyGate) -> bool| {
        world
            .eventually(what, async || {
                let all = Api::<PolicyGate>::namespaced(world.client.clone(), &world.namespace);
                let all = all.list(&ListParams::default()).await?.items;
                Ok(all.iter().any(wanted).then_some(()).ok_or_else(|| format!("{all:?}")))
            })
            .await
    };
    let reason = |gate: &PolicyGate| gate.status.as_ref().and_then(|status| status.reason.clone());
    let ready = |gate: &PolicyGate| gate.status.as_ref().and_then(|status| status.ready);
    instance("the gate has an instance that is closed", &|gate| ready(gate) == Some(false)).await?;
    // As `kubectl replace --force` does it, only slower.
    let gates = kardinal_testkit::apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    gates.delete("freeze", &DeleteParams::default()).await?;
    let is_told = |gate: &PolicyGate| reason(gate).is_some_and(|said| said.contains("unless it comes back"));
    instance("the instance tells that its gate is deleted", &is_told).await?;
    shop.next_second().await?;
    shop.org_gate("freeze", "prod", "false", "10s").await?;
    instance("the instance asks again", &|gate| !is_told(gate) && ready(gate) == Some(false)).await?;
    world.advance(SignedDuration::from_mins(3)).await;
    instance("it is still closed", &|gate| ready(gate) == Some(false)).await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "the gate is closed");
    shop.close().await
}
