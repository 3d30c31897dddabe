//! Repositories and tasks that are small to write and would take gigabytes to carry out.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::ensure;
use kardinal_api::kardinal::PromotionState;
use kardinal_forge::{Credentials, Guard, Identity, RefChange, Store};
use kardinal_testkit::Shop;
use kardinal_testkit::shop::{APP, fixture, git};
use kardinal_testkit::world::{in_memory, in_memory_real_time, promotions};
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

/// What the step of a Bundle says that goes on when somebody has acted.
async fn blocked(shop: &Shop<'_>, bundle: &str) -> anyhow::Result<String> {
    let step = shop
        .step(bundle, "dev", "is blocked", |step| {
            let conditions = step.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|condition| condition.type_ == "Blocked" && condition.status == "True")
        })
        .await?;
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

/// A file of a megabyte, and folders that include each other twice: 256 times that megabyte, each time several times in memory.
fn doubling() -> Vec<(String, String)> {
    let mut files = vec![
        ("l0/large".to_owned(), "x: y\n".repeat(200_000)),
        (
            "l0/kustomization.yaml".to_owned(),
            "configMapGenerator:\n- name: large\n  files: [large]\n".to_owned(),
        ),
        ("kustomization.yaml".to_owned(), "resources: [l8]\n".to_owned()),
    ];
    for level in 1..=8 {
        files.push((format!("l{level}/kustomization.yaml"), "resources: [a, b]\n".to_owned()));
        for half in ["a", "b"] {
            let text = format!("resources: [../../l{}]\nnamePrefix: {half}-\n", level - 1);
            files.push((format!("l{level}/{half}/kustomization.yaml"), text));
        }
    }
    files.iter().map(|(path, text)| (format!("environments/dev/{path}"), text.clone())).collect()
}

/// With the real kustomize: it builds as ever, and one that takes gigabytes ends at its limit.
#[test]
fn a_kustomization_that_includes_itself_over_and_over_is_refused_by_number() -> anyhow::Result<()> {
    let Some(program) = kardinal_testkit::kustomize::program()? else { return Ok(()) };
    in_memory_real_time(promotions(), async |world, _| {
        world.stop_controllers().await;
        world.workshop.render_with(program);
        world.start_controllers().await?;
        let shop = Shop::open(world, &["dev"]).await?;
        shop.pipeline(pipeline(&[
            json!({"uses": "kustomize-set-image"}),
            json!({"uses": "kustomize-build"}),
        ]))
        .await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.deploy("dev", "1.29.0").await?;
        shop.state("my-app-v1-29-0", "dev", PromotionState::Verified).await?;
        let files = doubling();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), Some(text.as_str()))).collect();
        shop.push(&shop.repository, "main", "doubling", &files)?;
        shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
        let said = failed(&shop, "my-app-v1-30-0").await?;
        ensure!(said.contains("536870912 bytes of memory"), "{said}");
        shop.close().await
    })
}

const TOKEN: &str = "a-token-of-the-team";

/// Who has the token may do everything.
struct Team;

impl Guard for Team {
    fn authenticate(&self, _: &str, _: &str, credentials: &Credentials) -> Option<Identity> {
        (credentials.secret == TOKEN).then(|| Identity { name: "team".to_owned(), trusted: false })
    }

    fn protected(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn pushed(&self, _: &str, _: &str, _: &[RefChange]) {}
}

/// A repository whose one file is `size` zeros: little in a pack, and much when it is unpacked.
fn zeros(folder: &Path, size: u64) -> anyhow::Result<Arc<Store>> {
    let store = Arc::new(Store::new(folder.join("elsewhere")));
    let bare = store.create("team", "zeros", "main")?;
    let file = folder.join("zeros");
    File::create(&file)?.set_len(size)?;
    // Git writes what is so large into a pack as it reads it.
    git(&bare, &["config", "core.bigFileThreshold", "1m"])?;
    git(&bare, &["config", "core.compression", "1"])?;
    let blob = git(&bare, &["hash-object", "-w", &file.display().to_string()])?;
    let entry = format!("100644,{},environments/dev/kustomization.yaml", blob.trim());
    git(&bare, &["update-index", "--add", "--cacheinfo", &entry])?;
    let tree = git(&bare, &["write-tree"])?;
    let commit = git(&bare, &["commit-tree", tree.trim(), "-m", "zeros"])?;
    git(&bare, &["update-ref", "refs/heads/main", commit.trim()])?;
    let packs = std::fs::read_dir(bare.join("objects/pack"))?.collect::<Result<Vec<_>, _>>()?;
    let sizes = packs.iter().map(|pack| Ok(pack.metadata()?.len())).collect::<std::io::Result<Vec<_>>>()?;
    let packed: u64 = sizes.iter().sum();
    ensure!((1..size / 100).contains(&packed), "the pack has {packed} bytes");
    Ok(store)
}

/// Over HTTP, as from a forge of somebody else's.
#[test]
fn a_small_pack_that_unpacks_to_hundreds_of_megabytes_is_refused_by_number() -> anyhow::Result<()> {
    const SIZE: u64 = 256 << 20;
    let folder = tempfile::tempdir()?;
    let store = zeros(folder.path(), SIZE)?;
    in_memory_real_time(promotions(), async |world, _| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/git/team/zeros.git", listener.local_addr()?);
        let router = kardinal_forge::router(store.clone(), Arc::new(Team));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let shop = Shop::open(world, &["dev"]).await?;
        shop.story
            .apply(&json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "team"}, "stringData": {"token": TOKEN},
            }))
            .await?;
        let usual = [json!({"uses": "kustomize-set-image"})];
        let mut bomb = pipeline(&usual);
        bomb["metadata"]["name"] = json!("zeros");
        bomb["spec"]["git"] = json!({"url": url, "provider": "gitea", "secretRef": {"name": "team"}});
        shop.story.apply(&bomb).await?;
        let of_zeros = json!({"metadata": {"labels": {"kardinal.io/pipeline": "zeros"}}});
        shop.release("zeros-v1-29-0", "1.29.0", of_zeros).await?;
        // Another promotion goes on meanwhile.
        shop.pipeline(pipeline(&usual)).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.deploy("dev", "1.29.0").await?;
        shop.state("my-app-v1-29-0", "dev", PromotionState::Verified).await?;
        let said = blocked(&shop, "zeros-v1-29-0").await?;
        ensure!(said.contains(&format!("{SIZE} bytes")) && said.contains("--git-object-limit"), "{said}");
        serving.abort();
        shop.close().await
    })
}
