//! What must hold, always and in the end.

mod contents;
mod gates;
mod lanes;
mod records;
mod waits;

use anyhow::Context as _;
use kardinal_api::forge::PullRequest;
use kardinal_api::kardinal::{Bundle, PromotionStep};
use kardinal_testkit::shop::git;
use kube::Api;
use kube::api::ListParams;

use crate::Scenario;
use crate::fate::promotion;
use crate::hands::Actions;
use crate::world::{NAMESPACE, REPOSITORY, World};

pub(crate) use lanes::watch;

/// What is left of a world.
struct Rest<'a> {
    scenario: &'a Scenario,
    actions: &'a Actions,
    bundles: Vec<Bundle>,
    steps: Vec<PromotionStep>,
    requests: Vec<PullRequest>,
    /// The commits of `main`, newest first.
    log: Vec<Commit>,
}

/// A commit of `main`.
#[derive(Debug)]
struct Commit {
    id: String,
    subject: String,
}

/// Looks at what is left.
pub(crate) async fn at_rest(world: &World, scenario: &Scenario, actions: &Actions) -> anyhow::Result<()> {
    let client = &world.client;
    let bundles: Api<Bundle> = Api::namespaced(client.clone(), NAMESPACE);
    let steps: Api<PromotionStep> = Api::namespaced(client.clone(), NAMESPACE);
    let requests: Api<PullRequest> = Api::namespaced(client.clone(), NAMESPACE);
    let path = world.workshop.forge.store.path(NAMESPACE, REPOSITORY)?;
    let log = git(&path, &["log", "--format=%H %s", "--topo-order", "main"])?;
    let commit = |line: &str| {
        let (id, subject) = line.split_once(' ')?;
        Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
    };
    let all = ListParams::default();
    let rest = Rest {
        scenario,
        actions,
        bundles: bundles.list(&all).await?.items,
        steps: steps.list(&all).await?.items,
        requests: requests.list(&all).await?.items,
        log: log.lines().filter_map(commit).collect(),
    };
    waits::check(&rest)?;
    gates::check(&rest, &world.log.attempts())?;
    records::check(&rest)?;
    contents::check(&rest, world).await
}

impl Rest<'_> {
    fn bundle(&self, name: &str) -> anyhow::Result<&Bundle> {
        let mut all = self.bundles.iter();
        let found = all.find(|bundle| bundle.metadata.name.as_deref() == Some(name));
        found.with_context(|| format!("there is no Bundle `{name}`"))
    }

    /// The promotions to an environment whose commits are in `main`, oldest first.
    fn promotions(&self, environment: &str) -> impl Iterator<Item = (String, &Commit)> {
        self.log.iter().rev().filter_map(move |commit| {
            let (bundle, to) = promotion(&commit.subject)?;
            (to == environment).then_some((bundle, commit))
        })
    }

    /// The number of the release whose configuration a Bundle carries.
    fn configures(&self, bundle: &Bundle) -> anyhow::Result<Option<u64>> {
        let Some(commit) = &bundle.spec.artifacts.git_commit else { return Ok(None) };
        let number = self.actions.configured.get(&commit.sha);
        number.copied().map(Some).with_context(|| format!("nobody has made the commit {commit:?}"))
    }
}

fn name_of(bundle: &Bundle) -> &str {
    bundle.metadata.name.as_deref().unwrap_or_default()
}

/// The message of the condition that says where a Bundle stands.
fn message_of(bundle: &Bundle) -> &str {
    let mut conditions = bundle.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    ready.map(|condition| condition.message.as_str()).unwrap_or_default()
}

/// Bundle and environment of a promotion branch.
fn parts(head: &str) -> Option<(&str, &str)> {
    head.strip_prefix("kardinal/")?.strip_prefix(NAMESPACE)?.strip_prefix('/')?.split_once('/')
}
