//! Tasks whose URLs lead to the controller's own machine, or to the service that hands out its credentials, and
//! Secrets that are to be sent where their owner does not want them.

use std::net::TcpListener;

use anyhow::{Context as _, ensure};
use kardinal_api::kardinal::PromotionStep;
use kardinal_reach::{Hosts, Policy};
use kardinal_testkit::shop::APP;
use kardinal_testkit::world::{in_memory, promotions};
use kardinal_testkit::{Shop, World};
use serde_json::{Value, json};

fn pipeline(url: &str) -> Value {
    json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "dev", "steps": [
            {"uses": "git-clone"},
            {"uses": "kustomize-set-image"},
            {"uses": "ask", "config": {"url": url, "secretRef": {"name": "ours", "key": "token"}}},
            {"uses": "git-commit"},
            {"uses": "git-push"},
            {"uses": "health-check"},
        ]}]},
    })
}

fn message(step: &PromotionStep) -> String {
    step.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
}

/// A Secret that its owner lets go to these hosts.
fn secret(hosts: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "ours", "annotations": {"kardinal.io/hosts": hosts}},
        "data": {"token": "czNjcmV0"},
    })
}

/// What the step says about a task at this URL.
async fn told(world: &World, policy: Policy, url: &str, hosts: &str) -> anyhow::Result<String> {
    world.stop_controllers().await;
    world.workshop.reach_only(policy);
    world.start_controllers().await?;
    let shop = Shop::open(world, &["dev"]).await?;
    shop.story.apply(&secret(hosts)).await?;
    shop.pipeline(pipeline(url)).await?;
    shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
    blocked(&shop).await
}

/// What the step says when it is blocked.
async fn blocked(shop: &Shop<'_>) -> anyhow::Result<String> {
    let step = shop
        .step("my-app-v1-29-0", "dev", "is blocked", |step| {
            let conditions = step.status.iter().flat_map(|status| &status.conditions);
            conditions.into_iter().any(|condition| condition.type_ == "Blocked" && condition.status == "True")
        })
        .await?;
    Ok(message(&step))
}

#[test]
fn a_task_on_a_cluster_reaches_neither_the_machine_nor_its_metadata() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    for url in [
        format!("http://127.0.0.1:{port}/x"),
        format!("http://2130706433:{port}/x"),
        format!("http://[::ffff:127.0.0.1]:{port}/x"),
        format!("http://localhost:{port}/x"),
        "http://169.254.169.254/latest/meta-data/iam".to_owned(),
        "http://metadata.google.internal/x".to_owned(),
    ] {
        in_memory(promotions(), async |world| {
            let said = told(world, Policy::cluster(Hosts::default()), &url, "*.example.com").await?;
            ensure!(said.contains("may not be reached") && said.contains("--allowed-hosts"), "{url}: {said}");
            ensure!(!said.contains("s3cret"), "{said}");
            Ok(())
        })
        .with_context(|| url.clone())?;
    }
    ensure!(listener.accept().is_err(), "nobody was called");
    Ok(())
}

#[test]
fn only_the_hosts_of_the_allow_list_are_reached() -> anyhow::Result<()> {
    let only = Hosts::parse("ci.example.com").map_err(anyhow::Error::msg)?;
    in_memory(promotions(), async |world| {
        let said = told(world, Policy::cluster(only), "https://evil.example/x", "evil.example").await?;
        ensure!(said.contains("`evil.example` is not among the hosts"), "{said}");
        Ok(())
    })
}

#[test]
fn a_secret_is_not_sent_where_its_annotation_does_not_say() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let url = format!("http://{}/x", listener.local_addr()?);
    in_memory(promotions(), async |world| {
        let said = told(world, Policy::machine(Hosts::default()), &url, "github.com,*.example.com").await?;
        for part in ["`ours`", "`127.0.0.1`", "kardinal.io/hosts", "github.com"] {
            ensure!(said.contains(part), "`{part}` is missing in: {said}");
        }
        Ok(())
    })?;
    ensure!(listener.accept().is_err(), "nobody was called");
    Ok(())
}

#[test]
fn the_credentials_of_a_repository_are_not_sent_where_their_annotation_does_not_say() -> anyhow::Result<()> {
    let stranger = TcpListener::bind("127.0.0.1:0")?;
    stranger.set_nonblocking(true)?;
    let url = format!("http://{}/team/app.git", stranger.local_addr()?);
    in_memory(promotions(), async |world| {
        let shop = Shop::open(world, &["dev"]).await?;
        shop.story.apply(&secret("github.com,*.example.com")).await?;
        let git = json!({"url": url, "provider": "gitea", "secretRef": {"name": "ours"}});
        shop.story
            .apply(&json!({
                "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": APP},
                "spec": {"git": git, "environments": [{"name": "dev"}]},
            }))
            .await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        let said = blocked(&shop).await?;
        for part in ["`ours`", "`127.0.0.1`", "kardinal.io/hosts", "github.com"] {
            ensure!(said.contains(part), "`{part}` is missing in: {said}");
        }
        ensure!(!said.contains("s3cret"), "{said}");
        Ok(())
    })?;
    ensure!(stranger.accept().is_err(), "nobody was called");
    Ok(())
}

#[test]
fn a_url_that_hides_where_it_leads_gets_no_token() -> anyhow::Result<()> {
    let (own, stranger) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    stranger.set_nonblocking(true)?;
    let (own, port) = (own.local_addr()?, stranger.local_addr()?.port());
    in_memory(promotions(), async |world| {
        let shop = Shop::open(world, &["dev"]).await?;
        shop.story.apply(&secret(&own.to_string())).await?;
        let git = json!({"url": format!("http://{own}/team/app.git"), "secretRef": {"name": "ours"}});
        shop.story
            .apply(&json!({
                "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": APP},
                "spec": {"git": git, "environments": [{"name": "dev"}]},
            }))
            .await?;
        let hidden = format!("http://{own}\\@127.0.0.1:{port}/x.git");
        shop.story
            .apply(&json!({
                "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "hidden", "labels": {"kardinal.io/pipeline": APP}},
                "spec": {"type": "config", "artifacts": {"gitCommit": {"repository": hidden, "sha": "abc123def456"}}},
            }))
            .await?;
        world
            .eventually("the Bundle says what is wrong with the URL", async || {
                let bundle = shop.story.find("kardinal.io/v1alpha1", "Bundle", "hidden").await?;
                let told = bundle.unwrap_or_default()["status"].to_string();
                Ok(if told.contains("which a URL cannot have") { Ok(()) } else { Err(told) })
            })
            .await
    })?;
    ensure!(stranger.accept().is_err(), "nobody was called");
    Ok(())
}
