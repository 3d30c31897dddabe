//! One world, from its beginning to its rest.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kardinal_cluster::{Clock as _, install};
use kardinal_controllers::Controllers;
use kardinal_testkit::clock::VirtualClock;
use kardinal_testkit::outside::workloads::Workloads;
use kardinal_testkit::outside::{Seedling, Workshop};
use kardinal_testkit::requests::Requests;
use kardinal_testkit::shop::POLICIES;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::{CONFIG, Files, Settings};
use crate::fate::Log;
use crate::patience::PatientClock;
use crate::scenario::HORIZON;
use crate::{Random, Scenario, check, hands};

pub(crate) const NAMESPACE: &str = "team";
pub(crate) const REPOSITORY: &str = "gitops";
/// So long nothing may be written before the world counts as being at rest.
const QUIET: u64 = 1200;
/// A world comes to rest within this time after its horizon.
const PATIENCE: u64 = 4 * 3600;

/// A world in which things happen.
pub(crate) struct World {
    pub(crate) client: kube::Client,
    pub(crate) workshop: Workshop,
    pub(crate) requests: Requests,
    pub(crate) log: Log,
    pub(crate) start: Instant,
    overheard: kube::Client,
    clock: PatientClock,
    controllers: tokio::sync::Mutex<Option<Controllers>>,
}

/// Lives through a scenario.
pub(crate) fn live(scenario: &Scenario) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let clock = VirtualClock::starting_at("2026-04-09T10:30:00Z".parse()?);
        let options = kardinal_apiserver::Options {
            clock: Arc::new(clock),
            seed: Some(scenario.seed),
            ..kardinal_apiserver::Options::default()
        };
        let server = kardinal_apiserver::Server::start(options).await?;
        let requests = Requests::default();
        let world = World {
            client: server.client(NAMESPACE),
            workshop: Workshop::new()?,
            overheard: requests.overhear(server.router()),
            requests,
            log: Log::default(),
            start: Instant::now(),
            clock: PatientClock::new(clock),
            controllers: tokio::sync::Mutex::default(),
        };
        let told = world.tell(scenario).await;
        world.stop().await;
        server.shutdown().await;
        told
    })
}

impl World {
    async fn tell(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let random = Random::new(scenario.seed ^ 0x00ff_00ff);
        self.prepare(scenario).await?;
        self.requests.judged_by(self.log.judge(random.clone(), scenario.failures, self.start));
        self.begin().await?;
        let names = scenario.names();
        let plan = scenario.clone();
        let rollout = move |environment: &str, version: &str| plan.rollout(environment, version);
        let place = (NAMESPACE, REPOSITORY);
        let workloads = Workloads::new(self.client.clone(), &self.workshop, place, &names, rollout)?;
        tokio::select! {
            told = self.story(scenario) => told,
            ended = hands::people(self, random) => ended.and(Err(anyhow!("people never stop"))),
            broken = check::watch(self) => broken.and(Err(anyhow!("the watch never stops"))),
            () = workloads.run() => Err(anyhow!("workloads never stop")),
            () = self.clock.enough() => Err(anyhow!("time stands still: {:#?}", self.last_heard())),
        }
    }

    async fn story(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let actions = hands::happen(self, scenario).await?;
        self.wait_until(HORIZON).await;
        self.rest().await?;
        check::at_rest(self, scenario, &actions).await
    }

    /// Waits until nothing is written any more, and then for an hour in which nothing may be.
    async fn rest(&self) -> anyhow::Result<()> {
        let deadline = HORIZON + PATIENCE;
        let mut quiet = 0;
        let mut written = self.written();
        while quiet < QUIET {
            let last: Vec<&String> = written.iter().rev().take(12).collect();
            ensure!(
                self.start.elapsed().as_secs() < deadline,
                "no rest: {} writes in 5 minutes: {last:#?}",
                written.len()
            );
            tokio::time::sleep(Duration::from_secs(300)).await;
            written = self.written();
            quiet = if written.is_empty() { quiet + 300 } else { 0 };
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let written = self.written();
        ensure!(written.is_empty(), "at rest nothing is written, but: {written:?}");
        Ok(())
    }

    /// What was heard last.
    fn last_heard(&self) -> Vec<String> {
        let heard = self.requests.take();
        heard.iter().rev().take(12).rev().cloned().collect()
    }

    /// What was written since the last call. Gates that are asked again say when that was.
    fn written(&self) -> Vec<String> {
        let asked = |what: &String| what.contains("/policygates/") && what.contains("/status?");
        let heard = self.requests.take().into_iter();
        heard.filter(|what| !what.starts_with("GET ") && !asked(what)).collect()
    }

    /// Waits for a time of the scenario.
    pub(crate) async fn wait_until(&self, second: u64) {
        tokio::time::sleep_until(self.start + Duration::from_secs(second)).await;
    }

    async fn prepare(&self, scenario: &Scenario) -> anyhow::Result<()> {
        install::ensure_definitions(&self.client, &kardinal_api::crds()).await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for name in scenario.names().into_iter().chain([POLICIES, NAMESPACE]) {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            namespaces.create(&PostParams::default(), &namespace).await?;
        }
        let (environments, configuration) = seedlings()?;
        for (name, seedling) in [(REPOSITORY, environments), (CONFIG, configuration)] {
            seedling.plant(&self.workshop, NAMESPACE, name)?;
            let repository = json!({
                "apiVersion": "forge.kardinal.io/v1alpha1", "kind": "Repository",
                "metadata": {"name": name}, "spec": {},
            });
            self.apply(NAMESPACE, &repository).await?;
        }
        for gate in &scenario.gates {
            self.apply(POLICIES, &gate.manifest(false)).await?;
        }
        self.apply(NAMESPACE, &scenario.pipeline(&self.url(REPOSITORY), false)).await
    }

    /// A repository's URL.
    pub(crate) fn url(&self, repository: &str) -> String {
        self.workshop.remote(NAMESPACE, repository).url
    }

    /// Applies a manifest, as a person who does not fail.
    pub(crate) async fn apply(&self, namespace: &str, manifest: &Value) -> anyhow::Result<()> {
        kardinal_testkit::apply(&self.client, namespace, manifest).await?;
        Ok(())
    }

    async fn begin(&self) -> anyhow::Result<()> {
        let outside = self.workshop.outside(self.overheard.clone(), &self.requests)?;
        let clock = Arc::new(self.clock.clone());
        let controllers = Controllers::start(
            self.overheard.clone(),
            clock,
            &kardinal_controllers::Settings::default(),
            outside,
        );
        *self.controllers.lock().await = Some(controllers);
        Ok(())
    }

    async fn stop(&self) {
        if let Some(controllers) = self.controllers.lock().await.take() {
            controllers.stop().await;
        }
    }

    /// The controllers die, and others begin with empty memories.
    pub(crate) async fn restart(&self) -> anyhow::Result<()> {
        self.requests.kill();
        self.stop().await;
        self.requests.revive();
        self.begin().await
    }

    /// Tells the controllers that something has happened in the repository.
    pub(crate) async fn notify(&self) {
        if let Some(controllers) = &*self.controllers.lock().await {
            controllers.repository_changed(&[self.url(REPOSITORY)], None);
        }
    }

    /// The present of the controllers.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }
}

/// The repositories that every world begins with, made once: that of the environments and that of the configuration.
fn seedlings() -> anyhow::Result<(&'static Seedling, &'static Seedling)> {
    static SEEDLINGS: OnceLock<Result<(Seedling, Seedling), String>> = OnceLock::new();
    let made = SEEDLINGS.get_or_init(|| {
        let files: Vec<(String, String)> = (0..5)
            .flat_map(|at| {
                let place = move |(name, text)| (format!("environments/e{at}/{name}"), text);
                Files::first().all().into_iter().map(place)
            })
            .collect();
        let settings = [(Settings::FILE.to_owned(), Settings::default().text())];
        let both = Seedling::of(&files).and_then(|first| Ok((first, Seedling::of(&settings)?)));
        both.map_err(|error| format!("{error:#}"))
    });
    match made {
        Ok((environments, configuration)) => Ok((environments, configuration)),
        Err(message) => Err(anyhow!("{message}")),
    }
}
