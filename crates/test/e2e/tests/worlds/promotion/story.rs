//! The specification's own story: its Pipeline, its gates, its Bundle, as they are written there.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, GateResult, PromotionState};
use kardinal_testkit::shop::fixture;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

use super::words::{GRAPHS, gate_is, has_version, looks_like, record, why};

in_three_worlds!(promotions: the_specification);

const BUNDLE: &str = "my-app-v1-29-0-1712567890";
const GRAPH: &str = "my-app-v1-29-0";
const ALL: [&str; 3] = ["dev", "staging", "prod"];

/// Section 7, with a star for what differs from day to day.
const BODY: &str = "\
<!-- kardinal-step: * -->
## Promotion: my-app v1.29.0 to prod

As of * UTC.

### Policy Gates
| Gate | Scope | Status | Detail |
|---|---|---|---|
| no-weekend-deploys | org | PASS | *day *:* UTC |
| staging-soak | org | PASS | Soak: 3*m (min: 30m) |

### Artifact
| Field | Value |
|---|---|
| Image | ghcr.io/myorg/my-app:1.29.0 |
| Digest | sha256:a1b2c3d4 |
| Source Commit | abc123d |
| CI Run | [Build #12345](https://github.com/myorg/my-app/actions/runs/12345) |

### Upstream Verification
| Environment | Verified | Soak |
|---|---|---|
| dev | 3*m ago | n/a |
| staging | 3*m ago | 3*m |

### Changes
ghcr.io/myorg/my-app: 1.28.0 to 1.29.0";

/// The soak gate of section 5.3 as a template.
fn staging_soak() -> anyhow::Result<Value> {
    let mut gate = fixture("policy-gate-5-2.yaml")?;
    gate["metadata"]["name"] = json!("staging-soak");
    gate["spec"] = json!({
        "expression": "bundle.upstreamSoakMinutes >= 30",
        "message": "Bundle must soak in staging for at least 30 minutes",
        "recheckInterval": "1m",
    });
    Ok(gate)
}

async fn the_specification(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.working_day().await;
    shop.run_workloads(&ALL);
    shop.org_manifest(&fixture("policy-gate-5-2.yaml")?).await?;
    shop.org_manifest(&staging_soak()?).await?;
    shop.pipeline(fixture("pipeline-5-1.yaml")?).await?;
    shop.story.apply(&fixture("bundle-5-5.yaml")?).await?;

    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    let soak = gate_is(&shop, "my-app-v1-29-0-staging-soak", false).await?;
    let reason = soak["reason"].as_str().unwrap_or_default();
    ensure!(looks_like(reason, "bundle.upstreamSoakMinutes = 0 (threshold: >= 30)*"), "{reason}");
    let weekend = gate_is(&shop, "my-app-v1-29-0-no-weekend-deploys", true).await?;
    ensure!(weekend["reason"] == "schedule.isWeekend = false", "{weekend}");
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "prod waits for its gates");
    let waiting = shop.bundle(BUNDLE).await?;
    ensure!(
        waiting.status.as_ref().and_then(|status| status.graph_ref.as_deref()) == Some(GRAPH),
        "{waiting:?}"
    );
    world
        .eventually("the Bundle says which gate it waits for", async || {
            let why = why(&shop.bundle(BUNDLE).await?);
            Ok(if why.contains("`staging-soak`") && why.contains("at least 30 minutes") {
                Ok(())
            } else {
                Err(why)
            })
        })
        .await?;

    world.advance(SignedDuration::from_mins(31)).await;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    the_pull_request(&shop).await?;
    the_graph(&shop).await?;
    has_version(&shop, "prod", "1.28.0").await?;
    shop.merge(BUNDLE, "prod", "alice").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    the_evidence(&shop).await?;
    has_version(&shop, "prod", "1.29.0").await?;

    // Rollouts are not installed here: the Deployment tells the health, and somebody is told so.
    shop.told("HealthFallback", "Rollout").await?;
    let step = shop.find_step(BUNDLE, "prod").await?.context("the step stays")?;
    let status = step.status.unwrap_or_default();
    ensure!(status.delegated_to.as_deref() == Some("argoRollouts"), "{status:?}");
    ensure!(status.delegated_status.as_deref() == Some("Healthy"), "{status:?}");
    shop.fsck()?;
    shop.close().await
}

async fn the_pull_request(shop: &Shop<'_>) -> anyhow::Result<()> {
    let requests = shop.pull_requests().await?;
    ensure!(requests.len() == 1, "one environment is reviewed: {requests:?}");
    let spec = &shop.request(BUNDLE, "prod").await?.spec;
    ensure!(spec.title == "[kardinal] Promote my-app-v1-29-0-1712567890 to prod", "{}", spec.title);
    ensure!(spec.labels == ["kardinal", "kardinal/promotion"], "{:?}", spec.labels);
    let body = spec.body.trim_end();
    let wrong = body.lines().zip(BODY.lines()).find(|(line, pattern)| !looks_like(line, pattern));
    ensure!(wrong.is_none() && body.lines().count() == BODY.lines().count(), "{wrong:?} in:\n{body}");
    Ok(())
}

/// The names of section 5.3.
async fn the_graph(shop: &Shop<'_>) -> anyhow::Result<()> {
    let graph = shop.story.find(GRAPHS, "Graph", GRAPH).await?.context("the Graph is there")?;
    ensure!(graph["metadata"]["ownerReferences"][0]["name"] == BUNDLE, "{graph}");
    let nodes = graph["spec"]["nodes"].as_array().cloned().unwrap_or_default();
    let ids: Vec<(&str, &str)> = nodes
        .iter()
        .map(|node| (&node["id"], &node["template"]["metadata"]["name"]))
        .filter_map(|(id, name)| Some((id.as_str()?, name.as_str()?)))
        .collect();
    let wanted = [
        ("bundle", BUNDLE),
        ("dev", "my-app-v1-29-0-dev"),
        ("staging", "my-app-v1-29-0-staging"),
        ("noWeekendDeploys", "my-app-v1-29-0-no-weekend-deploys"),
        ("stagingSoak", "my-app-v1-29-0-staging-soak"),
        ("prod", "my-app-v1-29-0-prod"),
    ];
    ensure!(ids == wanted, "{ids:?}");
    let step = shop.find_step(BUNDLE, "prod").await?.context("the step is there")?;
    ensure!(
        step.spec.required_gates == ["my-app-v1-29-0-no-weekend-deploys", "my-app-v1-29-0-staging-soak"],
        "{:?}",
        step.spec.required_gates
    );
    let labels = step.metadata.labels.unwrap_or_default();
    ensure!(labels.get("kardinal.io/shard").map(String::as_str) == Some("prod-cluster"), "{labels:?}");
    Ok(())
}

/// The record of section 5.5.
async fn the_evidence(shop: &Shop<'_>) -> anyhow::Result<()> {
    let bundle = shop.bundle(BUNDLE).await?;
    let mut before = None;
    for name in ALL {
        let entry = record(&bundle, name);
        ensure!(entry.state == Some(PromotionState::Verified), "{name}: {entry:?}");
        ensure!(entry.promoted_at.is_some() && entry.promoted_at <= entry.verified_at, "{name}: {entry:?}");
        ensure!(before <= entry.promoted_at, "{name} came before its upstream: {entry:?}");
        before = entry.verified_at;
    }
    for name in ["dev", "staging"] {
        let entry = record(&bundle, name);
        ensure!(entry.pr_url.is_none(), "nobody reviews `{name}`: {entry:?}");
        ensure!(entry.evidence.unwrap_or_default().approved_by.unwrap_or_default().is_empty());
    }
    let prod = record(&bundle, "prod");
    ensure!(prod.pr_url.as_deref().is_some_and(|url| url.contains("forge.test")), "{prod:?}");
    let evidence = prod.evidence.unwrap_or_default();
    ensure!(evidence.approved_by.as_deref() == Some(&["alice".to_owned()]), "{evidence:?}");
    let gates = evidence.policy_gates.clone().unwrap_or_default();
    let names: Vec<(&str, GateResult)> = gates.iter().map(|gate| (gate.name.as_str(), gate.result)).collect();
    ensure!(
        names == [("no-weekend-deploys", GateResult::Pass), ("staging-soak", GateResult::Pass)],
        "{names:?}"
    );
    let waited = evidence.gate_duration.as_ref().and_then(|waited| waited.parse().ok()).unwrap_or_default();
    ensure!(waited >= SignedDuration::from_mins(30), "the gates held it for half an hour: {evidence:?}");
    Ok(())
}
