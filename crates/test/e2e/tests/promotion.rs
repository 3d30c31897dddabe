//! From a Bundle's creation to its verified arrival, in all three worlds.

use anyhow::ensure;
use kardinal_api::kardinal::BundlePhase;
use kardinal_testkit::shop::APP;
use kardinal_testkit::{Shop, World, in_three_worlds};
use serde_json::{Value, json};

in_three_worlds!(promotions: automatic_environments);

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
