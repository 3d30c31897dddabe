//! The controllers. All of them speak the sentence observe → check → plan → act → report, which `reconcile/pass.rs` has once; the
//! pure words live in the crate of their dialect.
//!
//! Controllers know a `kube::Client`, a clock, repositories and forges, and nothing about what is behind them.

pub mod forges;
pub mod metrics;

mod context;
mod dialect;
mod forge;
mod graph;
mod promotion;
mod reach;
mod reconcile;
mod replica;

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::SignedDuration;
use kardinal_cluster::{Clock, Leadership};
use kardinal_git::Repositories;
use kardinal_reach::Policy;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use kardinal_planner::graph::GraphScope;
pub use kardinal_promotion::shard::Shards;

use crate::context::Context;
use crate::dialect::{Dialect, Started, Starter};
use crate::forge::dialect::Forge;
pub use crate::forges::{Forges, RealForges};
pub use crate::metrics::Metrics;
pub use crate::reach::Resolver;
pub use crate::replica::Replica;

/// What this program promotes with, each with its own controllers.
const DIALECTS: [Dialect; 3] =
    [graph::dialect::DIALECT, promotion::dialect::DIALECT, forge::dialect::DIALECT];

/// How long to wait after a write of our own bookkeeping failed.
const RETRY: SignedDuration = SignedDuration::from_secs(2);

/// How far a record may be behind what it tells of, so that several changes are written down at once.
const PACE: SignedDuration = SignedDuration::from_millis(500);

/// Who runs Graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphController {
    /// This process.
    #[default]
    Embedded,
    /// Somebody else's controller serves the group; ours stays off.
    External,
}

/// What the controllers are told at start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who runs Graphs.
    pub graph_controller: GraphController,
    /// How far Graphs reach that name no ServiceAccount.
    pub graph_scope: GraphScope,
    /// How many objects of a kind are worked on at the same time.
    pub concurrency: usize,
    /// Where the organisation's gates are.
    pub policy_namespaces: Vec<String>,
    /// Which namespaces health checks see besides that of their step; absent: what their defaults need.
    pub health_namespaces: Option<Vec<String>>,
    /// Which steps are carried out here.
    pub shards: Shards,
    /// The right to write, if it is shared with other replicas.
    pub leadership: Leadership,
    /// Whether Bundles are promoted at all; otherwise this process only runs Graphs.
    pub promotions: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            graph_controller: GraphController::Embedded,
            graph_scope: GraphScope::Namespace,
            concurrency: 8,
            policy_namespaces: vec!["platform-policies".to_owned()],
            health_namespaces: None,
            shards: Shards::All,
            leadership: Leadership::default(),
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
    /// Which hosts may be talked to.
    pub reach: Policy,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The cluster whose workloads tell of health unless a step names another one; absent: the control plane's.
    pub workloads: Option<kube::Client>,
}

/// The repositories that this process serves.
#[derive(Clone)]
pub struct LocalForge {
    /// Where they are.
    pub store: Arc<kardinal_forge::Store>,
    /// What their URLs begin with.
    pub url: String,
}

/// How long work that has begun may take when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);
/// How long a call to another machine may take then.
const CALL_LIMIT: Duration = Duration::from_secs(4);

/// The controllers of one process: at work, or on standby.
pub struct Controllers {
    running: RwLock<Option<Running>>,
}

struct Running {
    stop: CancellationToken,
    /// Ends what has not ended by itself.
    cut: CancellationToken,
    tasks: TaskTracker,
    started: Started,
}

impl Controllers {
    /// None is at work.
    pub fn standby() -> Controllers {
        Controllers { running: RwLock::new(None) }
    }

    /// Starts the controllers on this cluster. The kinds must be served already.
    pub fn start(
        client: kube::Client,
        clock: Arc<dyn Clock>,
        settings: &Settings,
        outside: Outside,
    ) -> Controllers {
        Controllers { running: RwLock::new(Some(Running::start(client, clock, settings, outside))) }
    }

    /// Goes from standby to work. Those that are at work already go on unwatched, so [`Controllers::halt`] them before.
    pub fn resume(&self, client: kube::Client, clock: Arc<dyn Clock>, settings: &Settings, outside: Outside) {
        let running = Running::start(client, clock, settings, outside);
        *self.running.write().unwrap_or_else(PoisonError::into_inner) = Some(running);
    }

    fn with<T>(&self, ask: impl FnOnce(&Running) -> T) -> Option<T> {
        self.running.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(ask)
    }

    /// A forge told that something has happened in one of these repositories, known by its URLs. Answers the steps that
    /// wait for it and are carried out by another process; `None`: on standby nothing is known of any step.
    pub fn repository_changed(
        &self,
        urls: &[String],
        pull_request: Option<u64>,
    ) -> Option<Vec<(String, String)>> {
        self.with(|running| running.repository_changed(urls, pull_request))
    }

    /// Somebody has pushed to a repository of the local forge.
    pub fn pushed(&self, namespace: &str, repository: &str) {
        self.with(|running| {
            if let Some(forge) = &running.started.forge {
                forge.pushed((namespace.to_owned(), repository.to_owned()));
            }
        });
    }

    /// Whether only pull requests and kardinal may change a branch of the local forge.
    pub fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        let protects = |forge: &Forge| forge.protects(namespace, repository, branch);
        self.with(|running| running.started.forge.as_ref().is_none_or(protects)).unwrap_or(true)
    }

    /// Goes to standby. A pass that has begun is completed, unless it takes too long: it loses the right to write
    /// together with its term.
    pub async fn halt(&self) {
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running
            && tokio::time::timeout(GRACE, running.finish()).await.is_err()
        {
            tracing::warn!(
                "work was still under way and is left behind; it is repeated where that is needed"
            );
        }
    }

    /// Ends all work and waits for it, but not for long: see [`Controllers::halt`].
    pub async fn stop(self) {
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.finish().await;
        }
    }
}

impl Running {
    fn start(client: kube::Client, clock: Arc<dyn Clock>, settings: &Settings, outside: Outside) -> Running {
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let tasks = TaskTracker::new();
        let (context, changes) = context::build(client, clock, settings, &outside, &stop);
        let starter = Starter {
            context: &context,
            settings,
            outside: &outside,
            stop: &stop,
            cut: &cut,
            tasks: &tasks,
            listeners: Vec::new(),
            started: Started { watches: vec![context.watches.clone()], ..Started::default() },
        };
        let started = starter.start_all(changes);
        Running { stop, cut, tasks, started }
    }

    fn repository_changed(&self, urls: &[String], pull_request: Option<u64>) -> Vec<(String, String)> {
        let Some(promotions) = &self.started.promotions else { return Vec::new() };
        promotions.repository_changed(urls, pull_request)
    }

    /// A pass that has begun is completed, unless it waits for another machine that does not answer: that one is cut
    /// off, as a crash would do it, and costs a repetition.
    async fn finish(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(CALL_LIMIT, self.tasks.wait()).await.is_err() {
            tracing::warn!("calls that do not end are cut off; they are repeated where that is needed");
            self.cut.cancel();
        }
        let rest = async {
            self.tasks.wait().await;
            for watches in &self.started.watches {
                watches.finished().await;
            }
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!("some work does not end and is left behind");
        }
    }
}
