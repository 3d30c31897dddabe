//! The controllers. Each kind has one file that reads out the sentence
//! observe → check → plan → act → report; the pure words live in `kardinal-planner`.
//!
//! Controllers know a `kube::Client`, a clock, repositories and forges, and nothing about what is behind them.

pub mod forges;
pub mod metrics;

mod bundle;
mod clusters;
mod driver;
mod facets;
mod forge;
mod graph;
mod objects;
mod pipeline;
mod policy_gate;
mod promotion_step;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::SignedDuration;
use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::{Clock, Kinds, Watches, Writer};
use kardinal_git::Repositories;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use crate::forges::{Forges, RealForges};
pub use crate::metrics::Metrics;
use clusters::Clusters;
use driver::Listener;
use forges::Credentials;

/// How long to wait after a write of our own bookkeeping failed.
const RETRY: SignedDuration = SignedDuration::from_secs(2);

/// How far a record may be behind what it tells of, so that several changes are written down at once.
const PACE: SignedDuration = SignedDuration::from_millis(250);

/// Who runs Graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphController {
    /// This process.
    #[default]
    Embedded,
    /// Somebody else's controller serves the group; ours stays off.
    External,
}

/// Which steps this process carries out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shards {
    /// All of them.
    #[default]
    All,
    /// Those without a shard; agents carry out the rest.
    Unsharded,
    /// Those of one shard: this process is an agent, and does nothing else.
    Only(String),
}

/// What the controllers are told at start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who runs Graphs.
    pub graph_controller: GraphController,
    /// How many objects of a kind are worked on at the same time.
    pub concurrency: usize,
    /// Where the organisation's gates are.
    pub policy_namespaces: Vec<String>,
    /// Which steps are carried out here.
    pub shards: Shards,
    /// Whether Bundles are promoted at all; otherwise this process only runs Graphs.
    pub promotions: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            graph_controller: GraphController::Embedded,
            concurrency: 8,
            policy_namespaces: vec!["platform-policies".to_owned()],
            shards: Shards::All,
            promotions: true,
        }
    }
}

/// The world outside the cluster.
#[derive(Clone)]
pub struct Outside {
    /// Git.
    pub repositories: Arc<dyn Repositories>,
    /// Pull requests.
    pub forges: Arc<dyn Forges>,
    /// The local forge, when this process serves it.
    pub forge: Option<LocalForge>,
    /// The program that `kustomize-build` runs.
    pub kustomize: Option<PathBuf>,
    /// For custom tasks.
    pub http: reqwest::Client,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// The repositories that this process serves.
#[derive(Clone)]
pub struct LocalForge {
    /// Where they are.
    pub store: Arc<kardinal_forge::Store>,
    /// What their URLs begin with.
    pub url: String,
}

/// What every controller is given.
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client: kube::Client,
    pub(crate) watches: Arc<Watches>,
    pub(crate) writer: Writer,
    pub(crate) policy_namespaces: Vec<String>,
    pub(crate) shards: Shards,
    pub(crate) clusters: Clusters,
    pub(crate) credentials: Credentials,
    pub(crate) repositories: Arc<dyn Repositories>,
    pub(crate) forges: Arc<dyn Forges>,
    pub(crate) kustomize: Option<PathBuf>,
    pub(crate) http: reqwest::Client,
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// Whether this process carries a step out.
    pub(crate) fn serves(&self, step: &PromotionStep) -> bool {
        let shard = step.metadata.labels.as_ref().and_then(|labels| labels.get("kardinal.io/shard"));
        match (&self.shards, shard) {
            (Shards::All, _) | (Shards::Unsharded, None) => true,
            (Shards::Only(own), Some(shard)) => own == shard,
            (Shards::Unsharded, Some(_)) | (Shards::Only(_), None) => false,
        }
    }
}

/// Running controllers.
pub struct Controllers {
    stop: CancellationToken,
    tasks: TaskTracker,
    watches: Arc<Watches>,
    steps: Option<Arc<driver::Driver<promotion_step::Controller>>>,
    forge: Option<Arc<driver::Driver<forge::Controller>>>,
}

impl Controllers {
    /// Starts the controllers on this cluster. The kinds must be served already.
    pub fn start(
        client: kube::Client,
        clock: Arc<dyn Clock>,
        settings: &Settings,
        outside: Outside,
    ) -> Controllers {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (watches, changes) = Watches::new(client.clone(), kinds.clone(), facets::of, stop.clone());
        let (remote, remote_changes) = mpsc::unbounded_channel();
        let context = Arc::new(Context {
            clock,
            writer: Writer::new(client.clone(), kinds),
            client,
            watches: watches.clone(),
            policy_namespaces: settings.policy_namespaces.clone(),
            shards: settings.shards.clone(),
            clusters: Clusters::new(remote, stop.clone()),
            credentials: Credentials::default(),
            repositories: outside.repositories,
            forges: outside.forges,
            kustomize: outside.kustomize,
            http: outside.http,
            metrics: outside.metrics,
        });
        let workers = settings.concurrency;
        // A step waits for other machines, so many of them may be under way.
        let steps = settings.promotions.then(|| {
            driver::spawn(promotion_step::Controller::new(context.clone()), workers * 8, &stop, &tasks)
        });
        let mut listeners: Vec<Arc<dyn Listener>> = Vec::new();
        let plans_here = !matches!(settings.shards, Shards::Only(_));
        if plans_here && settings.graph_controller == GraphController::Embedded {
            listeners.push(driver::spawn(graph::Controller::new(context.clone()), workers, &stop, &tasks));
        }
        listeners.extend(steps.clone().map(|steps| steps as Arc<dyn Listener>));
        if settings.promotions && plans_here {
            listeners.push(driver::spawn(bundle::Controller::new(context.clone()), workers, &stop, &tasks));
            listeners.push(driver::spawn(
                policy_gate::Controller::new(context.clone()),
                workers,
                &stop,
                &tasks,
            ));
            listeners.push(driver::spawn(pipeline::Controller::new(context.clone()), 1, &stop, &tasks));
        }
        let forge = outside.forge.map(|local| {
            driver::spawn(forge::Controller::new(context.clone(), local), workers, &stop, &tasks)
        });
        listeners.extend(forge.clone().map(|forge| forge as Arc<dyn Listener>));
        // Other clusters' workloads concern steps only.
        let elsewhere = steps.clone().map(|steps| steps as Arc<dyn Listener>).into_iter().collect();
        for delivery in [driver::deliver(listeners, changes), driver::deliver(elsewhere, remote_changes)] {
            let stop = stop.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = delivery => {}
                }
            });
        }
        Controllers { stop, tasks, watches, steps, forge }
    }

    /// A forge told that something has happened in one of these repositories, known by its URLs.
    pub fn repository_changed(&self, urls: &[String]) {
        let Some(steps) = &self.steps else { return };
        for key in steps.controller().steps_of(urls) {
            steps.look_at(key);
        }
    }

    /// Somebody has pushed to a repository of the local forge.
    pub fn pushed(&self, namespace: &str, repository: &str) {
        if let Some(forge) = &self.forge {
            forge.look_at((namespace.to_owned(), repository.to_owned()));
        }
    }

    /// Whether only pull requests and kardinal may change a branch of the local forge.
    pub fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        self.forge.as_ref().is_none_or(|forge| forge.controller().protects(namespace, repository, branch))
    }

    /// Ends all work and waits for it. A pass that has begun is completed: no write is cut in half.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.watches.finished().await;
    }
}
