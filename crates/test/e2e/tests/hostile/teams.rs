//! One team's calls hang for ever: the others do not notice, and the program still ends when it is asked to.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use http::StatusCode;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_controllers::Settings;
use kardinal_testkit::outside::Seedling;
use kardinal_testkit::requests::{Fate, Kind, Requests};
use kardinal_testkit::shop::{APP, IMAGE, kustomization};
use kardinal_testkit::world::{in_memory_overheard, in_memory_real_time, promotions};
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

/// So many gates apply to one environment of a team; their instances could all be written at once.
const GATES: usize = 150;
/// So many writes of a namespace's Graphs are under way at a time.
const WRITES: usize = 32;
/// A Graph with so many nodes is huge.
const HUGE: usize = 256;

#[test]
fn one_team_with_very_many_gates_has_few_writes_under_way() -> anyhow::Result<()> {
    in_memory_overheard(one_worker(), async |world, requests| {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        requests.judged_by(move |heard| {
            let instance = heard.what.contains("/policygates/") && !heard.what.contains("/status");
            if heard.kind == Kind::Write && heard.what.contains(NOISY) && instance {
                counted.fetch_add(1, Ordering::Relaxed);
                return Fate::Silent;
            }
            Fate::Pass
        });
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NOISY.to_owned());
        namespaces.create(&PostParams::default(), &namespace).await?;
        for at in 0..GATES {
            let mut gate = always();
            gate["metadata"]["name"] = json!(format!("always-{at}"));
            apply(&world.client, NOISY, &gate).await?;
        }
        apply(&world.client, NOISY, &pipeline(NOISY, &world.workshop.remote(NOISY, "gitops").url)).await?;
        apply(&world.client, NOISY, &bundle(NOISY)).await?;
        world
            .eventually("as many writes are under way as may", async || {
                let begun = begun.load(Ordering::Relaxed);
                Ok(if begun >= WRITES { Ok(()) } else { Err(begun.to_string()) })
            })
            .await?;
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        shop.pipeline(pipeline(APP, "")).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
        let begun = begun.load(Ordering::Relaxed);
        ensure!(begun == WRITES, "{begun} writes of one team are under way");
        shop.close().await
    })
}

fn always() -> Value {
    json!({
        "apiVersion": KARDINAL,
        "kind": "PolicyGate",
        "metadata": {"name": "always"},
        "spec": {"expression": "true", "appliesTo": ["dev"]},
    })
}

#[test]
fn a_graph_that_the_server_does_not_take_is_told_and_not_offered_for_ever() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let offered = Arc::new(AtomicUsize::new(0));
        let counted = offered.clone();
        requests.judged_by(move |heard| {
            if heard.what.starts_with("POST ") && heard.what.contains("/graphs") {
                counted.fetch_add(1, Ordering::Relaxed);
                return Fate::Answered(StatusCode::PAYLOAD_TOO_LARGE);
            }
            Fate::Pass
        });
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        shop.pipeline(pipeline(APP, "")).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), &world.namespace);
        world
            .eventually("the Bundle tells it", async || {
                let bundle = bundles.get("my-app-v1-29-0").await?;
                let said = serde_json::to_string(&bundle.status)?;
                let told = said.contains("GraphRefused") && said.contains("does not take the Graph");
                Ok(if told { Ok(()) } else { Err(said) })
            })
            .await?;
        world.advance(SignedDuration::from_mins(5)).await;
        let times = offered.load(Ordering::Relaxed);
        ensure!((2..=12).contains(&times), "it was offered {times} times in five minutes");
        requests.judged_by(|_| Fate::Pass);
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
        let gate = always();
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
fn one_team_whose_graphs_hang_cannot_stop_the_graphs_of_another() -> anyhow::Result<()> {
    in_memory_overheard(one_worker(), async |world, requests| {
        deaf(world, requests, "/configmaps/").await?;
        let graph = graph("one", json!([{"id": "one", "template": number("one", "1")}]));
        apply(&world.client, NOISY, &graph).await?;
        hangs(world, requests, "/configmaps/").await?;
        apply(&world.client, &world.namespace, &graph).await?;
        let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
        world
            .eventually("the other Graph goes on", async || {
                let found = configs.get_opt("one").await?;
                Ok(found.map(|_| ()).ok_or_else(|| "it has written nothing".to_owned()))
            })
            .await
    })
}

#[test]
fn one_teams_huge_graphs_are_looked_at_one_after_the_other() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        requests.judged_by(move |heard| {
            let is_one = heard.kind == Kind::Write && heard.what.contains(NOISY);
            if is_one && heard.what.contains("/configmaps/") {
                counted.fetch_add(1, Ordering::Relaxed);
                return Fate::Silent;
            }
            Fate::Pass
        });
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NOISY.to_owned());
        Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &namespace).await?;
        for name in ["first", "second", "third"] {
            let texts = (0..HUGE).map(|at| json!({"id": format!("text{at}"), "def": {"text": "x"}}));
            let nodes: Vec<Value> =
                texts.chain([json!({"id": "one", "template": number(name, "1")})]).collect();
            apply(&world.client, NOISY, &graph(name, json!(nodes))).await?;
        }
        world
            .eventually("one of them writes", async || {
                Ok(if begun.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err("not yet".to_owned()) })
            })
            .await?;
        let small = graph("one", json!([{"id": "one", "template": number("one", "1")}]));
        apply(&world.client, &world.namespace, &small).await?;
        let configs: Api<ConfigMap> = Api::namespaced(world.client.clone(), &world.namespace);
        world
            .eventually("the Graph of another team goes on", async || {
                let found = configs.get_opt("one").await?;
                Ok(found.map(|_| ()).ok_or_else(|| "it has written nothing".to_owned()))
            })
            .await?;
        let begun = begun.load(Ordering::Relaxed);
        ensure!(begun == 1, "{begun} huge Graphs of one team are under way");
        Ok(())
    })
}

fn graph(name: &str, nodes: Value) -> Value {
    json!({
        "apiVersion": "experimental.kro.run/v1alpha1",
        "kind": "Graph",
        "metadata": {"name": name},
        "spec": {"nodes": nodes},
    })
}

fn number(name: &str, number: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"num": number}})
}

/// So many writes would be made if nothing kept the Graphs from it; then the test ends them.
const ENDLESS: usize = 600;

#[test]
fn two_graphs_that_answer_each_other_for_ever_come_to_a_pace() -> anyhow::Result<()> {
    in_memory_overheard(promotions(), async |world, requests| {
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        requests.judged_by(move |heard| {
            let is_one = heard.kind == Kind::Write && heard.what.contains("/configmaps/");
            let before = counted.fetch_add(usize::from(is_one), Ordering::Relaxed);
            if is_one && before > ENDLESS { Fate::Silent } else { Fate::Pass }
        });
        apply(&world.client, &world.namespace, &number("pong", "0")).await?;
        for (own, other) in [("ping", "pong"), ("pong", "ping")] {
            let next = number(own, "${string(int(other.data.num) + 1)}");
            let seen = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": other}});
            let nodes = json!([
                {"id": "other", "ref": seen},
                {"id": "own", "lifecycle": {"apply": "Force"}, "template": next},
            ]);
            apply(&world.client, &world.namespace, &graph(own, nodes)).await?;
        }
        world.advance(SignedDuration::from_mins(2)).await;
        let made = writes.load(Ordering::Relaxed);
        ensure!((40..=120).contains(&made), "{made} writes in two minutes");
        world.advance(SignedDuration::from_mins(1)).await;
        let later = writes.load(Ordering::Relaxed) - made;
        ensure!((2..=26).contains(&later), "{later} writes in a minute after that");
        Ok(())
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

/// What of a team hangs outside, where no request of a controller can be held up instead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hanging {
    /// Custom tasks whose callee takes the call and says nothing.
    Tasks,
    /// Clusters that take the connection and say nothing.
    Clusters,
    /// Programs that render and never end.
    Renderings,
}

/// Somebody who takes every connection and never says a word, and a program that notes that it was started and never ends.
struct Silence {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    folder: tempfile::TempDir,
}

impl Silence {
    async fn begin() -> anyhow::Result<Silence> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                open.push(connection);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Silence { address, calls, folder: tempfile::tempdir()? })
    }

    fn program(&self) -> anyhow::Result<PathBuf> {
        let program = self.folder.path().join("kustomize");
        std::fs::write(&program, "#!/bin/sh\necho hangs >> \"${0%/*}/started\"\nexec sleep 600\n")?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        Ok(program)
    }

    /// How many hang by now, or have.
    fn count(&self, what: Hanging) -> usize {
        let lines = |file: &Path| std::fs::read_to_string(file).unwrap_or_default().lines().count();
        match what {
            Hanging::Tasks | Hanging::Clusters => self.calls.load(Ordering::Relaxed),
            Hanging::Renderings => lines(&self.folder.path().join("started")),
        }
    }

    /// The environment of a Pipeline that hangs.
    fn environment(&self, what: Hanging, pipeline: &str) -> Value {
        let edits = ["git-clone", "kustomize-set-image", "kustomize-build", "git-commit", "git-push"];
        match what {
            Hanging::Tasks => {
                let config = json!({"url": format!("http://{}/", self.address), "timeout": "1h"});
                json!({"name": "dev", "steps": [{"uses": "ask", "config": config}]})
            }
            Hanging::Clusters => {
                let health = json!({"type": "resource", "cluster": pipeline});
                json!({"name": "dev", "steps": [{"uses": "health-check"}], "health": health})
            }
            Hanging::Renderings => json!({"name": "dev", "steps": edits.map(|uses| json!({"uses": uses}))}),
        }
    }

    /// A Secret that leads to the cluster that says nothing.
    fn secret(&self, name: &str) -> Value {
        let config = json!({
            "clusters": [{"name": "c", "cluster": {"server": format!("https://{}", self.address)}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        });
        let data = json!({"kubeconfig": config.to_string()});
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data})
    }

    /// A team in a namespace of its own whose promotions hang; waits until as many as may hang, hang.
    async fn spread(&self, world: &World, what: Hanging) -> anyhow::Result<()> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NOISY.to_owned());
        Api::<Namespace>::all(world.client.clone()).create(&PostParams::default(), &namespace).await?;
        let file = ("environments/dev/kustomization.yaml".to_owned(), kustomization("1.28.0"));
        let seedling = Seedling::of(&[file])?;
        for at in 0..HANGING {
            // Each has a repository of its own, in which nobody waits for another one.
            let name = format!("{NOISY}-{at}");
            seedling.plant(&world.workshop, NOISY, &name)?;
            apply(&world.client, NOISY, &self.secret(&name)).await?;
            let mut manifest = pipeline(&name, &world.workshop.remote(NOISY, &name).url);
            manifest["spec"]["environments"] = json!([self.environment(what, &name)]);
            apply(&world.client, NOISY, &manifest).await?;
            apply(&world.client, NOISY, &bundle(&name)).await?;
        }
        world
            .eventually("as many hang as may", async || {
                let count = self.count(what);
                Ok(if count >= 8 { Ok(()) } else { Err(count.to_string()) })
            })
            .await
    }
}

/// Time is real: a virtual one would run out at once for whoever waits for a socket or a program.
fn cannot_stop_another(what: Hanging) -> anyhow::Result<()> {
    in_memory_real_time(one_worker(), async |world, _| {
        let silence = Silence::begin().await?;
        if what == Hanging::Renderings {
            world.stop_controllers().await;
            world.workshop.render_with(silence.program()?);
            world.start_controllers().await?;
        }
        let mut shop = Shop::open(world, &["dev"]).await?;
        shop.run_workloads(&["dev"]);
        silence.spread(world, what).await?;
        shop.pipeline(pipeline(APP, "")).await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;
        // Only a failing test waits that long.
        let ended = tokio::time::timeout(Duration::from_secs(60), world.stop_controllers()).await;
        ensure!(ended.is_ok(), "the controllers do not end");
        shop.close().await
    })
}

#[test]
fn one_team_whose_tasks_hang_cannot_stop_another() -> anyhow::Result<()> {
    cannot_stop_another(Hanging::Tasks)
}

#[test]
fn one_team_whose_clusters_say_nothing_cannot_stop_another() -> anyhow::Result<()> {
    cannot_stop_another(Hanging::Clusters)
}

#[test]
fn one_team_whose_renderings_hang_cannot_stop_another() -> anyhow::Result<()> {
    cannot_stop_another(Hanging::Renderings)
}
