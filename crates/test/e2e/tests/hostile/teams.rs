//! One team's calls hang for ever: the others do not notice, and the program still ends when it is asked to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::kardinal::BundlePhase;
use kardinal_controllers::Settings;
use kardinal_testkit::requests::{Fate, Kind, Requests};
use kardinal_testkit::shop::{APP, IMAGE};
use kardinal_testkit::world::{in_memory_overheard, promotions};
use kardinal_testkit::{Shop, World, apply};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const KARDINAL: &str = "kardinal.io/v1alpha1";
const NOISY: &str = "noisy";
/// So many promotions hang; a worker's whole allowance is 8 of them.
const HANGING: usize = 24;

fn one_worker() -> Settings {
    Settings { concurrency: 1, ..promotions() }
}

fn pipeline(name: &str, url: &str) -> Value {
    json!({
        "apiVersion": KARDINAL,
        "kind": "Pipeline",
        "metadata": {"name": name},
        "spec": {
            "git": {"url": url, "branch": "main", "provider": "local"},
            "environments": [{"name": "dev"}],
        },
    })
}

fn bundle(pipeline: &str) -> Value {
    json!({
        "apiVersion": KARDINAL,
        "kind": "Bundle",
        "metadata": {"name": format!("{pipeline}-v1"), "labels": {"kardinal.io/pipeline": pipeline}},
        "spec": {"artifacts": {"images": [{"name": APP, "reference": format!("{IMAGE}:1.29.0")}]}},
    })
}

/// A team in a namespace of its own, whose pushes are never answered; waits until as many as may hang, hang.
async fn hang(world: &World, requests: &Requests) -> anyhow::Result<()> {
    requests.judged_by(|heard| match heard.what.starts_with("GIT commit") && heard.what.contains(NOISY) {
        true => Fate::Silent,
        false => Fate::Pass,
    });
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NOISY.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    for at in 0..HANGING {
        let name = format!("{NOISY}-{at}");
        apply(&world.client, NOISY, &pipeline(&name, &world.workshop.remote(NOISY, "gitops").url)).await?;
        apply(&world.client, NOISY, &bundle(&name)).await?;
    }
    let hanging = AtomicUsize::new(0);
    world
        .eventually("as many hang as may", async || {
            let new = requests.take().iter().filter(|heard| heard.contains("GIT commit")).count();
            let seen = hanging.fetch_add(new, Ordering::Relaxed) + new;
            Ok(if seen >= 8 { Ok(()) } else { Err(seen.to_string()) })
        })
        .await
}

#[test]
fn one_team_whose_calls_hang_cannot_stop_another() -> anyhow::Result<()> {
    in_memory_overheard(one_worker(), async |world, requests| {
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        hang(world, requests).await?;
        shop.pipeline(pipeline(APP, "")).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
        shop.close().await
    })
}

/// A namespace in which every write that mentions this is never answered; waits until one hangs.
async fn deaf(world: &World, requests: &Requests, write: &'static str) -> anyhow::Result<()> {
    requests.judged_by(move |heard| {
        let hangs = heard.kind == Kind::Write && heard.what.contains(NOISY) && heard.what.contains(write);
        if hangs { Fate::Silent } else { Fate::Pass }
    });
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(NOISY.to_owned());
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

async fn hangs(world: &World, requests: &Requests, write: &str) -> anyhow::Result<()> {
    world
        .eventually("a write hangs", async || {
            let heard = requests.take();
            let hangs = heard.iter().any(|heard| heard.contains(NOISY) && heard.contains(write));
            Ok(if hangs { Ok(()) } else { Err(format!("{heard:?}")) })
        })
        .await
}

#[test]
fn one_team_whose_gates_hang_cannot_stop_the_gates_of_another() -> anyhow::Result<()> {
    in_memory_overheard(one_worker(), async |world, requests| {
        deaf(world, requests, "/policygates/").await?;
        let gate = json!({
            "apiVersion": KARDINAL,
            "kind": "PolicyGate",
            "metadata": {"name": "always"},
            "spec": {"expression": "true", "appliesTo": ["dev"]},
        });
        apply(&world.client, NOISY, &gate).await?;
        hangs(world, requests, "/policygates/").await?;
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        apply(&world.client, &world.namespace, &gate).await?;
        shop.pipeline(pipeline(APP, "")).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
        shop.close().await
    })
}

#[test]
fn a_bundle_reads_the_gates_of_nobody_but_its_own_and_those_of_the_organisation() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        let mut pipeline = pipeline(APP, "");
        // What cannot be a namespace must not become a request.
        let added = ["shared", "shared/bundles?a=", "..", "%2e%2e"];
        pipeline["spec"]["policyNamespaces"] = json!(added);
        shop.pipeline(pipeline).await?;
        requests.take();
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
        let mut lists: Vec<String> =
            requests.take().into_iter().filter(|heard| heard.contains("labelSelector")).collect();
        lists.sort();
        let namespaces = ["platform-policies", "shared", &world.namespace];
        ensure!(lists.len() == namespaces.len(), "{lists:#?}");
        for (heard, namespace) in lists.iter().zip(namespaces) {
            let path = format!("GET /apis/{KARDINAL}/namespaces/{namespace}/policygates?");
            ensure!(heard.starts_with(&path), "{lists:#?}");
        }
        shop.close().await
    })
}

#[test]
fn an_end_that_is_asked_for_comes_within_seconds_whatever_hangs() -> anyhow::Result<()> {
    in_memory_overheard(one_worker(), async |world, requests| {
        hang(world, requests).await?;
        let before = tokio::time::Instant::now();
        world.stop_controllers().await;
        let took = before.elapsed();
        ensure!(took <= Duration::from_secs(10), "it took {took:?}");
        // What was cut off is taken up again by the next life.
        requests.judged_by(|_| Fate::Pass);
        world.start_controllers().await?;
        world
            .eventually("what hung goes on", async || {
                let pushed = requests.take().iter().any(|heard| heard.contains("GIT commit"));
                Ok(if pushed { Ok(()) } else { Err("nothing is pushed".to_owned()) })
            })
            .await
    })
}
