//! One of several equal processes on a cluster: on standby until it is elected, at work until it is not any more.

use std::sync::Arc;
use std::time::Duration;

use kardinal_api::SYSTEM_NAMESPACE;
use kardinal_api::kardinal::SHARD_LABEL;
use kardinal_cluster::lease::{Desk, Office};
use kardinal_cluster::{Candidate, Clock, Leadership};
use kardinal_planner::lease::CONTROLLER_LEASE;
use kardinal_promotion::shard::{Shards, agent_lease};
use tokio_util::sync::CancellationToken;

use crate::{Controllers, Outside, Settings};

/// How long the first agent of a shard waits before it begins, so that the control plane, which has carried out the
/// steps until then, can finish what it has begun.
const HANDOVER: Duration = Duration::from_secs(5);

/// A process that works on a cluster.
pub struct Replica {
    /// The way to the control plane.
    pub client: kube::Client,
    /// The clock of its controllers.
    pub clock: Arc<dyn Clock>,
    /// What its controllers are told, except for the right to write, which each term brings.
    pub settings: Settings,
    /// The world outside the cluster.
    pub outside: Outside,
    /// Its name among the replicas, which no other process ever had; absent: there is no other one, nobody is elected.
    pub identity: Option<String>,
    /// Where it is elected, and a client that was made there, so that its Lease is renewed however busy its controllers
    /// are; absent: where they run.
    pub election: Option<(Desk, kube::Client)>,
    /// Its version, for people.
    pub version: String,
    /// At work while this replica leads.
    pub controllers: Arc<Controllers>,
}

impl Replica {
    /// Works whenever it leads, until it is asked to stop.
    pub async fn run(mut self, stop: CancellationToken) {
        let Some(identity) = self.identity.clone() else {
            self.work(Leadership::default());
            stop.cancelled().await;
            return self.controllers.halt().await;
        };
        let office = self.office(identity);
        let candidate = match self.election.take() {
            Some((desk, client)) => Candidate::new(client, self.clock.clone(), office).at(desk),
            None => Candidate::new(self.client.clone(), self.clock.clone(), office),
        };
        // One that cannot be told is taken for the first one: it only waits a little.
        let mut first = self.is_agent() && !candidate.exists().await;
        loop {
            let Some(term) = stop.run_until_cancelled(candidate.elected()).await else { return };
            if std::mem::take(&mut first) {
                let _ = stop.run_until_cancelled(tokio::time::sleep(HANDOVER)).await;
            }
            self.work(term.clone());
            let lost = stop.run_until_cancelled(candidate.keep(&term)).await.is_some();
            self.controllers.halt().await;
            if !lost {
                return candidate.release(&term).await;
            }
        }
    }

    fn work(&self, leadership: Leadership) {
        let settings = Settings { leadership, ..self.settings.clone() };
        self.controllers.resume(self.client.clone(), self.clock.clone(), &settings, self.outside.clone());
        tracing::info!("controllers run");
    }

    fn is_agent(&self) -> bool {
        matches!(self.settings.shards, Shards::Only(_))
    }

    fn office(&self, identity: String) -> Office {
        let (name, labels) = match &self.settings.shards {
            Shards::Only(shard) => (agent_lease(shard), [(SHARD_LABEL.to_owned(), shard.clone())].into()),
            Shards::All | Shards::Unsharded => (CONTROLLER_LEASE.to_owned(), std::iter::empty().collect()),
        };
        Office {
            namespace: SYSTEM_NAMESPACE.to_owned(),
            name,
            labels,
            identity,
            version: self.version.clone(),
        }
    }
}
