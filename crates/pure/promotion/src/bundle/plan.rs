//! What to do about a Bundle now.

use std::collections::BTreeMap;

use kardinal_api::graph::{self as api, Graph};
use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleStatus, EnvironmentStatus, PIPELINE_LABEL, PromotionState,
};
use kardinal_object::name_of;

use super::check::check;
use super::commit::{self, Commit, Hold, Search};
use super::gates;
use super::report::{GraphEnvironments, READY, Standing, graph_environments, record, report, waiting};
use super::rollback::{look_again, roll_back};
use super::siblings::{is_history, superseded};
use super::why::{no_pipeline, nothing_proven};
use super::{Snapshot, carries, failure};
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::sentence;
use kardinal_planner::why::Wait;

/// One write. Doing it twice is harmless.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Creates the Graph unless one of that name exists.
    CreateGraph(Box<Graph>),
    /// Deletes exactly this Graph.
    DeleteGraph {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// Creates the Bundle unless one of that name exists.
    CreateBundle(Box<Bundle>),
    /// Deletes exactly this Bundle.
    DeleteBundle {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
}

/// What one pass does. The effects come before the status: when one fails, the status stays and the next pass tries
/// again. Only a deletion that is refused holds up no status: see [`super::refused()`].
pub type Plan = sentence::Plan<Effect, BundleStatus>;

/// The reason of the condition of a Bundle whose place another one has taken; its message says which one.
pub(crate) const SUPERSEDED: &str = "Superseded";

/// Whether a phase is the end: nothing leads out of it.
pub fn is_finished(phase: BundlePhase) -> bool {
    match phase {
        BundlePhase::Verified | BundlePhase::Failed | BundlePhase::Superseded | BundlePhase::SkipDenied => {
            true
        }
        BundlePhase::Available | BundlePhase::Promoting => false,
    }
}

/// Decides what to do. Cannot fail: whatever was observed, something sensible follows. Nothing does as long as a commit has
/// to be looked for.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    decide(snapshot).unwrap_or_default()
}

/// The commit that has to be looked for before anything can be decided.
pub fn search(snapshot: &Snapshot<'_>) -> Option<Search> {
    let may_start = phase_of(snapshot.bundle).is_none_or(|phase| phase == BundlePhase::Available);
    let brings_one = snapshot.bundle.spec.artifacts.git_commit.is_some();
    let is_unknown = may_start && brings_one && *snapshot.commit == Commit::Unknown;
    is_unknown.then(|| decide(snapshot).err()).flatten().map(|search| *search)
}

/// Decides what to do, or which commit is to be looked for first.
fn decide(snapshot: &Snapshot<'_>) -> Result<Plan, Box<Search>> {
    if snapshot.bundle.metadata.deletion_timestamp.is_some() {
        return Ok(Plan::default());
    }
    match phase_of(snapshot.bundle) {
        Some(phase) if is_finished(phase) => Ok(plan_finished(snapshot, phase)),
        phase => plan_open(snapshot, phase == Some(BundlePhase::Promoting)),
    }
}

/// A Bundle that is still on its way, or not even that.
fn plan_open(snapshot: &Snapshot<'_>, started: bool) -> Result<Plan, Box<Search>> {
    let graph = own_graph(snapshot);
    let environments = record(snapshot.bundle, snapshot.steps);
    if failure::failed(&environments).next().is_some() {
        return Ok(plan_failed(snapshot, graph, environments));
    }
    if let Some(message) = superseded(snapshot, graph, &environments) {
        let end = (BundlePhase::Superseded, Truth::False, SUPERSEDED, message);
        return Ok(finish(snapshot, environments, graph, end));
    }
    match graph {
        Some(graph) => Ok(plan_promoting(snapshot, graph, environments)),
        None => plan_start(snapshot, started, environments),
    }
}

/// There is no Graph: the first one is made, or one that was deleted by hand is made again. Steps do nothing twice.
fn plan_start(
    snapshot: &Snapshot<'_>,
    started: bool,
    environments: BTreeMap<String, EnvironmentStatus>,
) -> Result<Plan, Box<Search>> {
    let Some(pipeline) = snapshot.pipeline else {
        let phase = if started { BundlePhase::Promoting } else { BundlePhase::Available };
        let standing = Standing::held(phase, pipeline_missing(snapshot.bundle));
        let graph_ref = snapshot.bundle.status.as_ref().and_then(|status| status.graph_ref.clone());
        let (status, notes) = report(snapshot, &standing, environments, graph_ref);
        return Ok(Plan { status, notes, ..Plan::default() });
    };
    let graph = match check(snapshot, pipeline) {
        Ok(graph) => graph,
        Err(refusal) if !is_finished(refusal.phase) => {
            return Ok(commit::wait(snapshot, environments, nothing_proven(refusal.message)));
        }
        Err(refusal) => {
            let end = (refusal.phase, Truth::False, refusal.reason, refusal.message);
            return Ok(finish(snapshot, environments, None, end));
        }
    };
    match commit::hold(snapshot, pipeline).filter(|_| !started) {
        None => {}
        Some(Hold::Search(search)) => return Err(Box::new(search)),
        Some(Hold::Wait(wait)) => return Ok(commit::wait(snapshot, environments, wait)),
        Some(Hold::Missing(message)) => {
            let end = (BundlePhase::Failed, Truth::False, "CommitNotFound", message);
            return Ok(finish(snapshot, environments, None, end));
        }
    }
    let mut plan = plan_promoting(snapshot, &graph, environments);
    if plan.status.as_ref().and_then(|status| status.phase).is_none_or(|phase| !is_finished(phase)) {
        plan.stages.push(vec![Effect::CreateGraph(Box::new(graph))]);
        // It settles for good which gates hold the Bundle: one that was there before it must not be missed.
        plan.fresh = vec![gates::kind()];
    }
    Ok(plan)
}

fn pipeline_missing(bundle: &Bundle) -> Wait {
    let name = pipeline_name(bundle);
    let said = match name {
        None => format!("the label `{PIPELINE_LABEL}` is missing: it names the Pipeline to go through"),
        Some(name) => format!(
            "waits for the Pipeline `{name}` in namespace `{}`, which does not exist",
            bundle.metadata.namespace.as_deref().unwrap_or_default()
        ),
    };
    no_pipeline(name, said)
}

/// The Pipeline that a Bundle is made for.
pub fn pipeline_name(bundle: &Bundle) -> Option<&str> {
    bundle.metadata.labels.as_ref()?.get(PIPELINE_LABEL).map(String::as_str)
}

/// A step has failed: the Bundle ends, and what it brought is taken back.
fn plan_failed(
    snapshot: &Snapshot<'_>,
    graph: Option<&Graph>,
    environments: BTreeMap<String, EnvironmentStatus>,
) -> Plan {
    let back = roll_back(snapshot, &environments);
    let failure = failure::at_the_end(&environments, back.lost.clone());
    let (reason, message) =
        (failure::reason(&failure, &environments), failure::message(&failure, &environments));
    let mut plan =
        finish(snapshot, environments, graph, (BundlePhase::Failed, Truth::False, reason, message));
    if let Some(status) = &mut plan.status {
        status.failure = Some(failure);
        back.write_down(snapshot, status);
    }
    plan.stages = back.effects.into_iter().map(|effect| vec![effect]).collect();
    plan.notes.extend(back.notes);
    plan
}

/// The Graph is there, or about to be: what has been reached, and what is it waiting for?
fn plan_promoting(
    snapshot: &Snapshot<'_>,
    graph: &Graph,
    environments: BTreeMap<String, EnvironmentStatus>,
) -> Plan {
    let graph_environments = graph_environments(graph);
    if has_arrived(graph, &graph_environments, &environments) {
        let names = graph_environments.environments.join("`, `");
        let message = format!("verified in `{names}`");
        return finish(
            snapshot,
            environments,
            Some(graph),
            (BundlePhase::Verified, Truth::True, "Verified", message),
        );
    }
    let waits = waiting(snapshot, &graph_environments, &environments, Some(graph));
    let standing = Standing::on_its_way(waits, &environments);
    let (status, notes) = report(snapshot, &standing, environments, graph.metadata.name.clone());
    Plan { status, notes, ..Plan::default() }
}

/// Every environment of the Graph is verified. Where a hand-written Graph names some only while it runs, the Graph
/// itself must be ready too.
fn has_arrived(
    graph: &Graph,
    graph_environments: &GraphEnvironments,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> bool {
    let verified = |name: &String| {
        environments.get(name).and_then(|entry| entry.state) == Some(PromotionState::Verified)
    };
    let mut all = graph_environments.all(environments).peekable();
    all.peek().is_some() && all.all(verified) && (!graph_environments.open_ended || is_ready(graph))
}

fn is_ready(graph: &Graph) -> bool {
    let Some(status) = &graph.status else { return false };
    status.observed_generation == graph.metadata.generation
        && status.conditions.iter().any(|one| one.type_ == api::READY && condition::is(one, Truth::True))
}

/// Writes down how the Bundle ends.
fn finish(
    snapshot: &Snapshot<'_>,
    environments: BTreeMap<String, EnvironmentStatus>,
    graph: Option<&Graph>,
    (phase, ready, reason, message): (BundlePhase, Truth, &str, String),
) -> Plan {
    let standing = Standing { phase, ready, reason: reason.to_owned(), message, waits: Vec::new() };
    let known = snapshot.bundle.status.as_ref().and_then(|status| status.graph_ref.clone());
    let graph_ref = graph.and_then(|graph| graph.metadata.name.clone()).or(known);
    let (status, notes) = report(snapshot, &standing, environments, graph_ref);
    Plan { status, notes, ..Plan::default() }
}

/// The phase of a finished Bundle never changes. Its record still grows while steps beside the failed one go on, what it
/// brought is taken back when the newer one that it counted on does not come, its Graph goes when another Bundle has taken
/// over, and itself when it is beyond the history.
fn plan_finished(snapshot: &Snapshot<'_>, phase: BundlePhase) -> Plan {
    let mut plan = Plan::default();
    if matches!(phase, BundlePhase::Superseded | BundlePhase::SkipDenied)
        && let Some(graph) = own_graph(snapshot).filter(|graph| graph.metadata.deletion_timestamp.is_none())
    {
        plan.stages.push(vec![Effect::DeleteGraph {
            name: name_of(&graph.metadata).to_owned(),
            uid: graph.metadata.uid.clone().unwrap_or_default(),
        }]);
    }
    let mut status = snapshot.bundle.status.clone().unwrap_or_default();
    let environments = record(snapshot.bundle, snapshot.steps);
    let has_grown = environments != status.environments;
    if has_grown {
        status.environments = environments;
        failure::tell(&mut status);
    }
    if let Some(again) = look_again(snapshot, &status) {
        return Plan { status: again.status.or_else(|| has_grown.then_some(status)), ..again };
    }
    if has_grown {
        // Before anything else: what the Bundle has brought decides whether it can be spared.
        plan.status = Some(status);
    } else if is_history(snapshot) {
        plan.stages.push(vec![Effect::DeleteBundle {
            name: name_of(&snapshot.bundle.metadata).to_owned(),
            uid: snapshot.bundle.metadata.uid.clone().unwrap_or_default(),
        }]);
    }
    plan
}

/// The Graph that promotes this Bundle; its own before one that was written by hand.
fn own_graph<'a>(snapshot: &Snapshot<'a>) -> Option<&'a Graph> {
    let mut carrying: Vec<&Graph> =
        snapshot.graphs.iter().copied().filter(|graph| carries(graph, snapshot.bundle)).collect();
    carrying.sort_by_key(|graph| (graph.metadata.owner_references.is_none(), name_of(&graph.metadata)));
    carrying.first().copied()
}

/// Where a Bundle stands, by its own status.
pub fn phase_of(bundle: &Bundle) -> Option<BundlePhase> {
    bundle.status.as_ref().and_then(|status| status.phase)
}

/// What a Bundle says about itself: the message of its `Ready` condition.
pub fn why(bundle: &Bundle) -> Option<&str> {
    let status = bundle.status.as_ref()?;
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == READY)
        .map(|condition| condition.message.as_str())
}
