//! What a Bundle waits for, as data, and the one way to say it in words.
//!
//! A step tells what it waits for itself, and its Bundle takes that over. Where there is no step, gates, the Graph and
//! others outside are what a Bundle waits for.

use std::collections::BTreeMap;

use kardinal_api::graph::{Graph, NodeState};
use kardinal_api::kardinal::{EnvironmentStatus, PIPELINE_LABEL, PolicyGate, PromotionState, PromotionStep};
use kardinal_object::name_of;
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::why::{Subject, Wait, WaitOn, Who};

use crate::promotion_step::why::{self as step, ENVIRONMENT};
use crate::promotion_step::{Ending, ending};

/// The words of [`Wait::reason`] that only Bundles have. Programs may rely on them.
pub mod reason {
    /// The step has not said it as data, or is gone: it is only on record in words.
    pub const RECORDED: &str = "Recorded";
    /// The Graph cannot go on, or is being deleted.
    pub const GRAPH_NOT_READY: &str = "GraphNotReady";
    /// The Pipeline does not exist, or nothing names it.
    pub const PIPELINE_NOT_FOUND: &str = "PipelineNotFound";
    /// Nobody can tell now whether the commit is there.
    pub const COMMIT_UNKNOWN: &str = "CommitUnknown";
    /// Without the controller's key nothing is proven that the organisation asks for.
    pub const NOTHING_PROVEN: &str = "NothingProven";
    /// The API server does not take the Graph.
    pub const GRAPH_REFUSED: &str = "GraphRefused";
    /// The API server does not take the Bundle that rolls back.
    pub const ROLLBACK_REFUSED: &str = "RollbackRefused";
    /// There is no rollback yet: another version comes.
    pub const NEWER_ON_ITS_WAY: &str = "NewerOnItsWay";
}

/// What a person can do about something that the API server does not take.
pub const REFUSAL_REMEDY: &str =
    "needs a person to change what the API server says; kardinal offers it again each minute";

/// How many things a message names before it says "and more".
const NAMED: usize = 5;
/// What a step waits for: as it tells itself, else as the record of its environment says.
pub(super) fn of_step(
    environment: &str,
    state: PromotionState,
    entry: &EnvironmentStatus,
    step: Option<&PromotionStep>,
) -> Vec<Wait> {
    let own = step.and_then(|step| Some((step, &step.status.as_ref()?.waits)));
    match own {
        Some((step, waits)) if !waits.is_empty() => {
            waits.iter().map(|wait| in_time(environment, wait, step)).collect()
        }
        _ => vec![at(environment, recorded(environment, state, entry))],
    }
}

/// The wait with the name of the environment that it is about.
fn at(environment: &str, wait: Wait) -> Wait {
    match wait.value_of(ENVIRONMENT) {
        Some(_) => wait,
        None => wait.value(ENVIRONMENT, environment),
    }
}

/// What a step tells, with the time at which the check of its environment ends.
fn in_time(environment: &str, wait: &Wait, step: &PromotionStep) -> Wait {
    let wait = at(environment, wait.clone());
    let is_open = wait.on == WaitOn::Health && wait.until.is_none() && wait.deadline.is_none();
    match ending(step).filter(|_| is_open) {
        Some(Ending::Fails(at)) => Wait { deadline: Some(at), ..wait },
        Some(Ending::Counts(_) | Ending::Open) | None => wait,
    }
}

fn recorded(environment: &str, state: PromotionState, entry: &EnvironmentStatus) -> Wait {
    let said = |otherwise: &str| entry.message.clone().unwrap_or_else(|| otherwise.to_owned());
    match state {
        PromotionState::WaitingForMerge => {
            step::pull_request(None, entry.pr_url.as_deref(), reason::RECORDED).detail(said(""))
        }
        PromotionState::HealthChecking => {
            let said = said("waits for the environment to become healthy");
            step::health(environment, reason::RECORDED, &said)
        }
        PromotionState::Failed => step::action(&said("the promotion has failed")),
        PromotionState::Pending | PromotionState::Promoting | PromotionState::Verified => {
            step::next(said("the change is being written"))
        }
    }
}

/// A closed gate in front of an environment that has no step yet, or behind one that is verified. Only where nobody knows
/// until when it is closed its values are told, for those change with every evaluation.
pub(super) fn gate(environment: &str, name: &str, gate: &PolicyGate) -> Wait {
    let (status, message) = (gate.status.as_ref(), gate.spec.message.clone());
    let until = status.and_then(|status| status.next_change_at);
    let said = status.and_then(|status| status.reason.clone());
    let wait = match (until, said) {
        (Some(_), _) => step::closed(name, &message.unwrap_or_default(), until),
        (None, Some(said)) => match status.and_then(|status| status.ready) {
            Some(_) => step::closed(name, &said, None),
            None => step::gate(name, step::reason::NOT_ASKED, said),
        },
        (None, None) => step::gate(name, step::reason::NOT_ASKED, ""),
    };
    at(environment, wait)
}

/// What keeps the Graph from going on.
pub(super) fn trouble(graph: &Graph) -> Option<Wait> {
    let name = name_of(&graph.metadata);
    let wait = |on, who, said: String| {
        Wait::new(on, reason::GRAPH_NOT_READY, Subject::object("Graph", name), who).detail(said)
    };
    if graph.metadata.deletion_timestamp.is_some() {
        let said = format!("the Graph `{name}` is being deleted; after that it is made again");
        return Some(wait(WaitOn::Controller, Who::Kardinal, said));
    }
    let conditions = &graph.status.as_ref()?.conditions;
    let failed = conditions.iter().find(|one| condition::is(one, Truth::False))?;
    let who = match failed.reason == NodeState::SystemError.as_str() {
        true => Who::Outside,
        false => Who::Person,
    };
    Some(wait(WaitOn::Action, who, format!("the Graph `{name}` cannot go on: {}", failed.message)))
}

/// The Graph makes the next step.
pub(super) fn next_step(graph: Option<&Graph>) -> Wait {
    let name = graph.map(|graph| name_of(&graph.metadata)).unwrap_or_default();
    step::next(format!("waits for the Graph `{name}` to create the next step"))
}

/// The Pipeline does not exist, or nothing names it; `said` tells which.
pub(super) fn no_pipeline(name: Option<&str>, said: String) -> Wait {
    let subject = name.map_or_else(|| Subject::new(PIPELINE_LABEL), |name| Subject::object("Pipeline", name));
    let wait = Wait::new(WaitOn::Action, reason::PIPELINE_NOT_FOUND, subject, Who::Person).detail(said);
    wait.basis(match name {
        Some(name) => format!("needs a person to create the Pipeline `{name}`"),
        None => "needs a person to name a Pipeline".to_owned(),
    })
}

/// A repository that cannot be asked for a commit.
pub(super) fn commit_unknown(repository: &str, said: String) -> Wait {
    Wait::new(WaitOn::Outside, reason::COMMIT_UNKNOWN, Subject::new(repository), Who::Outside)
        .detail(said)
        .basis("kardinal looks again by itself")
}

/// Whether something is permitted cannot be found out without the controller's key.
pub(super) fn nothing_proven(said: String) -> Wait {
    Wait::new(WaitOn::Outside, reason::NOTHING_PROVEN, Subject::new("the controller's key"), Who::Outside)
        .detail(said)
        .basis("kardinal looks again by itself")
}

/// Something that the API server does not take.
pub(crate) fn refused(reason: &str, said: &str) -> Wait {
    Wait { reason: reason.to_owned(), ..step::action(said).basis(REFUSAL_REMEDY) }
}

/// A newer Bundle that is on its way to an environment that would go back otherwise.
pub(super) fn put_off(environment: &str, newer: &str) -> Wait {
    let subject = Subject::object("Bundle", newer);
    Wait::new(WaitOn::Bundle, reason::NEWER_ON_ITS_WAY, subject, Who::Kardinal)
        .detail(format!("`{environment}` is not rolled back as long as `{newer}` is on its way there"))
        .basis(format!("kardinal looks again when `{newer}` has come there or has ended"))
        .value(ENVIRONMENT, environment)
}

/// The environment that a wait is about.
pub fn environment(wait: &Wait) -> Option<&str> {
    wait.value_of(ENVIRONMENT)
}

/// The word for the condition of a Bundle that is on its way, by what it waits for first.
pub(super) fn word(waits: &[Wait], environments: &BTreeMap<String, EnvironmentStatus>) -> String {
    let Some(first) = waits.first() else { return String::new() };
    let Some(name) = environment(first) else {
        let word = if first.reason == step::reason::NEXT { "Promoting" } else { first.reason.as_str() };
        return word.to_owned();
    };
    let word = match environments.get(name).and_then(|entry| entry.state) {
        Some(PromotionState::WaitingForMerge) => "WaitingForMerge",
        Some(PromotionState::HealthChecking) => "HealthChecking",
        Some(PromotionState::Failed) => "StepFailed",
        Some(PromotionState::Pending | PromotionState::Promoting) => "Promoting",
        Some(PromotionState::Verified) | None => "WaitingForGate",
    };
    word.to_owned()
}

/// What a Bundle waits for in one line: the message of its condition. Where an environment stands tells whether its step or
/// the Bundle waits there.
pub fn message(waits: &[Wait], environments: &BTreeMap<String, EnvironmentStatus>) -> String {
    let is_same =
        |one: &Wait, other: &Wait| environment(one).is_some() && environment(one) == environment(other);
    let mut parts: Vec<String> =
        waits.chunk_by(is_same).flat_map(|waits| phrases(waits, environments)).collect();
    if parts.len() > NAMED {
        parts.truncate(NAMED);
        parts.push("and more".to_owned());
    }
    parts.join("; ")
}

/// What is said of one environment, or of something that belongs to none.
fn phrases(waits: &[Wait], environments: &BTreeMap<String, EnvironmentStatus>) -> Vec<String> {
    let Some(name) = waits.first().and_then(environment) else {
        return waits.iter().map(|wait| wait.detail.clone()).collect();
    };
    let entry = environments.get(name);
    match entry.and_then(|entry| Some((entry, entry.state?))) {
        Some((_, PromotionState::Verified)) => {
            waits.iter().map(|wait| gate_phrase(&format!("what comes after `{name}`"), wait)).collect()
        }
        Some((entry, state)) => vec![step_phrase(name, state, entry, waits)],
        None => waits.iter().map(|wait| gate_phrase(&format!("`{name}`"), wait)).collect(),
    }
}

/// What the step says. It does not name the pull request by its address.
fn step_phrase(name: &str, state: PromotionState, entry: &EnvironmentStatus, waits: &[Wait]) -> String {
    let said = step::message(waits);
    if state != PromotionState::WaitingForMerge {
        return format!("`{name}`: {said}");
    }
    let url = entry.pr_url.as_deref();
    let request = url.map_or_else(|| "its pull request".to_owned(), |url| format!("the pull request {url}"));
    match said.is_empty() {
        true => format!("`{name}` waits for {request} to be merged"),
        false => format!("`{name}`: {said} ({request})"),
    }
}

fn gate_phrase(who: &str, wait: &Wait) -> String {
    let how = match (wait.until, wait.detail.as_str()) {
        (Some(at), "") => format!(" until {at} at the earliest"),
        (Some(at), said) => format!(" until {at} at the earliest: {said}"),
        (None, "") => ", which has not been asked yet".to_owned(),
        (None, said) => format!(": {said}"),
    };
    format!("{who} waits for the gate `{}`{how}", wait.subject.name)
}
