//! What every controller is given.

use std::path::PathBuf;
use std::sync::Arc;

use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::{Change, Clock, Kinds, Leadership, Watches, Writer};
use kardinal_git::Repositories;
use kardinal_planner::graph::GraphScope;
use kardinal_promotion::shard::{self, Shards};
use kardinal_reach::Policy;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use crate::dialect::facets_of;
use crate::forges::{Forges, Secrets};
use crate::metrics::Metrics;
use crate::promotion::agents::Agents;
use crate::promotion::clusters::Clusters;
use crate::promotion::gates_read::GatesRead;
use crate::promotion::sealing::Sealing;
use crate::{Outside, Settings};

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
    pub(crate) gates_read: GatesRead,
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

/// Where changes come from.
pub(crate) struct Channels {
    /// The control plane.
    pub(crate) changes: UnboundedReceiver<Change>,
    /// The cluster of the workloads, when that is another one.
    pub(crate) workloads: Option<UnboundedReceiver<Change>>,
    /// The clusters that steps name.
    pub(crate) remote: UnboundedReceiver<Change>,
    /// Steps that others carry out from now on, or do not any more.
    pub(crate) changes_of_hands: UnboundedReceiver<()>,
}

/// What the controllers of a process are given, and where their changes come from.
pub(crate) fn build(
    client: kube::Client,
    clock: Arc<dyn Clock>,
    settings: &Settings,
    outside: &Outside,
    stop: &CancellationToken,
) -> (Arc<Context>, Channels) {
    let client = settings.leadership.fence(client);
    let kinds = Arc::new(Kinds::new(client.clone()));
    let (watches, changes) = Watches::new(client.clone(), kinds.clone(), facets_of, stop.clone());
    let (remote, remote_changes) = mpsc::unbounded_channel();
    let (workloads, own_changes) = match &outside.workloads {
        None => (watches.clone(), None),
        Some(own) => {
            let kinds = Arc::new(Kinds::new(own.clone()));
            let (workloads, changes) = Watches::new(own.clone(), kinds, |_, _| Vec::new(), stop.clone());
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
        repositories: outside.repositories.clone(),
        forges: outside.forges.clone(),
        local_forge: outside.forge.as_ref().map(|forge| forge.url.clone()),
        kustomize: outside.kustomize.clone(),
        http: outside.http.clone(),
        reach: outside.reach.clone(),
        metrics: outside.metrics.clone(),
    });
    (context, Channels { changes, workloads: own_changes, remote: remote_changes, changes_of_hands })
}
