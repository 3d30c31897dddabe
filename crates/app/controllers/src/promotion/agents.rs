//! The shards that have an agent of their own, known by the agents' Leases.
//!
//! They are watched only once a step with a shard is there, and only in the namespace of the controllers: a cluster has
//! a Lease for each of its nodes.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use futures::StreamExt as _;
use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_api::kardinal::SHARD_LABEL;
use kardinal_cluster::lease;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Which shards have an agent.
pub(crate) struct Agents {
    client: kube::Client,
    stop: CancellationToken,
    /// Told whenever a shard changes hands.
    changes: UnboundedSender<()>,
    watched: OnceLock<Arc<Known>>,
}

/// The shards with a Lease; `None` until the first list has arrived.
#[derive(Default)]
struct Known(RwLock<Option<BTreeSet<String>>>);

impl Agents {
    /// Nothing is watched yet.
    pub(crate) fn new(client: kube::Client, changes: UnboundedSender<()>, stop: CancellationToken) -> Agents {
        Agents { client, stop, changes, watched: OnceLock::new() }
    }

    /// Whether a shard has an agent, present or away. `None`: it is not known yet; `changes` tells when it is.
    pub(crate) fn has(&self, shard: &str) -> Option<bool> {
        let known = self.watched.get_or_init(|| self.watch());
        let shards = known.0.read().unwrap_or_else(PoisonError::into_inner);
        shards.as_ref().map(|shards| shards.contains(shard))
    }

    fn watch(&self) -> Arc<Known> {
        let known = Arc::new(Known::default());
        let mut leases = lease::leases(self.client.clone(), SYSTEM_NAMESPACE, SHARD_LABEL);
        let (kept, changes, stop) = (known.clone(), self.changes.clone(), self.stop.clone());
        tokio::spawn(async move {
            while let Some(Some(leases)) = stop.run_until_cancelled(leases.next()).await {
                let shard = |lease: &k8s_openapi::api::coordination::v1::Lease| {
                    lease.metadata.labels.as_ref()?.get(SHARD_LABEL).cloned()
                };
                let shards: Option<BTreeSet<String>> = Some(leases.values().filter_map(shard).collect());
                let mut known = kept.0.write().unwrap_or_else(PoisonError::into_inner);
                if *known != shards {
                    *known = shards;
                    drop(known);
                    // Nobody listens any more when the controllers stop.
                    let _ = changes.send(());
                }
            }
        });
        known
    }
}
