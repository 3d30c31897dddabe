//! Repositories and tasks that are small to write and would take gigabytes to carry out.

use anyhow::ensure;
use kardinal_api::kardinal::PromotionState;
use kardinal_testkit::Shop;
use kardinal_testkit::shop::{APP, fixture};
use kardinal_testkit::world::{in_memory, promotions};
use serde_json::{Value, json};

const CONFIG: &str = "app-config";
const NAME: &str = "my-app-config-update-1712567890";

fn pipeline(tasks: &[Value]) -> Value {
    let clone = [json!({"uses": "git-clone"})];
    let rest = ["git-commit", "git-push", "health-check"].map(|uses| json!({"uses": uses}));
    let steps: Vec<&Value> = clone.iter().chain(tasks).chain(&rest).collect();
    json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "dev", "steps": steps}]},
    })
}

/// What the failed step of a Bundle says.
async fn failed(shop: &Shop<'_>, bundle: &str) -> anyhow::Result<String> {
    let step = shop.state(bundle, "dev", PromotionState::Failed).await?;
    Ok(step.status.and_then(|status| status.message).unwrap_or_default())
}

#[test]
fn a_commit_of_many_large_files_is_refused_by_number() -> anyhow::Result<()> {
    in_memory(promotions(), async |world| {
        let shop = Shop::open(world, &["dev"]).await?;
        shop.found(CONFIG, &[("a.yaml".to_owned(), "a: 1\n".to_owned())]).await?;
        let heavy = "x".repeat(4 << 20);
        let names: Vec<String> = (0..20).map(|at| format!("f{at:02}")).collect();
        let files: Vec<_> = names.iter().map(|name| (name.as_str(), Some(heavy.as_str()))).collect();
        let sha = shop.push(CONFIG, "main", "heavy", &files)?;
        shop.pipeline(pipeline(&[json!({"uses": "config-merge", "config": {"strategy": "overlay"}})]))
            .await?;
        let mut bundle = fixture("config-bundle-3-16.yaml")?;
        bundle["spec"]["artifacts"]["gitCommit"] = json!({"repository": shop.url(CONFIG), "sha": sha});
        shop.story.apply(&bundle).await?;
        let said = failed(&shop, NAME).await?;
        ensure!(said.contains("67108864 bytes") && said.contains("smaller changes"), "{said}");
        shop.close().await
    })
}

#[test]
fn a_replacement_that_multiplies_its_match_is_refused_by_number() -> anyhow::Result<()> {
    in_memory(promotions(), async |world| {
        let shop = Shop::open(world, &["dev"]).await?;
        let text = format!("a: {}\n", "x".repeat(1 << 20));
        shop.push(&shop.repository, "main", "long", &[("environments/dev/long.yaml", Some(&text))])?;
        let multiply = json!({"uses": "replace-text", "config": {
            "file": "long.yaml", "pattern": "(x+)", "with": "${1}".repeat(1000),
        }});
        shop.pipeline(pipeline(&[multiply])).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        let said = failed(&shop, "my-app-v1-29-0").await?;
        ensure!(said.contains("more than 4194304 bytes"), "{said}");
        shop.close().await
    })
}
