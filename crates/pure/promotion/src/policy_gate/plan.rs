//! What to write down about a gate, and when to ask it again.

use std::convert::Infallible;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::kardinal::{GateStage, Pipeline, PromotionState};
use kardinal_api::{Bundle, PolicyGate, PolicyGateSpec, PolicyGateStatus};
use kardinal_graph::GRAPH_ANNOTATION;
use kardinal_object::{label_of, name_of, whole_second};
use kardinal_planner::condition::{self, NewCondition, Note, Truth};
use kardinal_planner::sentence;
use kardinal_policy::{GATE_TEMPLATE_LABEL, Verdict, evaluate, is_freeze, names_something, recheck_interval};

use super::check::problem;
use super::report::{notes, ready_condition, says_the_same, second_after};
use super::{COMPILED, GUARDS, Place, READY, guards_nothing};
use crate::bundle::is_finished;
use crate::gate_context::{Candidate, Surroundings};

/// An answer that has just changed is left standing for so long.
pub(super) const MIN_PAUSE: SignedDuration = SignedDuration::from_secs(1);
/// How long a gate of the organisation has to be gone until that is taken for the organisation's word.
const CERTAIN: SignedDuration = SignedDuration::from_mins(1);
/// The reason of the condition of an instance whose gate the organisation has deleted.
pub(super) const DELETED: &str = "Deleted";

/// Everything a decision about one gate is made from.
#[derive(Clone, Debug)]
pub struct Snapshot<'a> {
    /// The gate as last seen.
    pub gate: &'a PolicyGate,
    /// The template that it was made from, as it is now: overrides that are given there count too.
    pub template: Option<&'a PolicyGate>,
    /// What the organisation says, when the gate shows one of its templates: then nothing else counts.
    pub authority: Option<Authority<'a>>,
    /// Whether it shows one that the organisation has deleted: once that is certain it holds nobody any more.
    pub is_withdrawn: bool,
    /// Where the gate stands, when that is known.
    pub place: Option<Place>,
    /// The Pipelines that count the gate as a template of theirs.
    pub pipelines: &'a [&'a Pipeline],
    /// The Bundle of the place.
    pub bundle: Option<&'a Bundle>,
    /// What gates see around it.
    pub around: &'a Surroundings,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// A template of the organisation, and what its gates are told: the same as what a step asks before it changes Git.
#[derive(Clone, Copy, Debug)]
pub struct Authority<'a> {
    /// The template as it is now.
    pub template: &'a PolicyGate,
    /// The Bundle as far as it is proven.
    pub candidate: &'a Candidate<'a>,
}

/// What is told of a gate. There is nothing to do about it: others wait for it.
pub type Plan = sentence::Plan<Infallible, PolicyGateStatus>;

/// Decides about one gate. Cannot fail: what cannot be evaluated is a closed gate with a reason.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    if !is_instance(snapshot) {
        return check_only(snapshot);
    }
    let missing = |what: String| closed_for_want(snapshot, what);
    let Some(place) = &snapshot.place else {
        return missing(
            "nothing says which Bundle and environment the gate belongs to: let a PromotionStep of the Graph name it \
             in `spec.requiredGates`"
                .to_owned(),
        );
    };
    let Some(bundle) = snapshot.bundle else {
        // Nobody passes a gate any more whose Bundle is gone: that is no news.
        let plan = missing(format!("Bundle `{}` does not exist", place.bundle));
        return Plan { notes: Vec::new(), ..plan };
    };
    if !matters(snapshot.gate, bundle, &place.environment) {
        return Plan::default();
    }
    ask(snapshot, place, bundle)
}

/// Whether the gate holds a Bundle; otherwise it is a template, or a pause, which steps look at by themselves.
fn is_instance(snapshot: &Snapshot<'_>) -> bool {
    let gate = snapshot.gate;
    if is_freeze(gate) {
        return false;
    }
    let in_graph = gate.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(GRAPH_ANNOTATION));
    label_of(&gate.metadata, GATE_TEMPLATE_LABEL).is_some()
        || snapshot.place.is_some()
        || (in_graph && !names_something(gate))
}

/// Whether anybody still looks at the gate: the Bundle is on its way, and what it brings is not in the environment yet. A
/// pull request shows what the gates say for as long as it is open. A gate behind an environment is asked to the end.
fn matters(gate: &PolicyGate, bundle: &Bundle, environment: &str) -> bool {
    let Some(status) = &bundle.status else { return true };
    let finished = status.phase.is_some_and(is_finished);
    let state = status.environments.get(environment).and_then(|record| record.state);
    let behind = gate.spec.when == Some(GateStage::PostDeploy);
    let open = matches!(
        state,
        None | Some(PromotionState::Pending | PromotionState::Promoting | PromotionState::WaitingForMerge)
    );
    !finished && (open || behind)
}

fn ask(snapshot: &Snapshot<'_>, place: &Place, bundle: &Bundle) -> Plan {
    let Snapshot { gate, now, .. } = *snapshot;
    let verdict = match &snapshot.authority {
        _ if snapshot.is_withdrawn => withdrawn(gate, now),
        Some(Authority { template, candidate }) => {
            let context = candidate.context(place.facts(), now);
            evaluate(name_of(&template.metadata), &template.spec, &context)
        }
        None => {
            let context =
                Candidate::written(bundle, &place.environment, snapshot.around).context(place.facts(), now);
            evaluate(title(gate), &with_overrides(snapshot), &context)
        }
    };
    let old = gate.status.clone().unwrap_or_default();
    let recheck = recheck_interval(&gate.spec);
    let mut status = PolicyGateStatus {
        observed_generation: gate.metadata.generation,
        ready: Some(verdict.is_open()),
        reason: Some(verdict.reason.clone()),
        last_evaluated_at: Some(whole_second(now)),
        next_change_at: verdict.next_change.map(second_after),
        waits: verdict.why.clone(),
        conditions: Vec::new(),
    };
    let condition = ready_condition(&gate.spec, &verdict, snapshot.is_withdrawn);
    let fresh = old
        .last_evaluated_at
        .filter(|last| *last <= now && now.duration_since(*last) < recheck)
        .filter(|_| says_the_same(&old, &status));
    let (last, notes) = match fresh {
        Some(last) => (last, Vec::new()),
        None => (whole_second(now), notes(&old, &verdict)),
    };
    let again = last.saturating_add(recheck).unwrap_or(Timestamp::MAX);
    // Only an answer that has just changed is given a pause, so that every other change is seen on time.
    let flipped = old.ready.is_some_and(|before| before != verdict.is_open());
    let pause = if flipped { MIN_PAUSE } else { SignedDuration::ZERO };
    let earliest = last.saturating_add(pause).unwrap_or(Timestamp::MAX);
    let wake = verdict.next_change.map_or(again, |change| change.max(earliest).min(again));
    status.conditions = vec![condition.since(&old.conditions, gate.metadata.generation, now)];
    Plan { status: fresh.is_none().then_some(status), wake: Some(wake), notes, ..Plan::default() }
}

/// The name that people know a gate by: that of its template.
fn title(gate: &PolicyGate) -> &str {
    label_of(&gate.metadata, GATE_TEMPLATE_LABEL).unwrap_or(name_of(&gate.metadata))
}

/// The answer for a gate that the organisation has deleted: what was copied from it is nobody's word. One that was closed
/// holds for a while longer, for whoever replaces a gate deletes it for a moment.
fn withdrawn(gate: &PolicyGate, now: Timestamp) -> Verdict {
    let name = label_of(&gate.metadata, GATE_TEMPLATE_LABEL).unwrap_or_default();
    let status = gate.status.as_ref();
    let found = status.and_then(|status| condition::find(&status.conditions, READY));
    let is_on_record = found.is_some_and(|found| found.reason == DELETED);
    let was_open = status.is_some_and(|status| status.ready == Some(true));
    let until = status.filter(|_| is_on_record).and_then(|status| status.next_change_at);
    let until = until.unwrap_or_else(|| whole_second(now.saturating_add(CERTAIN).unwrap_or(now)));
    let ready = was_open || until <= now;
    let reason = match ready {
        true => format!("the organisation has deleted its gate `{name}`: it holds nobody any more"),
        false => format!(
            "the organisation has deleted its gate `{name}`: unless it comes back, it holds until {until}"
        ),
    };
    match ready {
        true => Verdict::allow(reason, None),
        false => Verdict::closed(name, reason, Some(until)),
    }
}

/// Whether an instance has told that its gate is deleted and holds nobody any more.
pub(crate) fn is_released(instance: &PolicyGate) -> bool {
    let found = instance.status.as_ref().and_then(|status| condition::find(&status.conditions, READY));
    found.is_some_and(|found| found.reason == DELETED && condition::is(found, Truth::True))
}

/// The gate's spec with the overrides of its template.
fn with_overrides(snapshot: &Snapshot<'_>) -> PolicyGateSpec {
    let mut spec = snapshot.gate.spec.clone();
    if let Some(template) = snapshot.template {
        for given in &template.spec.overrides {
            if !spec.overrides.contains(given) {
                spec.overrides.push(given.clone());
            }
        }
    }
    spec
}

/// Says once what is missing. Whatever brings it makes the gate be looked at again.
fn closed_for_want(snapshot: &Snapshot<'_>, what: String) -> Plan {
    let gate = snapshot.gate;
    let old = gate.status.clone().unwrap_or_default();
    let same = old.ready == Some(false)
        && old.reason.as_ref() == Some(&what)
        && old.observed_generation == gate.metadata.generation;
    if same {
        return Plan::default();
    }
    let missing = NewCondition::new(READY, Truth::False, "Missing", what.clone());
    let notes = match old.ready {
        Some(true) => vec![Note { warning: true, reason: "GateClosed".to_owned(), message: what.clone() }],
        _ => Vec::new(),
    };
    let status = PolicyGateStatus {
        observed_generation: gate.metadata.generation,
        ready: Some(false),
        waits: Verdict::closed(title(gate), what.clone(), None).why,
        reason: Some(what),
        last_evaluated_at: Some(whole_second(snapshot.now)),
        next_change_at: None,
        conditions: vec![missing.since(&old.conditions, gate.metadata.generation, snapshot.now)],
    };
    Plan { status: Some(status), notes, ..Plan::default() }
}

/// Templates hold nobody; they are only checked.
fn check_only(snapshot: &Snapshot<'_>) -> Plan {
    let gate = snapshot.gate;
    let old = gate.status.clone().unwrap_or_default();
    let problem = problem(&gate.spec);
    let compiled = match problem {
        None => NewCondition::new(COMPILED, Truth::True, "Compiled", "the expression compiles"),
        Some(problem) => NewCondition::new(COMPILED, Truth::False, "Invalid", problem),
    };
    let idle = guards_nothing(gate, snapshot.pipelines);
    let reach = (idle.is_some() || !snapshot.pipelines.is_empty()) && !is_freeze(gate);
    let reach = reach.then(|| match idle {
        None => NewCondition::new(GUARDS, Truth::True, "Guards", "an environment is guarded"),
        Some(idle) => NewCondition::new(GUARDS, Truth::False, "GuardsNothing", idle),
    });
    let said = |new: &NewCondition| {
        condition::find(&old.conditions, new.type_).is_some_and(|before| before.message == new.message)
    };
    let new: Vec<(NewCondition, &str)> =
        [Some((compiled, "InvalidGate")), reach.map(|reach| (reach, "GuardsNothing"))]
            .into_iter()
            .flatten()
            .collect();
    let notes = new.iter().filter(|(new, _)| new.truth == Truth::False && !said(new));
    let notes = notes.map(|(new, reason)| Note {
        warning: true,
        reason: (*reason).to_owned(),
        message: new.message.clone(),
    });
    let notes = notes.collect();
    let since =
        |(new, _): (NewCondition, &str)| new.since(&old.conditions, gate.metadata.generation, snapshot.now);
    let status = PolicyGateStatus {
        observed_generation: gate.metadata.generation,
        conditions: new.into_iter().map(since).collect(),
        ..PolicyGateStatus::default()
    };
    Plan { status: (status != old).then_some(status), notes, ..Plan::default() }
}
