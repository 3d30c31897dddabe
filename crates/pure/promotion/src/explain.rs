//! Why a promotion stands where it stands: which gate waits for what, with which values, and until when.
//!
//! [`explain`] asks every gate again at the given `now`, so what it says is never older than the objects it was given.

mod choose;
mod gates;
mod outside;
mod present;
mod schema;
mod text;
mod waits;

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleType, Pipeline, PolicyGate, PromotionState, PromotionStep,
};
use kardinal_object::name_of;
pub use kardinal_planner::why::{Subject, Wait, WaitOn, Who};
use schemars::JsonSchema;
use serde::Serialize;

use crate::bundle::{Route, pipeline_name};
use crate::gate_context::Surroundings;
use crate::shard::Agent;

pub use outside::remedy;
pub use schema::schema;
pub use text::{display_version, roughly, shell_word};

/// What was seen of one Pipeline. Objects of other Pipelines may be among it; they are passed over.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The Pipeline in question.
    pub pipeline: &'a Pipeline,
    /// The Bundles in its namespace.
    pub bundles: &'a [Bundle],
    /// The steps in its namespace.
    pub steps: &'a [PromotionStep],
    /// Gates: instances and the pause in its namespace, and templates from anywhere.
    pub gates: &'a [PolicyGate],
    /// The namespaces in which the organisation keeps its gates.
    pub policy_namespaces: &'a [String],
    /// The Graphs in its namespace.
    pub graphs: &'a [Graph],
    /// The agents of shards, as far as they are known.
    pub agents: &'a [Agent],
    /// The one `now` of this explanation.
    pub now: Timestamp,
}

impl<'a> World<'a> {
    /// A namespace with nothing but the Pipeline.
    #[cfg(test)]
    pub(crate) fn of(pipeline: &'a Pipeline, now: Timestamp) -> World<'a> {
        World {
            pipeline,
            bundles: &[],
            steps: &[],
            gates: &[],
            policy_namespaces: &[],
            graphs: &[],
            agents: &[],
            now,
        }
    }

    /// What gates see around a Bundle: the others of its Pipeline.
    pub fn around(&self, bundle: &Bundle) -> Surroundings {
        let is_other = |other: &&Bundle| {
            other.metadata.name != bundle.metadata.name
                && other.metadata.namespace == bundle.metadata.namespace
                && pipeline_name(other) == pipeline_name(bundle)
        };
        Surroundings { others: self.bundles.iter().filter(is_other).cloned().collect() }
    }
}

/// Where the promotions of one Pipeline stand.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The Pipeline.
    pub pipeline: String,
    /// Its namespace.
    pub namespace: String,
    /// When this was said.
    #[schemars(schema_with = "schema::timestamp")]
    pub now: Timestamp,
    /// The environments, each after those before it.
    pub environments: Vec<Promotion>,
    /// The first instant after now at which something in it changes although no object does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timestamp")]
    pub next_change: Option<Timestamp>,
}

/// Where the promotion to one environment stands.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Promotion {
    /// The environment.
    pub environment: String,
    /// The Bundle that is on its way there, else the one that came last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// How people call what it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where the Bundle stands as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<BundlePhase>,
    /// Where its step stands. Absent: there is no step yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PromotionState>,
    /// The gates of the environment, with their answers now.
    pub gates: Vec<Gate>,
    /// What is waited for, the most important first. Empty: nothing.
    pub waits: Vec<Wait>,
    /// The answer in one word.
    pub outcome: Outcome,
    /// The answer in one line, the word included.
    pub result: String,
    /// What the environment has now, one for each type of Bundle, the one that came last first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub has: Vec<Present>,
    /// Bundles that were meant to come here and will not, and versions that cannot come back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What an environment has, healthy or not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Present {
    /// The type of the Bundle.
    #[serde(rename = "type")]
    pub kind: BundleType,
    /// How people call it.
    pub version: String,
    /// The Bundle that brought it.
    pub bundle: String,
    /// Whether that Bundle does not exist any more.
    pub deleted: bool,
    /// When the environment was found healthy with it. Absent: it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timestamp")]
    pub verified_at: Option<Timestamp>,
    /// Why nothing proves that it runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Nothing is on its way.
    Idle,
    /// kardinal is working on it.
    Promoting,
    /// It goes on by itself, or when somebody merges.
    Waiting,
    /// A gate or a person holds it.
    Blocked,
    /// It has arrived.
    Verified,
    /// It has failed.
    Failed,
}

impl Outcome {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Idle => "IDLE",
            Outcome::Promoting => "PROMOTING",
            Outcome::Waiting => "WAITING",
            Outcome::Blocked => "BLOCKED",
            Outcome::Verified => "VERIFIED",
            Outcome::Failed => "FAILED",
        }
    }
}

/// A gate and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// The name of the template.
    pub name: String,
    /// The object that was asked. Absent: it does not exist any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// `org` or `team`; absent when nobody knows any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The answer.
    pub verdict: GateVerdict,
    /// The values that led to it.
    pub reason: String,
    /// What the gate tells people while it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether this environment waits for it; a gate behind an environment holds only those after it.
    pub blocking: bool,
    /// Whether it pauses the Pipeline.
    #[serde(skip)]
    pub pause: bool,
    /// When a closed gate opens by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timestamp")]
    pub eta: Option<Timestamp>,
    /// What that is computed from, or why there is no such time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<String>,
    /// The next instant at which the answer changes by itself, in either direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timestamp")]
    pub changes_at: Option<Timestamp>,
}

/// The answer of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum GateVerdict {
    /// It is open.
    Pass,
    /// It is closed.
    Fail,
    /// It is not asked yet.
    Pending,
}

impl GateVerdict {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            GateVerdict::Pass => "PASS",
            GateVerdict::Fail => "FAIL",
            GateVerdict::Pending => "PENDING",
        }
    }
}

/// Explains the promotions of a Pipeline, or the one to a single environment.
pub fn explain(world: &World<'_>, environment: Option<&str>) -> Explanation {
    let mut environments: Vec<Promotion> = Vec::new();
    for name in names(world) {
        let promotion = promotion(world, &name, &environments);
        environments.push(promotion);
    }
    if let Some(wanted) = environment {
        environments.retain(|promotion| promotion.environment == wanted);
    }
    let instants = environments.iter().flat_map(|promotion| {
        let gates = promotion.gates.iter().filter_map(|gate| gate.changes_at);
        gates.chain(promotion.waits.iter().flat_map(|wait| [wait.until, wait.deadline]).flatten())
    });
    let next_change = instants.filter(|instant| *instant > world.now).min();
    let metadata = &world.pipeline.metadata;
    Explanation {
        pipeline: name_of(metadata).to_owned(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        now: world.now,
        environments,
        next_change,
    }
}

impl Explanation {
    /// The same as text for people.
    pub fn render(&self) -> String {
        text::render(self)
    }
}

/// The environments in order; a Pipeline whose order cannot be told keeps that of its list.
fn names(world: &World<'_>) -> Vec<String> {
    match Route::whole(&world.pipeline.spec) {
        Ok(route) => route.names().map(str::to_owned).collect(),
        Err(_) => world.pipeline.spec.environments.iter().map(|one| one.name.clone()).collect(),
    }
}

fn promotion(world: &World<'_>, environment: &str, before: &[Promotion]) -> Promotion {
    let mut notes = choose::refused(world, environment);
    let has = present::present(world, environment);
    let Some(view) = choose::promotion_view(world, environment) else {
        return Promotion {
            environment: environment.to_owned(),
            bundle: None,
            version: None,
            phase: None,
            state: None,
            gates: Vec::new(),
            waits: Vec::new(),
            outcome: Outcome::Idle,
            result: format!("IDLE: no Bundle is on its way to {environment}"),
            has,
            notes,
        };
    };
    notes.extend(present::lost(world, &view));
    let gates = gates::gates(world, &view);
    let waits = waits::waits(world, &view, &gates, before);
    let (outcome, result) = waits::result(&view, &waits);
    Promotion {
        environment: environment.to_owned(),
        bundle: Some(name_of(&view.bundle.metadata).to_owned()),
        version: Some(crate::gate_context::version(&view.bundle.spec)),
        phase: view.bundle.status.as_ref().and_then(|status| status.phase),
        state: view.state(),
        gates,
        waits,
        outcome,
        result,
        has,
        notes,
    }
}
