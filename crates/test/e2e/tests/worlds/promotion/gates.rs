//! Gates that come, go and are passed while a Bundle is on its way.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, PolicyGate, PromotionState};
use kardinal_promotion::intent::{self, Override};
use kardinal_testkit::requests::Fate;
use kardinal_testkit::{Shop, World, in_three_worlds, world};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::words::{KARDINAL, gate_is, has_version, pipeline, record};

in_three_worlds!(promotions: new_gates_are_for_later_bundles);
in_three_worlds!(promotions: a_gate_cannot_be_deleted_away);
in_three_worlds!(promotions: somebody_passes_a_gate);
in_three_worlds!(promotions: a_gate_behind_an_environment);
in_three_worlds!(promotions: a_finished_graph_stays_ready);
in_three_worlds!(promotions: a_recheck_interval_below_the_minimum_is_refused_with_the_reason);

const BUNDLE: &str = "my-app-v1-29-0";
const SOAK: &str = "my-app-v1-29-0-staging-soak";
const ALL: [&str; 2] = ["staging", "prod"];

/// A Bundle whose way into prod is barred for half an hour.
async fn soaking<'a>(world: &'a World) -> anyhow::Result<Shop<'a>> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.org_gate("staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30", "1m").await?;
    shop.pipeline(pipeline(json!([{"name": "staging"}, {"name": "prod"}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    gate_is(&shop, SOAK, false).await?;
    Ok(shop)
}

/// The watches of different kinds do not tell in order: that of the gates tells nothing at all here.
#[test]
fn a_gate_holds_before_its_watch_tells_of_it() -> anyhow::Result<()> {
    world::in_memory_overheard(world::promotions(), async |world, requests| {
        world.stop_controllers().await;
        requests.take();
        let of_gates = |what: &str| what.contains("/policygates?") && what.contains("watch=true");
        requests.judged_by(move |heard| if of_gates(heard.what) { Fate::Silent } else { Fate::Pass });
        world.start_controllers().await?;
        let begins = "the gates are listed, and their watch begins";
        world
            .eventually(begins, async || {
                Ok(requests.take().iter().any(|what| of_gates(what)).then_some(()).ok_or_else(String::new))
            })
            .await?;
        let shop = soaking(world).await?;
        ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "prod waits for its gate");
        Ok(())
    })
}

async fn new_gates_are_for_later_bundles(world: &World) -> anyhow::Result<()> {
    let shop = soaking(world).await?;
    // Times of creation count whole seconds, and one of the same second may be the earlier one.
    shop.next_second().await?;
    shop.org_gate("never", "prod", "false", "1m").await?;
    world.advance(SignedDuration::from_mins(31)).await;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let gates = record(&bundle, "prod").evidence.unwrap_or_default().policy_gates.unwrap_or_default();
    ensure!(gates.len() == 1, "{gates:?}");
    shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
    gate_is(&shop, "my-app-v1-30-0-never", false).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    shop.close().await
}

async fn a_gate_cannot_be_deleted_away(world: &World) -> anyhow::Result<()> {
    let shop = soaking(world).await?;
    let uid = |gate: Option<serde_json::Value>| gate.map(|gate| gate["metadata"]["uid"].clone());
    let before = uid(shop.story.find(KARDINAL, "PolicyGate", SOAK).await?);
    shop.story.delete(KARDINAL, "PolicyGate", SOAK).await?;
    world
        .eventually("there is another gate", async || {
            let now = uid(shop.story.find(KARDINAL, "PolicyGate", SOAK).await?);
            Ok(if now.is_some() && now != before { Ok(()) } else { Err(format!("{now:?}")) })
        })
        .await?;
    gate_is(&shop, SOAK, false).await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "the gate was deleted, not passed");
    world.advance(SignedDuration::from_mins(31)).await;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    shop.close().await
}

async fn somebody_passes_a_gate(world: &World) -> anyhow::Result<()> {
    let shop = soaking(world).await?;
    let gates: Api<PolicyGate> = Api::namespaced(world.client.clone(), &world.namespace);
    let instance = gates.get(SOAK).await?;
    let (namespace, name) = intent::overridden_in(&instance).context("it is the organisation's")?;
    let gates: Api<PolicyGate> = Api::namespaced(world.client.clone(), namespace);
    let bundle = shop.bundle(BUNDLE).await?;
    let wish = Override {
        reason: "the fix cannot wait",
        who: "alice",
        stage: Some("prod"),
        expires: None,
        place: None,
        only: Some(&bundle),
    };
    // The patch holds only for the gate as it was seen, and the gate is evaluated all the time: try again, as the
    // command line does.
    world
        .eventually("the override is taken", async || {
            let patch = intent::override_gate(&gates.get(name).await?, &wish, world.now())?;
            match gates.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Err(status.message)),
                done => {
                    done?;
                    Ok(Ok(()))
                }
            }
        })
        .await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    let gates = record(&bundle, "prod").evidence.unwrap_or_default().policy_gates.unwrap_or_default();
    let reasons: Vec<String> = gates.into_iter().filter_map(|gate| gate.reason).collect();
    ensure!(reasons.iter().any(|reason| reason.contains("the fix cannot wait")), "{reasons:?}");
    shop.close().await
}

/// `when: post-deploy`: asked once the environment is verified, and what comes after it waits.
async fn a_gate_behind_an_environment(world: &World) -> anyhow::Result<()> {
    const GATE: &str = "my-app-v1-29-0-proven";
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.org_manifest(&json!({
        "apiVersion": KARDINAL,
        "kind": "PolicyGate",
        "metadata": {"name": "proven", "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "staging"}},
        "spec": {"expression": "bundle.upstreamSoakMinutes >= 10", "recheckInterval": "1m", "when": "post-deploy"},
    }))
    .await?;
    shop.pipeline(pipeline(json!([{"name": "staging"}, {"name": "prod"}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    let status = gate_is(&shop, GATE, false).await?;
    ensure!(
        status["reason"].as_str().is_some_and(|reason| reason.contains("(threshold: >= 10)")),
        "{status}"
    );
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "prod waits for the gate behind staging");
    world.advance(SignedDuration::from_mins(11)).await;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    has_version(&shop, "prod", "1.29.0").await?;
    shop.close().await
}

/// Nobody asks the gates of a finished promotion any more, and how old their answers are matters to nobody.
async fn a_finished_graph_stays_ready(world: &World) -> anyhow::Result<()> {
    let mut shop = soaking(world).await?;
    world.advance(SignedDuration::from_mins(31)).await;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    shop.story.condition(BUNDLE, "Ready", "True", "Ready").await?;
    shop.stop_workloads();
    world.advance(SignedDuration::from_hours(2)).await;
    // Whoever looks at the Graph afresh comes to the same end.
    world.stop_controllers().await;
    world.start_controllers().await?;
    shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
    shop.phase("my-app-v1-30-0", BundlePhase::Promoting).await?;
    shop.story.condition(BUNDLE, "Ready", "True", "Ready").await?;
    shop.close().await
}

async fn a_recheck_interval_below_the_minimum_is_refused_with_the_reason(
    world: &World,
) -> anyhow::Result<()> {
    let shop = Shop::open(world, &[]).await?;
    for interval in ["0s", "9s", "999ms"] {
        let refused = shop.org_gate("hasty", "prod", "true", interval).await;
        let said = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(said.contains("write `10s` or more"), "{interval}: {said}");
    }
    shop.org_gate("steady", "prod", "true", "10s").await?;
    shop.close().await
}
