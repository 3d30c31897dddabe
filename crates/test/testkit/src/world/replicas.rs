//! Several replicas on one server, in memory and in virtual time.

use std::sync::Arc;

use jiff::Timestamp;
use kardinal_cluster::install;
use kardinal_controllers::{Controllers, Replica, Settings};
use tokio_util::sync::CancellationToken;

use super::{World, WorldClock, WorldKind};
use crate::clock::VirtualClock;
use crate::requests::Requests;

/// The namespace of Leases.
const SYSTEM: &str = kardinal_api::SYSTEM_NAMESPACE;

/// One of several processes on a server, whose requests are heard apart from those of the others.
pub struct Peer {
    /// Its requests, those to repositories included.
    pub requests: Requests,
    client: kube::Client,
}

/// A process at work, or on standby.
pub struct Process {
    /// Asks it to stop.
    pub stop: CancellationToken,
    /// Ends when it has stopped.
    pub ended: tokio::task::JoinHandle<()>,
}

impl Peer {
    /// Starts the process.
    pub fn start(&self, world: &World, identity: &str, settings: Settings) -> anyhow::Result<Process> {
        self.start_beside(world, identity, settings, None)
    }

    /// Starts the process beside a cluster of its own, whose workloads it looks at.
    pub fn start_beside(
        &self,
        world: &World,
        identity: &str,
        settings: Settings,
        own: Option<kube::Client>,
    ) -> anyhow::Result<Process> {
        let mut outside = world.workshop.outside(self.client.clone(), &self.requests)?;
        outside.workloads = own;
        let replica = Replica {
            client: self.client.clone(),
            clock: world.clock.shared(),
            settings,
            outside,
            identity: Some(identity.to_owned()),
            election: None,
            version: "1.2.3".to_owned(),
            controllers: Arc::new(Controllers::standby()),
        };
        let stop = CancellationToken::new();
        Ok(Process { ended: tokio::spawn(replica.run(stop.clone())), stop })
    }
}

/// Runs a scenario in memory, in virtual time, with two processes that it starts itself.
pub fn in_memory_replicas(
    scenario: impl AsyncFnOnce(&World, [Peer; 2]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let start: Timestamp = "2026-04-09T10:00:00Z".parse()?;
        let clock = VirtualClock::starting_at(start);
        let options = kardinal_apiserver::Options {
            clock: Arc::new(clock),
            seed: Some(1),
            ..kardinal_apiserver::Options::default()
        };
        let server = kardinal_apiserver::Server::start(options).await?;
        let client = server.client("default");
        install::ensure_namespace(&client, SYSTEM).await;
        let peers = [(); 2].map(|()| {
            let requests = Requests::default();
            Peer { client: requests.overhear(server.router()), requests }
        });
        let clock = WorldClock::Virtual(clock);
        let settings = Settings::default();
        let world =
            World::start(WorldKind::Memory, client.clone(), client, Requests::default(), settings, clock)
                .await?;
        world.stop_controllers().await;
        let told = scenario(&world, peers).await;
        world.stop_controllers().await;
        server.shutdown().await;
        told
    })
}
