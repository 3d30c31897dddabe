//! Graphs that people write themselves: those of section 5.3, with and without `propagateWhen`.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::fixture;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

use super::words::{GRAPHS, approve, gate_is, has_version, message, record};

in_three_worlds!(promotions: a_graph_by_hand);
in_three_worlds!(promotions: a_graph_by_hand_without_propagation);

const BUNDLE: &str = "my-app-v1-29-0-1712567890";
const ALL: [&str; 3] = ["dev", "staging", "prod"];

/// The manifest with what only the scenario knows: the repository and the Bundle's uid.
async fn graph(shop: &Shop<'_>, name: &str) -> anyhow::Result<Value> {
    let mut graph = fixture(name)?;
    let uid = shop.bundle(BUNDLE).await?.metadata.uid.context("it has a uid")?;
    graph["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
    let nodes = graph["spec"]["nodes"].as_array_mut().context("it has nodes")?;
    for git in nodes.iter_mut().filter_map(|node| node.pointer_mut("/template/spec/git")) {
        *git = json!({"url": shop.url(&shop.repository), "provider": "local"});
    }
    Ok(graph)
}

async fn a_graph_by_hand(world: &World) -> anyhow::Result<()> {
    carried(world, "graph-5-3-gated.yaml").await
}

/// Nothing in this Graph holds prod back, so the step itself must.
async fn a_graph_by_hand_without_propagation(world: &World) -> anyhow::Result<()> {
    carried(world, "graph-5-3.yaml").await
}

async fn carried(world: &World, manifest: &str) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.working_day().await;
    shop.run_workloads(&ALL);
    shop.story.apply(&fixture("bundle-5-5.yaml")?).await?;
    shop.phase(BUNDLE, BundlePhase::Available).await?;
    shop.story.apply(&graph(&shop, manifest).await?).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;

    let weekend = gate_is(&shop, "my-app-v1-29-0-no-weekend-deploys", true).await?;
    ensure!(weekend["reason"] == "schedule.isWeekend = false", "{weekend}");
    let soak = gate_is(&shop, "my-app-v1-29-0-staging-soak", false).await?;
    let reason = soak["reason"].as_str().unwrap_or_default().to_owned();
    ensure!(reason.contains("bundle.upstreamSoakMinutes"), "{reason}");
    if let Some(prod) = shop.find_step(BUNDLE, "prod").await? {
        let state = prod.status.as_ref().and_then(|status| status.state);
        ensure!(state.is_none() || state == Some(PromotionState::Pending), "{prod:?}");
    }
    has_version(&shop, "prod", "1.28.0").await?;
    ensure!(shop.pull_requests().await?.is_empty(), "prod is not asked for before its gates are open");

    world.advance(SignedDuration::from_mins(31)).await;
    approve(&shop, BUNDLE, "prod").await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for name in ALL {
        has_version(&shop, name, "1.29.0").await?;
        ensure!(record(&bundle, name).verified_at.is_some(), "{bundle:?}");
    }
    let evidence = record(&bundle, "prod").evidence.unwrap_or_default();
    let gates: Vec<String> = evidence
        .policy_gates
        .unwrap_or_default()
        .into_iter()
        .map(|gate| format!("{} {:?}", gate.name, gate.result))
        .collect();
    ensure!(
        gates == ["my-app-v1-29-0-no-weekend-deploys Pass", "my-app-v1-29-0-staging-soak Pass"],
        "{gates:?}"
    );
    let status = bundle.status.unwrap_or_default();
    ensure!(status.graph_ref.as_deref() == Some("my-app-v1-29-0"), "{status:?}");
    let prod = shop.find_step(BUNDLE, "prod").await?.context("the step stays")?;
    ensure!(message(&prod).contains("is Available"), "{prod:?}");
    shop.told("HealthFallback", "Application").await?;
    shop.story.condition("my-app-v1-29-0", "Ready", "True", "Ready").await?;
    ensure!(shop.story.api(GRAPHS, "Graph").list(&kube::api::ListParams::default()).await?.items.len() == 1);
    shop.close().await
}
