//! Whoever is not a controller: those who release, review, override, pause and push.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kardinal_api::forge::{Desired, PullRequest, PullRequestState};
use kardinal_git::{Author, Change, ChangeError, Order, Repositories as _, Tree, Write};
use kardinal_testkit::shop::POLICIES;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::scenario::{Gate, Release};
use crate::world::{NAMESPACE, REPOSITORY, World};
use crate::{Random, Scenario};

/// A commit of somebody who knows nothing of promotions.
#[derive(Debug, Clone)]
pub(crate) struct Stranger {
    pub(crate) commit: String,
    pub(crate) path: String,
    pub(crate) line: String,
}

enum Event<'a> {
    Release(&'a Release),
    Override(&'a Gate),
    Restart,
    Push(Option<&'a str>),
    Pause(bool),
}

/// Lets happen what was planned, in order; returns what strangers pushed.
pub(crate) async fn happen(world: &World, scenario: &Scenario) -> anyhow::Result<Vec<Stranger>> {
    let mut events: Vec<(u64, Event<'_>)> = Vec::new();
    events.extend(scenario.bundles.iter().map(|release| (release.at, Event::Release(release))));
    let overridden =
        scenario.gates.iter().filter_map(|gate| gate.overridden.map(|at| (at, Event::Override(gate))));
    events.extend(overridden);
    events.extend(scenario.restarts.iter().map(|at| (*at, Event::Restart)));
    events.extend(scenario.strangers.iter().map(|(at, place)| (*at, Event::Push(place.as_deref()))));
    if let Some((from, to)) = scenario.pause {
        events.extend([(from, Event::Pause(true)), (to, Event::Pause(false))]);
    }
    events.sort_by_key(|(at, _)| *at);
    let mut strangers = Vec::new();
    for (at, event) in events {
        world.wait_until(at).await;
        match event {
            Event::Release(release) => world.apply(NAMESPACE, &release.manifest()).await?,
            Event::Override(gate) => world.apply(POLICIES, &gate.manifest(true)).await?,
            Event::Restart => world.restart().await?,
            Event::Push(place) => strangers.push(push(world, at, place).await?),
            Event::Pause(paused) => {
                world.apply(NAMESPACE, &scenario.pipeline(&world.url(), paused)).await?;
            }
        }
    }
    Ok(strangers)
}

async fn push(world: &World, at: u64, place: Option<&str>) -> anyhow::Result<Stranger> {
    let path = match place {
        Some(environment) => format!("environments/{environment}/kustomization.yaml"),
        None => format!("notes-{at}.md"),
    };
    let line = format!("# somebody was here at {at}");
    let order = Order {
        base: "main".to_owned(),
        branch: "main".to_owned(),
        message: format!("Notes of {at}\n"),
        author: Author {
            name: "somebody".to_owned(),
            email: "somebody@example.org".to_owned(),
            time: world.now(),
        },
        identity: format!("Notes: {at}"),
        change: Arc::new(Addition { path: path.clone(), line: line.clone() }),
    };
    let remote = world.workshop.remote(NAMESPACE, REPOSITORY);
    let committed = world.workshop.git.commit(&remote, &order).await?;
    Ok(Stranger { commit: committed.commit, path, line })
}

/// Puts a line at the top of a file.
struct Addition {
    path: String,
    line: String,
}

impl Change for Addition {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            let failed =
                |error: kardinal_git::Error| ChangeError { message: error.to_string(), stage: "push" };
            let before = tree.read(&self.path).map_err(failed)?.unwrap_or_default();
            let content = [format!("{}\n", self.line).into_bytes(), before].concat();
            Ok(vec![Write { path: self.path.clone(), content: Some(content) }])
        })
    }
}

/// Reviews: most pull requests are merged after a while, some are closed, and some are forgotten. The forge's
/// notifications come late, twice, or not at all.
pub(crate) async fn people(world: &World, mut random: Random) -> anyhow::Result<()> {
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), NAMESPACE);
    loop {
        for request in api.list(&ListParams::default()).await?.items {
            let status = request.status.clone().unwrap_or_default();
            if status.state != Some(PullRequestState::Open) || request.spec.desired() != Desired::Open {
                continue;
            }
            let name = request.metadata.name.clone().unwrap_or_default();
            if is_forgotten(&name) || !random.percent(40) {
                continue;
            }
            let patch = match random.below(10) {
                0 => json!({"spec": {"desired": "closed"}}),
                1 | 2 => json!({"spec": {"reviews": [{"author": "bob", "verdict": "approved"}]}}),
                _ => json!({"spec": {"desired": "merged", "mergedBy": "alice"}}),
            };
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
        for _ in 0..random.below(3) {
            world.notify().await;
        }
        tokio::time::sleep(Duration::from_secs(30 + random.below(90))).await;
    }
}

/// Whether people overlook a pull request: one in ten, always the same ones.
pub(crate) fn is_forgotten(name: &str) -> bool {
    let sum = name.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    Random::new(sum).percent(10)
}
