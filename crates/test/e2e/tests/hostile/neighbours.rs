//! A team that names what belongs to another namespace: its repositories on the local forge, its workloads.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::forge::PullRequest;
use kardinal_api::kardinal::{Bundle, PromotionStep};
use kardinal_testkit::shop::{APP, IMAGE, kustomization, push_first};
use kardinal_testkit::world::{in_memory, promotions};
use kardinal_testkit::{Shop, World, apply};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

const STRANGER: &str = "stranger";

fn manifest(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"kardinal.io/pipeline": APP}},
        "spec": spec,
    })
}

/// What the blocked step of a stranger's Pipeline says.
async fn blocked(world: &World, git: &Value, environment: &Value) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(STRANGER.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    let pipeline = manifest("Pipeline", APP, &json!({"git": git, "environments": [environment]}));
    apply(&world.client, STRANGER, &pipeline).await?;
    let images = json!([{"name": APP, "reference": format!("{IMAGE}:1.29.0")}]);
    let bundle = manifest("Bundle", "my-app-v1-29-0", &json!({"artifacts": {"images": images}}));
    apply(&world.client, STRANGER, &bundle).await?;
    let steps: Api<PromotionStep> = Api::namespaced(world.client.clone(), STRANGER);
    world
        .eventually("the stranger's step is blocked", async || {
            let steps = steps.list(&ListParams::default()).await?.items;
            let status = steps.into_iter().filter_map(|step| step.status).next().unwrap_or_default();
            let is_blocked = |name: &str, value: &str| name == "Blocked" && value == "True";
            let blocked = status.conditions.iter().any(|found| is_blocked(&found.type_, &found.status));
            let said = status.message.unwrap_or_default();
            Ok(if blocked { Ok(()) } else { Err(said) })
        })
        .await?;
    let step = steps.list(&ListParams::default()).await?.items.into_iter().next().context("a step")?;
    Ok(step.status.and_then(|status| status.message).unwrap_or_default())
}

#[test]
fn a_step_uses_no_repository_of_another_namespace() -> anyhow::Result<()> {
    for (provider, approval) in [("local", "pr-review"), ("local", "auto"), ("github", "auto")] {
        in_memory(promotions(), async |world| {
            let shop = Shop::open(world, &["dev"]).await?;
            let before = shop.log()?;
            let git = json!({"url": shop.url(&shop.repository), "provider": provider});
            let said = blocked(world, &git, &json!({"name": "dev", "approval": approval})).await?;
            for part in [STRANGER, &world.namespace] {
                ensure!(said.contains(&format!("`{part}`")), "`{part}` is missing in: {said}");
            }
            let requests: Api<PullRequest> = Api::all(world.client.clone());
            ensure!(requests.list(&ListParams::default()).await?.items.is_empty(), "no pull request is made");
            ensure!(shop.log()? == before, "nothing is pushed");
            shop.close().await
        })
        .with_context(|| format!("{provider}, {approval}"))?;
    }
    Ok(())
}

#[test]
fn a_bundle_is_told_nothing_of_the_commits_of_another_namespace() -> anyhow::Result<()> {
    in_memory(promotions(), async |world| {
        let shop = Shop::open(world, &["dev"]).await?;
        let theirs = shop.push(&shop.repository, "main", "secret plans", &[("plan", Some("x"))])?;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(STRANGER.to_owned());
        namespaces.create(&PostParams::default(), &namespace).await?;
        let git = json!({"url": "https://git.invalid/own.git"});
        let pipeline = manifest("Pipeline", APP, &json!({"git": git, "environments": [{"name": "dev"}]}));
        apply(&world.client, STRANGER, &pipeline).await?;
        for (name, sha) in [("there", theirs.as_str()), ("not-there", "0123456789abcdef")] {
            let commit = json!({"repository": shop.url(&shop.repository), "sha": sha});
            let spec = json!({"type": "config", "artifacts": {"gitCommit": commit}});
            apply(&world.client, STRANGER, &manifest("Bundle", name, &spec)).await?;
            let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), STRANGER);
            world
                .eventually("the Bundle is refused", async || {
                    let status = bundles.get(name).await?.status.unwrap_or_default();
                    let said = format!("{status:?}");
                    let refused = said.contains("uses only repositories of its own");
                    Ok(if refused { Ok(()) } else { Err(said) })
                })
                .await?;
        }
        shop.close().await
    })
}

#[test]
fn a_step_is_told_nothing_of_the_workloads_of_another_team() -> anyhow::Result<()> {
    for health in [
        json!({"type": "resource", "resource": {"namespace": "theirs"}}),
        json!({"type": "resource", "resource": {"namespace": "theirs"}, "labelSelector": {"a": "b"}}),
    ] {
        in_memory(promotions(), async |world| {
            let shop = Shop::open(world, &["dev", "theirs"]).await?;
            shop.deploy("theirs", "1.28.0").await?;
            let url = world.workshop.remote(STRANGER, "gitops").url;
            let files = [("environments/dev/kustomization.yaml".to_owned(), kustomization("1.28.0"))];
            push_first(&world.workshop.forge.store.create(STRANGER, "gitops", "main")?, &files)?;
            let environment = json!({"name": "dev", "health": health});
            let said = blocked(world, &json!({"url": url, "provider": "local"}), &environment).await?;
            ensure!(said.contains("`theirs`") && said.contains("--health-namespaces"), "{said}");
            ensure!(!said.contains("1.28.0") && !said.contains("replicas"), "{said}");
            shop.close().await
        })?;
    }
    Ok(())
}
