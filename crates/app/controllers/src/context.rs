//! What every controller is given. What only one dialect needs is made where that dialect starts.

use std::sync::Arc;

use kardinal_cluster::{Change, Clock, Kinds, Leadership, Watches, Writer};
use kardinal_git::Repositories;
use kardinal_reach::Policy;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use crate::dialect::facets_of;
use crate::forges::{Forges, Secrets};
use crate::metrics::Metrics;
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
}

/// What the controllers of a process are given, and the changes of the control plane.
pub(crate) fn build(
    client: kube::Client,
    clock: Arc<dyn Clock>,
    settings: &Settings,
    outside: &Outside,
    stop: &CancellationToken,
) -> (Arc<Context>, UnboundedReceiver<Change>) {
    let client = settings.leadership.fence(client);
    let kinds = Arc::new(Kinds::new(client.clone()));
    let (watches, changes) = Watches::new(client.clone(), kinds.clone(), facets_of, stop.clone());
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
    });
    (context, changes)
}
