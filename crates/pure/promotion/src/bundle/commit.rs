//! The commit that a Bundle of configuration brings. It is looked for before the Bundle starts: one that brings a commit
//! which is not there must not take the place of a Bundle that works.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{
    Bundle, BundlePhase, Environment, EnvironmentStatus, GitCommit, Pipeline, PromotionStep, SHARD_LABEL,
};

use super::report::{Standing, report};
use super::{Plan, Route, Snapshot, step_spec, why};
use crate::promotion_step::{TaskKind, check};
use kardinal_planner::why::Wait;

/// When to look again for what could not be read.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What is known of the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Commit {
    /// Nobody has looked for it yet.
    #[default]
    Unknown,
    /// It is there.
    Found,
    /// All environments that take it over are served by other processes, which alone may reach the repository.
    Elsewhere,
    /// It is not there, or its id means several.
    Missing(String),
    /// Nobody can tell now.
    Unreachable(String),
}

/// A commit to look for.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The repository and the id.
    pub commit: GitCommit,
    /// The steps that will take it over: they say with which credentials repositories are read, and by whom.
    pub steps: Vec<PromotionStep>,
}

/// What keeps a Bundle from its start because of its commit.
pub(super) enum Hold {
    /// It has to be looked for first.
    Search(Search),
    /// It cannot be used.
    Missing(String),
    /// Nobody can tell now.
    Wait(Wait),
}

/// What keeps the Bundle from its start, if its commit does.
pub(super) fn hold(snapshot: &Snapshot<'_>, pipeline: &Pipeline) -> Option<Hold> {
    let search = search(snapshot.bundle, pipeline)?;
    match snapshot.commit {
        Commit::Found | Commit::Elsewhere => None,
        Commit::Unknown => Some(Hold::Search(search)),
        Commit::Missing(why) => {
            Some(Hold::Missing(format!("`spec.artifacts.gitCommit.sha` of the Bundle cannot be used: {why}")))
        }
        Commit::Unreachable(why) => {
            let GitCommit { repository, sha, .. } = &search.commit;
            let said = format!("waits to learn whether `{repository}` has the commit `{sha}`: {why}");
            Some(Hold::Wait(why::commit_unknown(repository, said)))
        }
    }
}

/// The plan of a Bundle that waits for what cannot be read now. It has not started, so it takes nobody's place.
pub(super) fn wait(
    snapshot: &Snapshot<'_>,
    environments: BTreeMap<String, EnvironmentStatus>,
    wait: Wait,
) -> Plan {
    let standing = Standing::held(BundlePhase::Available, wait);
    let (status, notes) = report(snapshot, &standing, environments, None);
    let wake = snapshot.now.saturating_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
    Plan { status, notes, wake: Some(wake), ..Plan::default() }
}

/// The commit that some environment on the Bundle's way takes over from its repository.
fn search(bundle: &Bundle, pipeline: &Pipeline) -> Option<Search> {
    let commit = bundle.spec.artifacts.git_commit.clone()?;
    let route = Route::intended(&pipeline.spec, bundle.spec.intent.as_ref()).ok()?;
    let steps = route.stops().iter().map(|stop| step(bundle, pipeline, stop.environment));
    let merges = |step: &PromotionStep| {
        let checked = check(step, bundle.spec.kind());
        let tasks = checked.iter().flat_map(|checked| &checked.tasks);
        tasks.into_iter().any(|task| matches!(task.kind, TaskKind::ConfigMerge { .. }))
    };
    let steps: Vec<PromotionStep> = steps.filter(merges).collect();
    (!steps.is_empty()).then_some(Search { commit, steps })
}

fn step(bundle: &Bundle, pipeline: &Pipeline, environment: &Environment) -> PromotionStep {
    let mut step = PromotionStep::new("", step_spec(pipeline, environment, false));
    step.metadata.namespace.clone_from(&bundle.metadata.namespace);
    let shard = environment.shard.iter().map(|shard| (SHARD_LABEL.to_owned(), shard.clone()));
    step.metadata.labels = Some(shard.collect());
    step
}
