//! Leaving an environment out that the organisation guards.

use anyhow::{Context as _, ensure};
use kardinal_api::kardinal::BundlePhase;
use kardinal_testkit::shop::fixture;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

use super::words::{GRAPHS, has_version, pipeline, record, why};

in_three_worlds!(promotions: a_skip_needs_permission);

const ALL: [&str; 3] = ["dev", "staging", "prod"];

fn hotfix(value: &str) -> Value {
    json!({"metadata": {"labels": {"hotfix": value}}, "spec": {"intent": {"skip": ["staging"]}}})
}

async fn a_skip_needs_permission(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &ALL).await?;
    shop.run_workloads(&ALL);
    shop.org_gate("tested", "staging", "true", "5m").await?;
    shop.pipeline(pipeline(json!(ALL.map(|name| json!({"name": name}))))).await?;

    // Nobody can permit it.
    shop.release("my-app-v1-29-0", "1.29.0", json!({"spec": {"intent": {"skip": ["staging"]}}})).await?;
    let denied = shop.phase("my-app-v1-29-0", BundlePhase::SkipDenied).await?;
    for part in ["`staging` may not be skipped", "`tested`", "no skip-permission gate"] {
        ensure!(why(&denied).contains(part), "`{part}` is missing in: {}", why(&denied));
    }

    // Somebody could, but does not.
    shop.org_manifest(&fixture("skip-permission-5-6.yaml")?).await?;
    shop.release("my-app-v1-29-1", "1.29.1", hotfix("false")).await?;
    let denied = shop.phase("my-app-v1-29-1", BundlePhase::SkipDenied).await?;
    for part in ["`allow-staging-skip-for-hotfix`", "bundle.labels.hotfix"] {
        ensure!(why(&denied).contains(part), "`{part}` is missing in: {}", why(&denied));
    }
    for name in ["my-app-v1-29-0", "my-app-v1-29-1"] {
        ensure!(
            shop.story.find(GRAPHS, "Graph", name).await?.is_none(),
            "`{name}` was promoted all the same"
        );
    }
    ensure!(shop.log()?.len() == 1, "{:?}", shop.log()?);

    // Permitted: prod follows dev.
    shop.release("my-app-v1-29-2", "1.29.2", hotfix("true")).await?;
    let bundle = shop.phase("my-app-v1-29-2", BundlePhase::Verified).await?;
    ensure!(record(&bundle, "staging").state.is_none(), "{bundle:?}");
    let prod = shop.find_step("my-app-v1-29-2", "prod").await?.context("prod has a step")?;
    let annotations = prod.metadata.annotations.unwrap_or_default();
    ensure!(annotations.get("kardinal.io/upstreams").map(String::as_str) == Some("dev"), "{annotations:?}");
    ensure!(record(&bundle, "dev").verified_at <= record(&bundle, "prod").promoted_at, "{bundle:?}");
    for (name, version) in [("dev", "1.29.2"), ("staging", "1.28.0"), ("prod", "1.29.2")] {
        has_version(&shop, name, version).await?;
    }
    shop.close().await
}
