//! Repositories of other shapes, records that nobody reviews, and what is left when a promotion is over.

use anyhow::{Context as _, ensure};
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::shop::{APP, IMAGE, kustomization};
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::json;

use super::words::{GRAPHS, KARDINAL, approve, has_version, pipeline, record};

in_three_worlds!(promotions: helm_values);
in_three_worlds!(promotions: a_branch_for_each_environment);
in_three_worlds!(promotions: a_record_that_nobody_reviews);
in_three_worlds!(promotions: history_ends_and_evidence_stays);

const BUNDLE: &str = "my-app-v1-29-0";

async fn helm_values(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev", "prod"]).await?;
    let dev = format!("image:\n  repository: {IMAGE}\n  tag: \"1.28.0\" # promoted\nreplicas: 2\n");
    let prod = "apps:\n  my-app:\n    tag: 1.28.0\n  other:\n    tag: 1.28.0\n";
    shop.push(
        &shop.repository,
        "main",
        "charts",
        &[
            ("environments/dev/values.yaml", Some(&dev)),
            ("environments/dev/kustomization.yaml", None),
            ("charts/prod/prod.yaml", Some(prod)),
        ],
    )?;
    let own = json!({"strategy": "helm", "helm": {"valuesFile": "prod.yaml", "imagePathTemplate": ".apps.{name}.tag"}});
    shop.pipeline(pipeline(json!([
        {"name": "dev", "update": {"strategy": "helm"}},
        {"name": "prod", "path": "charts/prod", "approval": "pr-review", "update": own},
    ])))
    .await?;
    shop.deploy("dev", "1.29.0").await?;
    shop.deploy("prod", "1.29.0").await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let body = shop.request(BUNDLE, "prod").await?.spec.body;
    ensure!(body.contains("1.28.0 to 1.29.0") || body.contains("charts/prod/prod.yaml"), "{body}");
    approve(&shop, BUNDLE, "prod").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let after = shop.file("environments/dev/values.yaml").await?;
    ensure!(after == dev.replace("1.28.0", "1.29.0"), "{after}");
    let after = shop.file("charts/prod/prod.yaml").await?;
    ensure!(after == prod.replacen("1.28.0", "1.29.0", 1), "{after}");
    shop.close().await
}

async fn a_branch_for_each_environment(world: &World) -> anyhow::Result<()> {
    let shop = Shop::open(world, &["dev", "prod"]).await?;
    for name in ["dev", "prod"] {
        let files = [("kustomization.yaml", Some(kustomization("1.28.0")))];
        let files = files.each_ref().map(|(path, content)| (*path, content.as_deref()));
        shop.push(&shop.repository, &format!("env/{name}"), "the environment", &files)?;
    }
    let mut manifest = pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]));
    manifest["spec"]["git"] =
        json!({"url": shop.url(&shop.repository), "provider": "local", "layout": "branch"});
    shop.story.apply(&manifest).await?;
    shop.deploy("dev", "1.29.0").await?;
    shop.deploy("prod", "1.29.0").await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
    let request = shop.request(BUNDLE, "prod").await?;
    ensure!(request.spec.base == "env/prod", "{request:?}");
    approve(&shop, BUNDLE, "prod").await?;
    shop.phase(BUNDLE, BundlePhase::Verified).await?;
    for name in ["dev", "prod"] {
        let file = shop.file_on(&format!("env/{name}"), "kustomization.yaml").await?;
        ensure!(file == kustomization("1.29.0"), "{name}:\n{file}");
        has_version(&shop, name, "1.28.0").await?;
    }
    ensure!(shop.log()?.len() == 1, "main is nobody's environment: {:?}", shop.log()?);
    shop.fsck()?;
    shop.close().await
}

async fn a_record_that_nobody_reviews(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    shop.pipeline(pipeline(json!([{"name": "dev", "pr": true}]))).await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    let bundle = shop.phase(BUNDLE, BundlePhase::Verified).await?;
    let request = shop.request(BUNDLE, "dev").await?;
    let status = request.status.unwrap_or_default();
    ensure!(status.state == Some(PullRequestState::Merged), "{status:?}");
    let entry = record(&bundle, "dev");
    ensure!(entry.pr_url.is_some(), "{entry:?}");
    let evidence = entry.evidence.unwrap_or_default();
    ensure!(evidence.approved_by.as_deref() == Some(&[]), "nobody has approved it: {evidence:?}");
    has_version(&shop, "dev", "1.29.0").await?;
    shop.close().await
}

async fn history_ends_and_evidence_stays(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["dev"]).await?;
    shop.run_workloads(&["dev"]);
    let mut manifest = pipeline(json!([{"name": "dev", "approval": "pr-review"}]));
    manifest["spec"]["historyLimit"] = json!(1);
    shop.pipeline(manifest).await?;
    let releases = [(BUNDLE, "1.29.0"), ("my-app-v1-30-0", "1.30.0"), ("my-app-v1-31-0", "1.31.0")];
    for (name, version) in releases {
        shop.release(name, version, json!({})).await?;
        approve(&shop, name, "dev").await?;
        shop.phase(name, BundlePhase::Verified).await?;
    }
    // One finished Bundle besides the present one may stay; of the others nothing is left but the pull request.
    for (kind, name) in [("Bundle", BUNDLE.to_owned()), ("PromotionStep", format!("{BUNDLE}-dev"))] {
        shop.story.gone(KARDINAL, kind, &name).await?;
    }
    shop.story.gone(GRAPHS, "Graph", BUNDLE).await?;
    ensure!(
        shop.request(BUNDLE, "dev").await?.spec.comments.is_empty(),
        "a merged pull request is not closed again"
    );
    let branches = shop.branches()?;
    ensure!(!branches.contains(&shop.branch(BUNDLE, "dev")), "{branches:?}");

    // The Graph of a verified Bundle may go at any time; what it has brought stays on record.
    let last = "my-app-v1-31-0";
    let before = record(&shop.bundle(last).await?, "dev");
    ensure!(before.evidence.is_some(), "{before:?}");
    shop.story.delete(GRAPHS, "Graph", last).await?;
    shop.story.gone(GRAPHS, "Graph", last).await?;
    shop.story.gone(KARDINAL, "PromotionStep", &format!("{last}-dev")).await?;
    let bundle = shop.story.find(KARDINAL, "Bundle", last).await?.context("the Bundle stays")?;
    ensure!(bundle["status"]["phase"] == "Verified", "{bundle}");
    ensure!(record(&shop.bundle(last).await?, "dev") == before, "{bundle}");
    has_version(&shop, "dev", "1.31.0").await?;
    ensure!(bundle["metadata"]["labels"]["kardinal.io/pipeline"] == APP, "{bundle}");
    shop.close().await
}
