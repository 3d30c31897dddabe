//! From a Bundle's creation to its verified arrival, in all three worlds.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

use anyhow::ensure;
use jiff::SignedDuration;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::APP;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

in_three_worlds!(promotions: automatic_environments);
in_three_worlds!(promotions: people_decide);

fn pipeline(environments: Value) -> Value {
    json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": environments},
    })
}

/// Two environments without people: both are written, one after the other, and verified.
async fn automatic_environments(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev", "staging"]).await?;
    shop.run_workloads(&["dev", "staging"]);
    shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "staging"}]))).await?;
    shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
    let bundle = shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
    let environments = bundle.status.unwrap_or_default().environments;
    for name in ["dev", "staging"] {
        let record = environments.get(name).cloned().unwrap_or_default();
        ensure!(record.verified_at.is_some() && record.commit.is_some(), "{record:?}");
        let file = shop.file(&format!("environments/{name}/kustomization.yaml")).await?;
        ensure!(file.contains("newTag: \"1.29.0\" # promoted"), "{file}");
    }
    let log = shop.log()?;
    ensure!(
        log == [
            "[kardinal] Promote my-app-v1-29-0 to staging",
            "[kardinal] Promote my-app-v1-29-0 to dev",
            "the beginning",
        ],
        "{log:?}"
    );
    shop.fsck()?;
    shop.close().await
}

/// The specification's three environments: two org gates, a pull request that somebody merges, evidence at the end.
async fn people_decide(world: &World) -> anyhow::Result<()> {
    const BUNDLE: &str = "my-app-v1-29-0-1712567890";
    let all = ["dev", "staging", "prod"];
    let mut shop = Shop::open(world, &all).await?;
    shop.run_workloads(&all);
    shop.org_gate("business-hours", "prod", "schedule.hour >= 0", "5m").await?;
    shop.org_gate("staging-soak", "prod", "bundle.upstreamSoakMinutes >= 30", "1m").await?;
    let review = json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]);
    shop.pipeline(pipeline(review)).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.step(BUNDLE, "staging", "is verified", |step| {
        step.status.as_ref().is_some_and(|status| status.verified_at.is_some())
    })
    .await?;
    let soak = "my-app-v1-29-0-staging-soak";
    world
        .eventually("the soak gate is closed", async || {
            let gate = shop.story.find("kardinal.io/v1alpha1", "PolicyGate", soak).await?;
            let status = gate.map(|gate| gate["status"].clone()).unwrap_or_default();
            Ok(if status["ready"] == false { Ok(()) } else { Err(status.to_string()) })
        })
        .await?;
    ensure!(shop.find_step(BUNDLE, "prod").await?.is_none(), "prod waits for its gates");
    world.advance(SignedDuration::from_mins(31)).await;
    let waiting = shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let requests = shop.pull_requests().await?;
    ensure!(requests.len() == 1, "{requests:?}");
    let body = requests[0].spec.body.clone();
    for part in ["## Promotion: my-app v1.29.0 to prod", "| staging-soak | org | PASS |", "1.28.0 to 1.29.0"]
    {
        ensure!(body.contains(part), "`{part}` is missing in:\n{body}");
    }
    ensure!(waiting.status.unwrap_or_default().pr_url.is_some());
    let file = shop.file("environments/prod/kustomization.yaml").await?;
    ensure!(file.contains("1.28.0"), "nothing reaches prod before the merge: {file}");
    shop.merge(BUNDLE, "prod", "alice").await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let record = bundle.status.unwrap_or_default().environments.remove("prod").unwrap_or_default();
    let evidence = record.evidence.unwrap_or_default();
    ensure!(evidence.approved_by.as_deref() == Some(&["alice".to_owned()]), "{evidence:?}");
    ensure!(evidence.policy_gates.as_ref().map(Vec::len) == Some(2), "{evidence:?}");
    ensure!(shop.file("environments/prod/kustomization.yaml").await?.contains("1.29.0"));
    shop.fsck()?;
    shop.close().await
}
