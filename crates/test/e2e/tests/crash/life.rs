//! The life of three environments: a Bundle goes all the way, the next one fails at its end and is taken back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use kardinal_api::forge::{Desired, PullRequest, PullRequestState};
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_testkit::outside::Seedling;
use kardinal_testkit::outside::workloads::{Rollout, Workloads};
use kardinal_testkit::requests::Requests;
use kardinal_testkit::shop::{APP, IMAGE, POLICIES, git, kustomization};
use kardinal_testkit::world::{in_memory_overheard, promotions};
use kardinal_testkit::{Story, World};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const KARDINAL: &str = "kardinal.io/v1alpha1";
const REPOSITORY: &str = "gitops";
const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
const GOOD: &str = "my-app-1";
const BAD: &str = "my-app-2";
const BACK: &str = "my-app-v1-0-0-rollback-0b24ce38";
/// Nothing in this life takes longer, however often the world fails.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What a life came to, and what it took. Each test looks at its own part.
#[allow(dead_code, reason = "two tests share this, and neither needs all of it")]
pub(crate) struct Lived {
    pub(crate) seen: Value,
    pub(crate) writes: usize,
    pub(crate) plain: usize,
    pub(crate) watches: usize,
}

/// The repository that every life begins with.
pub(crate) fn seedling() -> anyhow::Result<Seedling> {
    let file = |name: &str| (format!("environments/{name}/kustomization.yaml"), kustomization("1.28.0"));
    Seedling::of(&ENVIRONMENTS.map(file))
}

/// Lives once. `disturb` says what goes wrong, at the beginning and in every life after a death.
pub(crate) fn live(seedling: &Seedling, disturb: impl Fn(&Requests)) -> anyhow::Result<Lived> {
    let mut lived = None;
    in_memory_overheard(promotions(), async |world, requests| {
        disturb(requests);
        seedling.plant(&world.workshop, &world.namespace, REPOSITORY)?;
        prepare(world).await?;
        let place = (world.namespace.as_str(), REPOSITORY);
        let runs = |environment: &str, version: &str| match (environment, version) {
            ("prod", "2.0.0") => Rollout::Never,
            _ => Rollout::After(Duration::ZERO),
        };
        let workloads = Workloads::new(world.client.clone(), &world.workshop, place, &ENVIRONMENTS, runs)?;
        let seen = tokio::select! {
            seen = life(world, requests) => seen?,
            died = supervise(world, requests, &disturb) => died?,
            died = people(world) => died?,
            () = workloads.run() => Value::Null,
        };
        let (writes, plain, watches) = (requests.writes(), requests.plain(), requests.watches());
        lived = Some(Lived { seen, writes, plain, watches });
        Ok(())
    })?;
    lived.context("a life leaves something behind")
}

/// Lives all these lives, several at a time; each must come to the same.
pub(crate) fn compare<T: Sync + std::fmt::Debug>(
    lives: &[T],
    undisturbed: &Value,
    live: impl Fn(&T) -> anyhow::Result<Lived> + Sync,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let work = || {
        while let Some(life) = lives.get(next.fetch_add(1, Ordering::SeqCst)) {
            let told = live(life).and_then(|lived| {
                ensure!(lived.seen == *undisturbed, "{:#}\ninstead of {undisturbed:#}", lived.seen);
                Ok(())
            });
            if let Err(error) = told {
                next.store(lives.len(), Ordering::SeqCst);
                *failed.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(error.context(format!("{life:?}")));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// Namespaces, repository, gates and the Pipeline.
async fn prepare(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(world.client.clone());
    for name in ENVIRONMENTS.into_iter().chain([POLICIES]) {
        let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    let repository = json!({"apiVersion": "forge.kardinal.io/v1alpha1", "kind": "Repository", "metadata": {"name": REPOSITORY}, "spec": {}});
    story.apply(&repository).await?;
    let gates: Api<kardinal_api::kardinal::PolicyGate> = Api::namespaced(world.client.clone(), POLICIES);
    let gate = json!({
        "apiVersion": KARDINAL,
        "kind": "PolicyGate",
        "metadata": {"name": "soak", "labels": {
            "kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/type": "gate",
        }},
        "spec": {"expression": "bundle.upstreamSoakMinutes >= 1", "recheckInterval": "1m"},
    });
    gates.patch("soak", &PatchParams::apply("scenario"), &Patch::Apply(&gate)).await?;
    let url = world.workshop.remote(&world.namespace, REPOSITORY).url;
    let pipeline = json!({
        "apiVersion": KARDINAL,
        "kind": "Pipeline",
        "metadata": {"name": APP},
        "spec": {"git": {"url": url, "branch": "main", "provider": "local"}, "environments": [
            {"name": "dev"}, {"name": "staging"},
            {"name": "prod", "approval": "pr-review", "health": {"timeout": "1m"}},
        ]},
    });
    story.apply(&pipeline).await.map(drop)
}

async fn life(world: &World, requests: &Requests) -> anyhow::Result<Value> {
    release(world, GOOD, "1.0.0").await?;
    phase(world, GOOD, BundlePhase::Verified).await?;
    release(world, BAD, "2.0.0").await?;
    phase(world, BAD, BundlePhase::Failed).await?;
    phase(world, BACK, BundlePhase::Verified).await?;
    tokio::time::sleep(Duration::from_secs(300)).await;
    requests.take();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let written: Vec<String> = requests.take().into_iter().filter(|what| !what.starts_with("GET ")).collect();
    ensure!(written.is_empty(), "at rest nothing is written, but: {written:?}");
    snapshot(world).await
}

async fn release(world: &World, name: &str, version: &str) -> anyhow::Result<()> {
    let bundle = json!({
        "apiVersion": KARDINAL,
        "kind": "Bundle",
        "metadata": {"name": name, "labels": {"kardinal.io/pipeline": APP}},
        "spec": {"artifacts": {"images": [{"name": APP, "reference": format!("{IMAGE}:{version}")}]}},
    });
    Story::new(world).apply(&bundle).await.map(drop)
}

async fn phase(world: &World, name: &str, phase: BundlePhase) -> anyhow::Result<()> {
    let api: Api<Bundle> = Api::namespaced(world.client.clone(), &world.namespace);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let status = api.get_opt(name).await?.and_then(|bundle| bundle.status).unwrap_or_default();
        if status.phase == Some(phase) {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            bail!("`{name}` is not {phase:?}: {}", serde_json::to_string(&status)?);
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

/// Whoever reviews merges what is open in prod.
async fn people(world: &World) -> anyhow::Result<Value> {
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), &world.namespace);
    loop {
        for request in api.list(&ListParams::default()).await?.items {
            let status = request.status.clone().unwrap_or_default();
            // Elsewhere a pull request is a mere record, which the controllers merge by themselves.
            if request.spec.head.ends_with("/prod")
                && status.state == Some(PullRequestState::Open)
                && status.mergeable == Some(true)
                && request.spec.desired() == Desired::Open
            {
                let patch = json!({"spec": {"desired": "merged", "mergedBy": "alice"}});
                let name = request.metadata.name.unwrap_or_default();
                api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

async fn supervise(
    world: &World,
    requests: &Requests,
    disturb: &impl Fn(&Requests),
) -> anyhow::Result<Value> {
    loop {
        requests.dead().await;
        world.stop_controllers().await;
        requests.revive();
        disturb(requests);
        world.start_controllers().await?;
    }
}

/// Everything that a user can see, without what differs from run to run.
async fn snapshot(world: &World) -> anyhow::Result<Value> {
    let bundles: Api<Bundle> = Api::namespaced(world.client.clone(), &world.namespace);
    let requests: Api<PullRequest> = Api::namespaced(world.client.clone(), &world.namespace);
    let bundles: Vec<Value> =
        bundles.list(&ListParams::default()).await?.items.iter().map(told_of_bundle).collect();
    let requests = requests.list(&ListParams::default()).await?.items;
    let mut requests: Vec<Value> = requests.iter().map(told_of_request).collect();
    requests.sort_by_key(Value::to_string);
    let path = world.workshop.forge.store.path(&world.namespace, REPOSITORY)?;
    let mut files = Vec::new();
    for name in ENVIRONMENTS {
        files.push(git(&path, &["show", &format!("main:environments/{name}/kustomization.yaml")])?);
    }
    let subjects = git(&path, &["log", "--format=%s", "--topo-order", "main"])?;
    let branches = git(&path, &["for-each-ref", "--format=%(refname)"])?;
    git(&path, &["fsck", "--strict"])?;
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    Ok(json!({
        "bundles": bundles, "pull requests": requests, "files": files,
        "subjects": lines(&subjects), "branches": lines(&branches),
    }))
}

fn told_of_bundle(bundle: &Bundle) -> Value {
    let status = bundle.status.clone().unwrap_or_default();
    let environments: Vec<Value> = status
        .environments
        .iter()
        .map(|(name, record)| {
            let evidence = record.evidence.clone().unwrap_or_default();
            let gates: Vec<Value> = evidence
                .policy_gates
                .iter()
                .flatten()
                .map(|gate| json!({"name": gate.name, "result": gate.result}))
                .collect();
            json!({
                "name": name, "state": record.state, "promoted": record.promoted_at.is_some(),
                "verified": record.verified_at.is_some(), "commit": record.commit.is_some(),
                "message": record.message, "pull request": record.pr_url, "gates": gates,
                "approved by": evidence.approved_by,
            })
        })
        .collect();
    json!({"name": bundle.metadata.name, "phase": status.phase, "environments": environments})
}

fn told_of_request(request: &PullRequest) -> Value {
    let status = request.status.clone().unwrap_or_default();
    let spec = &request.spec;
    json!({
        "number": status.number, "state": status.state, "merged by": status.merged_by, "head": spec.head,
        "base": spec.base, "title": spec.title, "labels": spec.labels, "files": status.files,
        "comments": spec.comments.len(),
    })
}
