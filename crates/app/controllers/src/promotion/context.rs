//! What only the controllers of promotions are given.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::{Change, Kinds, Watches};
use kardinal_promotion::shard::{self, Shards};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::agents::Agents;
use super::clusters::Clusters;
use super::gates_read::GatesRead;
use super::sealing::Sealing;
use crate::{Context, Outside, Settings};

/// What every controller is given, and what promotions need besides.
pub(crate) struct PromotionContext {
    pub(crate) shared: Arc<Context>,
    /// The workloads of steps that name no cluster.
    pub(crate) workloads: Arc<Watches>,
    /// Where the organisation's gates are.
    pub(crate) policy_namespaces: Vec<String>,
    /// Which namespaces health checks see besides that of their step; absent: what their defaults need.
    pub(crate) health_namespaces: Option<Vec<String>>,
    /// Which gates were read past their watch.
    pub(crate) gates_read: GatesRead,
    /// The key that verifications are sealed with.
    pub(crate) sealing: Sealing,
    /// Which steps are carried out here.
    pub(crate) shards: Shards,
    /// Which agents are at work.
    pub(crate) agents: Agents,
    /// The clusters that steps name.
    pub(crate) clusters: Clusters,
    /// The program that `kustomize-build` runs.
    pub(crate) kustomize: Option<PathBuf>,
    /// For custom tasks.
    pub(crate) http: reqwest::Client,
}

/// What is heard by steps alone.
pub(crate) struct Channels {
    /// Changes in the cluster of the workloads, when that is not the control plane.
    pub(crate) workloads: Option<UnboundedReceiver<Change>>,
    /// Changes in the clusters that steps name.
    pub(crate) clusters: UnboundedReceiver<Change>,
    /// Steps that others carry out from now on, or do not any more.
    pub(crate) changes_of_hands: UnboundedReceiver<()>,
}

/// What the controllers of promotions are given, and what steps hear besides the control plane.
pub(crate) fn build(
    shared: Arc<Context>,
    settings: &Settings,
    outside: &Outside,
    stop: &CancellationToken,
) -> (Arc<PromotionContext>, Channels) {
    let (client, clock) = (shared.client.clone(), shared.clock.clone());
    let (remote, clusters) = mpsc::unbounded_channel();
    let (handed_over, changes_of_hands) = mpsc::unbounded_channel();
    let (workloads, own_changes) = workloads(outside, &shared.watches, stop);
    let context = Arc::new(PromotionContext {
        workloads,
        policy_namespaces: settings.policy_namespaces.clone(),
        health_namespaces: settings.health_namespaces.clone(),
        gates_read: GatesRead::default(),
        sealing: Sealing::default(),
        shards: settings.shards.clone(),
        agents: Agents::new(client.clone(), handed_over, stop.clone()),
        clusters: Clusters::new(client, clock, shared.reach.clone(), remote, stop.clone()),
        kustomize: outside.kustomize.clone(),
        http: outside.http.clone(),
        shared,
    });
    (context, Channels { workloads: own_changes, clusters, changes_of_hands })
}

/// The watches of the workloads, and their changes unless they are those of the control plane.
fn workloads(
    outside: &Outside,
    own: &Arc<Watches>,
    stop: &CancellationToken,
) -> (Arc<Watches>, Option<UnboundedReceiver<Change>>) {
    let Some(client) = &outside.workloads else { return (own.clone(), None) };
    let kinds = Arc::new(Kinds::new(client.clone()));
    let (workloads, changes) = Watches::new(client.clone(), kinds, |_, _| Vec::new(), stop.clone());
    (workloads, Some(changes))
}

impl Deref for PromotionContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.shared
    }
}

impl PromotionContext {
    /// Whether this process carries a step out.
    pub(crate) fn serves(&self, step: &PromotionStep) -> bool {
        shard::serves(&self.shards, shard::shard_of(step), |shard| self.agents.has(shard))
    }
}
