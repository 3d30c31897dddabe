//! What to tell about a Bundle: the record of each environment, and what it waits for.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::graph::{Graph, NodeState};
use kardinal_api::kardinal::{
    BUNDLE_LABEL, Bundle, BundlePhase, BundleStatus, ENVIRONMENT_LABEL, EnvironmentStatus, GateStage,
    PolicyGate, PromotionState, PromotionStep,
};
use kardinal_object::{age, name_of};
use serde_json::Value;

use super::{GATE_TEMPLATE_LABEL, Snapshot, why};
use crate::promotion_step::{is_of_another, is_rejected, promoted_commit};
use kardinal_planner::condition::{self, NewCondition, Note, Truth};
use kardinal_planner::names::label_value;
use kardinal_planner::why::{Wait, in_room};

/// The condition that says whether the Bundle has arrived.
pub const READY: &str = "Ready";

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
    /// What it waits for, the most important first.
    pub waits: Vec<Wait>,
}

impl Standing {
    /// A Bundle that cannot set out as long as this is waited for.
    pub(super) fn held(phase: BundlePhase, wait: Wait) -> Standing {
        let (reason, message) = (wait.reason.clone(), wait.detail.clone());
        Standing { phase, ready: Truth::False, reason, message, waits: vec![wait] }
    }

    /// A Bundle that is on its way, and what it waits for there.
    pub(super) fn on_its_way(
        waits: Vec<Wait>,
        environments: &BTreeMap<String, EnvironmentStatus>,
    ) -> Standing {
        let (reason, message) = (why::word(&waits, environments), why::message(&waits, environments));
        Standing { phase: BundlePhase::Promoting, ready: Truth::Unknown, reason, message, waits }
    }
}

/// The environments that a Graph promotes to, as far as it names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphEnvironments {
    /// Their names in the order of the nodes.
    pub environments: Vec<String>,
    /// Whether some names are only known when the Graph runs.
    pub open_ended: bool,
}

impl GraphEnvironments {
    /// All environments that count: those that the Graph names, and where it leaves some open, those that have a record.
    pub(crate) fn all<'a>(
        &'a self,
        environments: &'a BTreeMap<String, EnvironmentStatus>,
    ) -> impl Iterator<Item = &'a String> {
        let more = environments.keys().filter(|name| self.open_ended && !self.environments.contains(name));
        self.environments.iter().chain(more)
    }
}

/// The environments that the steps of a Graph promote to; nodes that the Graph leaves out do not count.
pub fn graph_environments(graph: &Graph) -> GraphEnvironments {
    let excluded: BTreeSet<&str> = graph
        .status
        .iter()
        .flat_map(|status| &status.nodes)
        .filter(|node| node.state == NodeState::Excluded)
        .map(|node| node.id.as_str())
        .collect();
    let mut found = GraphEnvironments::default();
    for node in graph.spec.nodes.iter().filter(|node| !excluded.contains(node.id.as_str())) {
        let Some(template) = &node.template else { continue };
        if template.get("kind").and_then(Value::as_str) != Some("PromotionStep") {
            continue;
        }
        match template.pointer("/spec/environment").and_then(Value::as_str) {
            Some(name) if !name.contains("${") && node.for_each.is_none() => {
                found.environments.push(name.to_owned());
            }
            _ => found.open_ended = true,
        }
    }
    found
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
    graph_environments: &GraphEnvironments,
    environments: &BTreeMap<String, EnvironmentStatus>,
    graph: Option<&Graph>,
) -> Vec<Wait> {
    let own: Vec<&PromotionStep> =
        snapshot.steps.iter().copied().filter(|step| !is_of_another(step, snapshot.bundle)).collect();
    let steps = newest(&own);
    let mut waits: Vec<Wait> = Vec::new();
    for name in graph_environments.all(environments) {
        let entry = environments.get(name);
        match entry.and_then(|entry| Some((entry, entry.state?))) {
            Some((_, PromotionState::Verified)) => {
                waits.extend(gate_waits(snapshot, name, GateStage::PostDeploy))
            }
            Some((entry, state)) => {
                let step = steps.iter().find(|step| step.spec.environment == *name).copied();
                waits.extend(why::of_step(name, state, entry, step));
            }
            None => waits.extend(gate_waits(snapshot, name, GateStage::PreDeploy)),
        }
    }
    waits.extend(graph.and_then(why::trouble));
    if waits.is_empty() {
        waits.push(why::next_step(graph));
    }
    waits
}

/// The closed gates in front of an environment that has no step yet, or behind one that is verified.
fn gate_waits(snapshot: &Snapshot<'_>, environment: &str, stage: GateStage) -> Vec<Wait> {
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
    let name = |gate| label(gate, GATE_TEMPLATE_LABEL).unwrap_or_default();
    closed.into_iter().map(|gate| why::gate(environment, &name(gate), gate)).collect()
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
        waits: in_room(standing.waits.clone()),
        environments,
        rollbacks_put_off: old.rollbacks_put_off.clone(),
        rollbacks: old.rollbacks.clone(),
        failure: old.failure.clone(),
    };
    ((status != old).then_some(status), notes)
}
