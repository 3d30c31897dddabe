//! What to tell about a Bundle: the record of each environment, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::graph::{Graph, NodeState};
use kardinal_api::kardinal::{
    BUNDLE_LABEL, Bundle, BundlePhase, BundleStatus, ENVIRONMENT_LABEL, EnvironmentStatus, GateStage,
    PolicyGate, PromotionState, PromotionStep,
};
use kardinal_object::{age, name_of};
use serde_json::Value;

use super::{GATE_TEMPLATE_LABEL, Snapshot};
use crate::promotion_step::{is_of_another, is_rejected, promoted_commit};
use kardinal_planner::condition::{self, NewCondition, Note, Truth};
use kardinal_planner::names::label_value;

/// The condition that says whether the Bundle has arrived.
pub const READY: &str = "Ready";
/// How many things a message names before it says "and more".
const NAMED: usize = 5;

/// A phase with its reason, before it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where the Bundle stands.
    pub phase: BundlePhase,
    /// Whether it has arrived.
    pub ready: Truth,
    /// The reason, in one word.
    pub reason: String,
    /// The reason in words.
    pub message: String,
}

/// The environments that a Graph promotes to, as far as it names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Their names in the order of the nodes.
    pub environments: Vec<String>,
    /// Whether some names are only known when the Graph runs.
    pub open_ended: bool,
}

impl Course {
    /// All environments that count: those that the Graph names, and where it leaves some open, those that have a record.
    pub(crate) fn all<'a>(
        &'a self,
        environments: &'a BTreeMap<String, EnvironmentStatus>,
    ) -> impl Iterator<Item = &'a String> {
        let more = environments.keys().filter(|name| self.open_ended && !self.environments.contains(name));
        self.environments.iter().chain(more)
    }
}

/// Reads the course from the steps of a Graph; nodes that the Graph leaves out do not count.
pub fn course(graph: &Graph) -> Course {
    let excluded: BTreeSet<&str> = graph
        .status
        .iter()
        .flat_map(|status| &status.nodes)
        .filter(|node| node.state == NodeState::Excluded)
        .map(|node| node.id.as_str())
        .collect();
    let mut course = Course::default();
    for node in graph.spec.nodes.iter().filter(|node| !excluded.contains(node.id.as_str())) {
        let Some(template) = &node.template else { continue };
        if template.get("kind").and_then(Value::as_str) != Some("PromotionStep") {
            continue;
        }
        match template.pointer("/spec/environment").and_then(Value::as_str) {
            Some(name) if !name.contains("${") && node.for_each.is_none() => {
                course.environments.push(name.to_owned());
            }
            _ => course.open_ended = true,
        }
    }
    course
}

/// Copies what the steps say into the record of their Bundle. Nothing is ever lost: a step that is gone leaves its entry
/// behind, and what a step does not say any more stays as it was. A step of a Bundle that had the same name is none of its.
pub fn record(bundle: &Bundle, steps: &[&PromotionStep]) -> BTreeMap<String, EnvironmentStatus> {
    let mut environments =
        bundle.status.as_ref().map(|status| status.environments.clone()).unwrap_or_default();
    let own: Vec<&PromotionStep> =
        steps.iter().copied().filter(|step| !is_of_another(step, bundle)).collect();
    for step in newest(&own) {
        let Some(status) = &step.status else { continue };
        let entry = environments.entry(step.spec.environment.clone()).or_default();
        let arrived = entry.state == Some(PromotionState::Verified);
        if arrived && status.state != Some(PromotionState::Verified) {
            // A step that was made anew starts from the beginning; the environment does not.
            continue;
        }
        let message = match status.state {
            Some(PromotionState::Verified) => None,
            _ => status.message.clone(),
        };
        // A seal proves one time, so both are of the same step.
        let seal = if entry.verified_at.is_some() { entry.seal.take() } else { status.seal.clone() };
        *entry = EnvironmentStatus {
            seal,
            state: status.state.or(entry.state),
            promoted_at: status.promoted_at.or(entry.promoted_at),
            verified_at: entry.verified_at.or(status.verified_at),
            commit: promoted_commit(status).map(str::to_owned).or_else(|| entry.commit.take()),
            message,
            rejected: is_rejected(step).then_some(true),
            rejected_at: status.rejected_at,
            rejected_by: status.rejected_by.clone(),
            failed_at: status.failed_at.or(entry.failed_at),
            pr_url: status.pr_url.clone().or_else(|| entry.pr_url.take()),
            evidence: status.evidence.clone().or_else(|| entry.evidence.take()),
        };
    }
    environments
}

/// A Bundle with what its steps say now: its own record may be a moment behind them.
pub fn up_to_date<'s>(bundle: &Bundle, steps: impl IntoIterator<Item = &'s PromotionStep>) -> Bundle {
    let steps: Vec<&PromotionStep> = steps.into_iter().filter(|step| is_step_of(step, bundle)).collect();
    let mut current = bundle.clone();
    current.status.get_or_insert_default().environments = record(bundle, &steps);
    current
}

/// Whether a step promotes a Bundle, and not one that had the same name before.
pub(crate) fn is_step_of(step: &PromotionStep, bundle: &Bundle) -> bool {
    Some(&step.spec.bundle_ref) == bundle.metadata.name.as_ref()
        && step.metadata.namespace == bundle.metadata.namespace
        && !is_of_another(step, bundle)
}

/// One step for each environment: the one made last.
pub(crate) fn newest<'a>(steps: &[&'a PromotionStep]) -> Vec<&'a PromotionStep> {
    let mut newest: BTreeMap<&str, &PromotionStep> = BTreeMap::new();
    for step in steps {
        let entry = newest.entry(step.spec.environment.as_str()).or_insert(step);
        if age(&step.metadata) > age(&entry.metadata) {
            *entry = step;
        }
    }
    newest.into_values().collect()
}

/// What the Bundle waits for, from the steps, the gates and the Graph.
pub(crate) fn waiting(
    snapshot: &Snapshot<'_>,
    course: &Course,
    environments: &BTreeMap<String, EnvironmentStatus>,
    graph: Option<&Graph>,
) -> (String, String) {
    let mut waits: Vec<(&'static str, String)> = Vec::new();
    for name in course.all(environments) {
        let entry = environments.get(name);
        match entry.and_then(|entry| entry.state) {
            Some(PromotionState::Verified) => waits.extend(gate_waits(snapshot, name, GateStage::PostDeploy)),
            Some(state) => waits.extend(entry.map(|entry| step_wait(name, state, entry))),
            None => waits.extend(gate_waits(snapshot, name, GateStage::PreDeploy)),
        }
    }
    if let Some(trouble) = graph.and_then(graph_trouble) {
        waits.push(("GraphNotReady", trouble));
    }
    let Some((reason, _)) = waits.first() else {
        let name = graph.map(|graph| name_of(&graph.metadata)).unwrap_or_default();
        return ("Promoting".to_owned(), format!("waits for the Graph `{name}` to create the next step"));
    };
    let mut parts: Vec<&str> = waits.iter().take(NAMED).map(|(_, text)| text.as_str()).collect();
    if waits.len() > NAMED {
        parts.push("and more");
    }
    ((*reason).to_owned(), parts.join("; "))
}

fn step_wait(name: &str, state: PromotionState, entry: &EnvironmentStatus) -> (&'static str, String) {
    let said = |otherwise: &str| entry.message.clone().unwrap_or_else(|| otherwise.to_owned());
    match state {
        PromotionState::WaitingForMerge => {
            let request = entry
                .pr_url
                .as_deref()
                .map_or_else(|| "its pull request".to_owned(), |url| format!("the pull request {url}"));
            // What holds it is the step's to say.
            (
                "WaitingForMerge",
                match &entry.message {
                    Some(message) => format!("`{name}`: {message} ({request})"),
                    None => format!("`{name}` waits for {request} to be merged"),
                },
            )
        }
        PromotionState::HealthChecking => {
            ("HealthChecking", format!("`{name}`: {}", said("waits for the environment to become healthy")))
        }
        PromotionState::Failed => ("StepFailed", format!("`{name}`: {}", said("the promotion has failed"))),
        PromotionState::Pending | PromotionState::Promoting | PromotionState::Verified => {
            ("Promoting", format!("`{name}`: {}", said("the change is being written")))
        }
    }
}

/// The closed gates in front of an environment that has no step yet, or behind one that is verified.
fn gate_waits(snapshot: &Snapshot<'_>, environment: &str, stage: GateStage) -> Vec<(&'static str, String)> {
    let bundle = label_value(name_of(&snapshot.bundle.metadata));
    let label =
        |gate: &PolicyGate, key: &str| gate.metadata.labels.as_ref().and_then(|map| map.get(key).cloned());
    let mut closed: Vec<&PolicyGate> = snapshot
        .gates
        .iter()
        .copied()
        .filter(|gate| gate.spec.when.unwrap_or_default() == stage)
        .filter(|gate| gate.metadata.namespace == snapshot.bundle.metadata.namespace)
        .filter(|gate| label(gate, GATE_TEMPLATE_LABEL).is_some())
        .filter(|gate| label(gate, BUNDLE_LABEL).as_deref() == Some(bundle.as_str()))
        .filter(|gate| label(gate, ENVIRONMENT_LABEL).as_deref() == Some(environment))
        .filter(|gate| gate.status.as_ref().and_then(|status| status.ready) != Some(true))
        .collect();
    closed.sort_by_key(|gate| gate.metadata.name.clone());
    closed
        .into_iter()
        .map(|gate| {
            let name = label(gate, GATE_TEMPLATE_LABEL).unwrap_or_default();
            let who = match stage {
                GateStage::PreDeploy => format!("`{environment}`"),
                GateStage::PostDeploy => format!("what comes after `{environment}`"),
            };
            ("WaitingForGate", format!("{who} waits for the gate `{name}`{}", gate_detail(gate)))
        })
        .collect()
}

/// Until when a gate is closed; only where that is unknown its values, for those change with every evaluation.
fn gate_detail(gate: &PolicyGate) -> String {
    let Some(status) = &gate.status else { return ", which has not been asked yet".to_owned() };
    match (status.next_change_at, &status.reason, &gate.spec.message) {
        (Some(at), _, Some(message)) => format!(" until {at} at the earliest: {message}"),
        (Some(at), _, None) => format!(" until {at} at the earliest"),
        (None, Some(reason), _) => format!(": {reason}"),
        (None, None, _) => ", which has not been asked yet".to_owned(),
    }
}

fn graph_trouble(graph: &Graph) -> Option<String> {
    if graph.metadata.deletion_timestamp.is_some() {
        let name = name_of(&graph.metadata);
        return Some(format!("the Graph `{name}` is being deleted; after that it is made again"));
    }
    let status = graph.status.as_ref()?;
    let failed = status.conditions.iter().find(|condition| condition.status == "False")?;
    Some(format!("the Graph `{}` cannot go on: {}", name_of(&graph.metadata), failed.message))
}

/// The whole status, when it differs from the one observed, and the transition worth an Event.
pub fn report(
    snapshot: &Snapshot<'_>,
    standing: &Standing,
    environments: BTreeMap<String, EnvironmentStatus>,
    graph_ref: Option<String>,
) -> (Option<BundleStatus>, Vec<Note>) {
    let old = snapshot.bundle.status.clone().unwrap_or_default();
    let generation = snapshot.bundle.metadata.generation;
    let (ready, reason, message) = (standing.ready, standing.reason.clone(), standing.message.clone());
    let new = NewCondition::new(READY, ready, reason, message);
    let same = condition::find(&old.conditions, READY).filter(|before| condition::is(before, ready));
    let moved = old.phase != Some(standing.phase);
    let refused = ready == Truth::False && same.is_none_or(|before| before.reason != new.reason);
    let warning = ready == Truth::False && standing.phase != BundlePhase::Superseded;
    let notes = (moved || refused).then(|| new.note(warning)).into_iter().collect();
    let condition = new.since(&old.conditions, generation, snapshot.now);
    let others = old.conditions.iter().filter(|condition| condition.type_ != READY).cloned();
    let status = BundleStatus {
        observed_generation: generation,
        phase: Some(standing.phase),
        graph_ref,
        conditions: others.chain([condition]).collect(),
        environments,
        rollbacks_put_off: old.rollbacks_put_off.clone(),
        rollbacks: old.rollbacks.clone(),
    };
    ((status != old).then_some(status), notes)
}
