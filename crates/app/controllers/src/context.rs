//! What every controller is given.

use std::sync::Arc;

use kardinal_cluster::{Change, Clock, Kinds, Leadership, Watches, Writer};
use kardinal_git::Repositories;
use kardinal_reach::Policy;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use crate::dialect::facets_of;
use crate::forges::{Forges, Secrets};
use crate::metrics::Metrics;
use crate::promotion::agents::Agents;
use crate::promotion::clusters::Clusters;
use crate::promotion::context::PromotionContext;
use crate::promotion::gates_read::GatesRead;
use crate::promotion::sealing::Sealing;
use crate::{Outside, Settings};

/// What every controller is given.
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client: kube::Client,
    pub(crate) watches: Arc<Watches>,
    pub(crate) writer: Writer,
    pub(crate) leadership: Leadership,
    pub(crate) credentials: Secrets,
    pub(crate) repositories: Arc<dyn Repositories>,
    pub(crate) forges: Arc<dyn Forges>,
    /// What the URLs of the local forge begin with, when this process serves it.
    pub(crate) local_forge: Option<String>,
    pub(crate) reach: Policy,
    pub(crate) metrics: Arc<Metrics>,
    /// What only promotions need.
    pub(crate) promotion: PromotionContext,
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
    let (workloads, own_changes) = workloads(outside, &watches, stop);
    let (handed_over, changes_of_hands) = mpsc::unbounded_channel();
    let agents = Agents::new(client.clone(), handed_over, stop.clone());
    let promotion = PromotionContext {
        workloads,
        policy_namespaces: settings.policy_namespaces.clone(),
        health_namespaces: settings.health_namespaces.clone(),
        gates_read: GatesRead::default(),
        sealing: Sealing::default(),
        shards: settings.shards.clone(),
        agents,
        clusters: Clusters::new(client.clone(), clock.clone(), outside.reach.clone(), remote, stop.clone()),
        kustomize: outside.kustomize.clone(),
        http: outside.http.clone(),
    };
    let context = Arc::new(Context {
        clock,
        writer: Writer::new(client.clone(), kinds),
        client,
        watches,
        leadership: settings.leadership.clone(),
        credentials: Secrets::default(),
        repositories: outside.repositories.clone(),
        forges: outside.forges.clone(),
        local_forge: outside.forge.as_ref().map(|forge| forge.url.clone()),
        reach: outside.reach.clone(),
        metrics: outside.metrics.clone(),
        promotion,
    });
    (context, Channels { changes, workloads: own_changes, remote: remote_changes, changes_of_hands })
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
