//! Whoever is not a controller: those who release, review, override, pause and push.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kardinal_api::forge::{Desired, PullRequest, PullRequestState};
use kardinal_git::{Author, Change, ChangeError, Order, Repositories as _, Tree, Write};
use kardinal_testkit::shop::POLICIES;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;

use crate::config::{CONFIG, Settings, flag};
use crate::scenario::{Gate, Load, Release};
use crate::world::{NAMESPACE, REPOSITORY, World};
use crate::{Random, Scenario};

/// What was done that nobody could know before.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) strangers: Vec<Stranger>,
    /// The commits of the configuration repository, each with the number of its release.
    pub(crate) configured: BTreeMap<String, u64>,
}

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

/// Lets happen what was planned, in order.
pub(crate) async fn happen(world: &World, scenario: &Scenario) -> anyhow::Result<Actions> {
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
    let mut actions = Actions::default();
    for (at, event) in events {
        world.wait_until(at).await;
        match event {
            Event::Release(release) => {
                let commit = match release.load {
                    Load::Image => None,
                    Load::Config | Load::Mixed => Some(configure(world, scenario, release).await?),
                };
                world.apply(NAMESPACE, &release.manifest(&world.url(CONFIG), commit.as_deref())).await?;
                actions.configured.extend(commit.map(|commit| (commit, release.number)));
            }
            Event::Override(gate) => world.apply(POLICIES, &gate.manifest(true)).await?,
            Event::Restart => world.restart().await?,
            Event::Push(file) => actions.strangers.push(push(world, at, file).await?),
            Event::Pause(paused) => {
                world.apply(NAMESPACE, &scenario.pipeline(&world.url(REPOSITORY), paused)).await?;
            }
        }
    }
    Ok(actions)
}

/// What the lines of strangers begin with.
pub(crate) const STRANGE: &str = "# somebody was here at ";

/// A stranger adds a line to a file that others know, or to one of their own.
async fn push(world: &World, at: u64, file: Option<&str>) -> anyhow::Result<Stranger> {
    let path = file.map_or_else(|| format!("notes-{at}.md"), str::to_owned);
    let line = format!("{STRANGE}{at}");
    let change = Addition { path: path.clone(), line: line.clone() };
    let commit = commit(world, REPOSITORY, &format!("Notes of {at}"), change).await?;
    Ok(Stranger { commit, path, line })
}

/// Somebody changes the configuration for a release.
async fn configure(world: &World, scenario: &Scenario, release: &Release) -> anyhow::Result<String> {
    let settings = scenario.settings_at(release.number).text();
    let files = [(Settings::FILE.to_owned(), settings), flag(release.number)];
    commit(world, CONFIG, &format!("Setting {}", release.number), Contents(files.into())).await
}

/// Commits to `main` as a person would.
async fn commit(
    world: &World,
    repository: &str,
    subject: &str,
    change: impl Change + 'static,
) -> anyhow::Result<String> {
    let order = Order {
        base: "main".to_owned(),
        branch: "main".to_owned(),
        message: format!("{subject}\n"),
        author: Author {
            name: "somebody".to_owned(),
            email: "somebody@example.org".to_owned(),
            time: world.now(),
        },
        identity: format!("Subject: {subject}"),
        replaces: None,
        change: Arc::new(change),
    };
    let remote = world.workshop.remote(NAMESPACE, repository);
    Ok(world.workshop.git.commit(&remote, &order).await?.commit)
}

/// Files as they shall be.
struct Contents(Vec<(String, String)>);

impl Change for Contents {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        let write = |(path, content): &(String, String)| Write {
            path: path.clone(),
            content: Some(content.clone().into_bytes()),
        };
        let writes = self.0.iter().map(write).collect();
        Box::pin(async move { Ok(writes) })
    }
}

/// Puts a line at the top of a file.
struct Addition {
    path: String,
    line: String,
}

impl Change for Addition {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            let failed = |error: kardinal_git::Error| ChangeError::problem(error.to_string());
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
