//! The controllers. Each kind has one file that reads out the sentence
//! observe → check → plan → act → report; the pure words live in `kardinal-planner`.
//!
//! Controllers know a `kube::Client`, a clock, repositories and forges, and nothing about what is behind them.

pub mod forges;
pub mod metrics;

mod facets;
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
use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::{Change, Clock, Kinds, Leadership, Watches, Writer};
use kardinal_git::Repositories;
use kardinal_promotion::shard;
use kardinal_reach::Policy;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use kardinal_planner::graph::GraphScope;

pub use crate::forges::{Forges, RealForges};
pub use crate::metrics::Metrics;
pub use crate::reach::Resolver;
pub use crate::replica::Replica;
use forges::Secrets;
pub use kardinal_promotion::shard::Shards;
use promotion::agents::Agents;
use promotion::clusters::Clusters;
use promotion::gates_read::GatesRead;
use promotion::sealing::Sealing;
use promotion::{bundle, pipeline, policy_gate, promotion_step};
use reconcile::driver::{self, Listener};
use reconcile::pass::Controller;

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

/// What every controller is given.
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client: kube::Client,
    pub(crate) watches: Arc<Watches>,
    /// The workloads of steps that name no cluster.
    pub(crate) workloads: Arc<Watches>,
    pub(crate) writer: Writer,
    pub(crate) graph_scope: GraphScope,
    pub(crate) leadership: Leadership,
    pub(crate) policy_namespaces: Vec<String>,
    pub(crate) health_namespaces: Option<Vec<String>>,
    gates_read: GatesRead,
    pub(crate) sealing: Sealing,
    pub(crate) shards: Shards,
    pub(crate) agents: Agents,
    pub(crate) clusters: Clusters,
    pub(crate) credentials: Secrets,
    pub(crate) repositories: Arc<dyn Repositories>,
    pub(crate) forges: Arc<dyn Forges>,
    /// What the URLs of the local forge begin with, when this process serves it.
    pub(crate) local_forge: Option<String>,
    pub(crate) kustomize: Option<PathBuf>,
    pub(crate) http: reqwest::Client,
    pub(crate) reach: Policy,
    pub(crate) metrics: Arc<Metrics>,
}

impl Context {
    /// Whether this process carries a step out.
    pub(crate) fn serves(&self, step: &PromotionStep) -> bool {
        shard::serves(&self.shards, shard::shard_of(step), |shard| self.agents.has(shard))
    }
}

/// Makes the key at the first start, so that no promotion waits for it. Where that cannot be done now, whoever needs the key
/// tries again and says so.
async fn make_key(context: Arc<Context>) {
    if let Err(why) = context.key().await {
        tracing::warn!(why, "the key that verifications are sealed with cannot be had yet");
    }
}

/// How long work that has begun may take when it is asked to end.
const GRACE: Duration = Duration::from_secs(5);
/// How long a call to another machine may take then.
const PATIENCE: Duration = Duration::from_secs(4);

/// The controllers of one process: at work, or on standby.
pub struct Controllers {
    running: RwLock<Option<Running>>,
}

struct Running {
    stop: CancellationToken,
    /// Ends what has not ended by itself.
    cut: CancellationToken,
    tasks: TaskTracker,
    watches: Vec<Arc<Watches>>,
    steps: Option<Arc<driver::Driver<promotion_step::Controller>>>,
    forge: Option<Arc<driver::Driver<forge::Controller>>>,
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
            if let Some(forge) = &running.forge {
                forge.look_at((namespace.to_owned(), repository.to_owned()));
            }
        });
    }

    /// Whether only pull requests and kardinal may change a branch of the local forge.
    pub fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        let forge = self.with(|running| running.forge.clone()).flatten();
        forge.is_none_or(|forge| forge.controller().protects(namespace, repository, branch))
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
        let client = settings.leadership.fence(client);
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (watches, changes) = Watches::new(client.clone(), kinds.clone(), facets::of, stop.clone());
        let (remote, remote_changes) = mpsc::unbounded_channel();
        let (workloads, own_changes) = match outside.workloads {
            None => (watches.clone(), None),
            Some(own) => {
                let kinds = Arc::new(Kinds::new(own.clone()));
                let (workloads, changes) = Watches::new(own, kinds, |_, _| Vec::new(), stop.clone());
                (workloads, Some(changes))
            }
        };
        let (handed_over, changes_of_hands) = mpsc::unbounded_channel();
        let agents = Agents::new(client.clone(), handed_over, stop.clone());
        let context = Arc::new(Context {
            clock: clock.clone(),
            writer: Writer::new(client.clone(), kinds),
            client: client.clone(),
            watches: watches.clone(),
            graph_scope: settings.graph_scope,
            workloads: workloads.clone(),
            leadership: settings.leadership.clone(),
            policy_namespaces: settings.policy_namespaces.clone(),
            health_namespaces: settings.health_namespaces.clone(),
            gates_read: GatesRead::default(),
            sealing: Sealing::default(),
            shards: settings.shards.clone(),
            agents,
            clusters: Clusters::new(client, clock, outside.reach.clone(), remote, stop.clone()),
            credentials: Secrets::default(),
            repositories: outside.repositories,
            forges: outside.forges,
            local_forge: outside.forge.as_ref().map(|forge| forge.url.clone()),
            kustomize: outside.kustomize,
            http: outside.http,
            reach: outside.reach,
            metrics: outside.metrics,
        });
        let mut running =
            Running { stop, cut, tasks, watches: vec![watches, workloads], steps: None, forge: None };
        let listeners = running.spawn(&context, settings, outside.forge);
        running.listen(listeners, [Some(changes), own_changes, Some(remote_changes)], changes_of_hands);
        running
    }

    /// Starts the workers of all controllers that this process runs.
    fn spawn(
        &mut self,
        context: &Arc<Context>,
        settings: &Settings,
        local: Option<LocalForge>,
    ) -> Vec<Arc<dyn Listener>> {
        let workers = settings.concurrency;
        let (stop, tasks) = (&self.stop, &self.tasks);
        // A step waits for other machines, so many of them may be under way, in every namespace.
        let steps = settings.promotions.then(|| {
            let controller = promotion_step::Controller::new(context.clone());
            driver::spawn_fair(controller, workers * 8, (stop, &self.cut), tasks)
        });
        let mut listeners: Vec<Arc<dyn Listener>> = Vec::new();
        let plans_here = !matches!(settings.shards, Shards::Only(_));
        if plans_here && settings.graph_controller == GraphController::Embedded {
            let graphs = Controller::new(graph::Kind::new(context.clone()));
            listeners.push(driver::spawn_fair(graphs, workers, (stop, &self.cut), tasks));
        }
        listeners.extend(steps.clone().map(|steps| steps as Arc<dyn Listener>));
        if settings.promotions && plans_here {
            // A Bundle of configuration waits for a repository before it starts.
            let bundles = Controller::new(bundle::Kind { context: context.clone() });
            listeners.push(driver::spawn_fair(bundles, workers, (stop, &self.cut), tasks));
            let gates = Controller::new(policy_gate::Kind { context: context.clone() });
            listeners.push(driver::spawn_fair(gates, workers, (stop, &self.cut), tasks));
            // A Pipeline asks for its Secrets, and a team can have very many of both.
            let pipelines = Controller::new(pipeline::Kind { context: context.clone() });
            listeners.push(driver::spawn_fair(pipelines, workers, (stop, &self.cut), tasks));
            tasks.spawn(stop.clone().run_until_cancelled_owned(make_key(context.clone())));
        }
        let forge = local
            .map(|local| driver::spawn(forge::Controller::new(context.clone(), local), workers, stop, tasks));
        listeners.extend(forge.clone().map(|forge| forge as Arc<dyn Listener>));
        self.steps = steps;
        self.forge = forge;
        listeners
    }

    /// Brings changes to the controllers: those of the control plane to all, those of other clusters to the steps.
    fn listen(
        &self,
        listeners: Vec<Arc<dyn Listener>>,
        [changes, own, remote]: [Option<mpsc::UnboundedReceiver<Change>>; 3],
        mut changes_of_hands: mpsc::UnboundedReceiver<()>,
    ) {
        let elsewhere: Vec<_> =
            self.steps.clone().map(|steps| steps as Arc<dyn Listener>).into_iter().collect();
        let deliveries = [(changes, listeners), (own, elsewhere.clone()), (remote, elsewhere)];
        for (changes, listeners) in deliveries {
            let Some(changes) = changes else { continue };
            let stop = self.stop.clone();
            self.tasks.spawn(async move {
                stop.run_until_cancelled(driver::deliver(listeners, changes)).await;
            });
        }
        let Some(steps) = self.steps.clone() else { return };
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            while let Some(Some(())) = stop.run_until_cancelled(changes_of_hands.recv()).await {
                for key in steps.controller().sharded() {
                    steps.look_at(key);
                }
            }
        });
    }

    fn repository_changed(&self, urls: &[String], pull_request: Option<u64>) -> Vec<(String, String)> {
        let Some(steps) = &self.steps else { return Vec::new() };
        let (here, elsewhere) = steps.controller().steps_of(urls, pull_request);
        for key in here {
            steps.look_at(key);
        }
        elsewhere
    }

    /// A pass that has begun is completed, unless it waits for another machine that does not answer: that one is cut
    /// off, as a crash would do it, and costs a repetition.
    async fn finish(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!("calls that do not end are cut off; they are repeated where that is needed");
            self.cut.cancel();
        }
        let rest = async {
            self.tasks.wait().await;
            for watches in &self.watches {
                watches.finished().await;
            }
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!("some work does not end and is left behind");
        }
    }
}
