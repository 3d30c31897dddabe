//! The three worlds.

mod replicas;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kardinal_cluster::{Clock, install};
use kardinal_controllers::{Controllers, Settings};
use kube::Api;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::clock::{ShiftedClock, VirtualClock};
use crate::installed;
use crate::outside::Workshop;
use crate::real::{Cluster, programs};
use crate::requests::Requests;
use crate::up::Up;

pub use replicas::{Peer, Process, in_memory_replicas};

/// How long a scenario waits for something that must happen. Only a failing test ever waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which world it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorldKind {
    /// Everything in this process, mostly with virtual time.
    Memory,
    /// `kardinal up` over HTTPS.
    Up,
    /// A real kube-apiserver.
    Real,
}

/// A control plane with our kinds and our controllers, and a namespace of its own.
pub struct World {
    /// Which world it is.
    pub kind: WorldKind,
    /// The only door to it.
    pub client: kube::Client,
    /// The scenario's namespace.
    pub namespace: String,
    /// For programs that a scenario starts itself, where there is something that they can reach.
    pub kubeconfig: Option<PathBuf>,
    clock: WorldClock,
    /// The forge and the repositories of the scenario.
    pub workshop: Workshop,
    requests: Requests,
    settings: Mutex<Settings>,
    controllers: tokio::sync::Mutex<Option<Controllers>>,
    /// The controllers' own client, so that their requests can be told from the scenario's.
    controllers_client: kube::Client,
}

enum WorldClock {
    Virtual(VirtualClock),
    Shifted(ShiftedClock),
}

impl WorldClock {
    fn shared(&self) -> Arc<dyn Clock> {
        match self {
            WorldClock::Virtual(clock) => Arc::new(*clock),
            WorldClock::Shifted(clock) => Arc::new(clock.clone()),
        }
    }
}

impl World {
    async fn start(
        kind: WorldKind,
        client: kube::Client,
        controllers_client: kube::Client,
        requests: Requests,
        settings: Settings,
        clock: WorldClock,
    ) -> anyhow::Result<World> {
        // `RUST_LOG=kardinal=debug cargo test …` shows what the controllers do; a second subscriber is no news.
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        install::ensure_definitions(&client, &kardinal_api::crds()).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some("story-".to_owned());
        let made = namespaces.create(&PostParams::default(), &namespace).await?;
        let namespace = made.metadata.name.context("the server names the namespace")?;
        let controllers = tokio::sync::Mutex::new(None);
        let workshop = Workshop::new()?;
        let world = World {
            kind,
            client,
            namespace,
            kubeconfig: None,
            clock,
            workshop,
            requests,
            settings: Mutex::new(settings),
            controllers,
            controllers_client,
        };
        world.start_controllers().await?;
        Ok(world)
    }

    /// The controllers' present.
    pub fn now(&self) -> Timestamp {
        self.clock.shared().now()
    }

    /// Lets time pass for the controllers.
    pub async fn advance(&self, by: SignedDuration) {
        match &self.clock {
            WorldClock::Virtual(_) => {
                tokio::time::sleep(Duration::try_from(by).unwrap_or_default()).await;
            }
            WorldClock::Shifted(clock) => clock.advance(by),
        }
    }

    /// Starts our controllers unless they run.
    pub async fn start_controllers(&self) -> anyhow::Result<()> {
        let mut controllers = self.controllers.lock().await;
        if controllers.is_none() {
            let client = self.controllers_client.clone();
            let outside = self.workshop.outside(client.clone(), &self.requests)?;
            let clock = self.clock.shared();
            let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
            *controllers = Some(Controllers::start(client, clock, &settings, outside));
        }
        Ok(())
    }

    /// Stops our controllers and forgets everything they remembered.
    pub async fn stop_controllers(&self) {
        if let Some(controllers) = self.controllers.lock().await.take() {
            controllers.stop().await;
        }
    }

    /// Starts the controllers anew, with other settings.
    pub async fn restart_with(&self, settings: Settings) -> anyhow::Result<()> {
        self.stop_controllers().await;
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        self.start_controllers().await
    }

    /// Brings the controllers what a forge tells them with a webhook. Nobody hears it while they do not run.
    pub async fn repository_changed(&self, urls: &[String], pull_request: Option<u64>) {
        if let Some(controllers) = &*self.controllers.lock().await {
            controllers.repository_changed(urls, pull_request);
        }
    }

    /// Asks until the answer is yes; the answer to the last question is part of the failure.
    pub async fn eventually<T, F>(&self, what: &str, mut ask: impl FnMut() -> F) -> anyhow::Result<T>
    where
        F: Future<Output = anyhow::Result<Result<T, String>>>,
    {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let last = match ask().await? {
                Ok(found) => return Ok(found),
                Err(last) => last,
            };
            if tokio::time::Instant::now() > deadline {
                bail!("{what}: still not so after {PATIENCE:?}; last seen: {last}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Controllers that only run Graphs: the scenario itself plays everybody else.
pub fn graphs() -> Settings {
    Settings { promotions: false, ..Settings::default() }
}

/// Controllers that promote Bundles.
pub fn promotions() -> Settings {
    Settings::default()
}

/// Runs a scenario in memory, with virtual time.
pub fn in_memory(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    in_memory_overheard(settings, async |world, _| scenario(world).await)
}

/// Runs a scenario in memory that also sees every request of the controllers.
pub fn in_memory_overheard(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World, &Requests) -> anyhow::Result<()>,
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
        let requests = Requests::default();
        let overheard = requests.overhear(server.router());
        let clock = WorldClock::Virtual(clock);
        let world =
            World::start(WorldKind::Memory, client, overheard, requests.clone(), settings, clock).await?;
        let told = scenario(&world, &requests).await;
        world.stop_controllers().await;
        server.shutdown().await;
        told
    })
}

/// Runs a scenario in memory with the machine's time, for those who wait for other programs: under virtual time
/// every answer over a socket comes too late. The scenario sees every request of the controllers.
pub fn in_memory_real_time(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World, &Requests) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = kardinal_apiserver::Server::start(kardinal_apiserver::Options::default()).await?;
        let client = server.client("default");
        let requests = Requests::default();
        let overheard = requests.overhear(server.router());
        let clock = WorldClock::Shifted(ShiftedClock::new());
        let world =
            World::start(WorldKind::Memory, client, overheard, requests.clone(), settings, clock).await?;
        let told = scenario(&world, &requests).await;
        world.stop_controllers().await;
        server.shutdown().await;
        told
    })
}

/// Runs a scenario on `kardinal up` over HTTPS. The controllers run in this process, so that their clock can be moved.
pub fn on_kardinal_up(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let up = Up::start(&["--no-controllers"])?;
    let told = over_https(WorldKind::Up, &up.kubeconfig, settings, scenario);
    told.with_context(|| format!("kardinal up said:\n{}", up.log()))
}

/// Whose turn it is on the real kube-apiserver.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a scenario on a real kube-apiserver, one at a time: our controllers see the whole cluster.
pub fn on_real_kubernetes(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(kubeconfig) = real_kubeconfig()? else { return Ok(()) };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    over_https(WorldKind::Real, &kubeconfig, settings, scenario)
}

/// Runs a scenario on a real kube-apiserver with what `kardinal install --export` prints: the controllers have the rights
/// of their account and no others, while the scenario is the admin.
pub fn on_real_kubernetes_installed(
    settings: Settings,
    scenario: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(kubeconfig) = real_kubeconfig()? else { return Ok(()) };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let admin = client_of(&kubeconfig).await?;
        let account = installed::install(&admin, &kubeconfig, &settings.policy_namespaces).await?;
        let clock = WorldClock::Shifted(ShiftedClock::new());
        let mut world =
            World::start(WorldKind::Real, admin, account, Requests::default(), settings, clock).await?;
        world.kubeconfig = Some(kubeconfig);
        let told = scenario(&world).await;
        world.stop_controllers().await;
        told
    })
}

/// The kubeconfig of this process's real cluster, which is started on first use.
pub fn real_kubeconfig() -> anyhow::Result<Option<PathBuf>> {
    static CLUSTER: OnceLock<Result<Option<Cluster>, String>> = OnceLock::new();
    let cluster = CLUSTER.get_or_init(|| {
        let start = || programs()?.map(|programs| Cluster::start(&programs)).transpose();
        start().map_err(|error: anyhow::Error| format!("{error:#}"))
    });
    match cluster {
        Ok(cluster) => Ok(cluster.as_ref().map(|cluster| cluster.kubeconfig.clone())),
        Err(message) => bail!("the real cluster did not start: {message}"),
    }
}

fn over_https(
    kind: WorldKind,
    kubeconfig: &std::path::Path,
    settings: Settings,
    scenario: impl AsyncFnOnce(&World) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let client = client_of(kubeconfig).await?;
        let clock = WorldClock::Shifted(ShiftedClock::new());
        let mut world =
            World::start(kind, client.clone(), client, Requests::default(), settings, clock).await?;
        world.kubeconfig = Some(kubeconfig.to_owned());
        let told = scenario(&world).await;
        world.stop_controllers().await;
        told
    })
}

/// A client for what a kubeconfig describes.
pub async fn client_of(kubeconfig: &std::path::Path) -> anyhow::Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
