//! Holding a Pipeline, and letting it go again.

use kardinal_api::kardinal::{PIPELINE_LABEL, Pipeline, PolicyGate, PolicyGateSpec};
use kardinal_object::{label_of, name_of};
use kardinal_planner::names::label_value;
use serde::Serialize;
use serde_json::{Value, json};

use crate::bundle::FREEZE_LABEL;

/// The name of the gate that holds a Pipeline.
pub fn freeze_name(pipeline: &str) -> String {
    format!("freeze-{pipeline}")
}

/// The gate that holds a Pipeline, the promotions under way included.
pub fn pause(pipeline: &Pipeline, who: &str) -> PolicyGate {
    let name = name_of(&pipeline.metadata);
    let by = if who.is_empty() { String::new() } else { format!(" by {who}") };
    let spec = PolicyGateSpec {
        expression: "false".to_owned(),
        message: Some(format!("Pipeline `{name}` is paused{by}; `kardinal resume {name}` lets it go on")),
        ..PolicyGateSpec::default()
    };
    let mut gate = PolicyGate::new(&freeze_name(name), spec);
    gate.metadata.namespace.clone_from(&pipeline.metadata.namespace);
    let labels = gate.metadata.labels.get_or_insert_default();
    labels.insert(FREEZE_LABEL.to_owned(), "true".to_owned());
    labels.insert(PIPELINE_LABEL.to_owned(), label_value(name));
    gate
}

/// What to say to whoever has paused a Pipeline. Pausing twice is harmless: then nothing was created.
pub fn paused(pipeline: &str, created: bool) -> String {
    match created {
        true => format!("Pipeline \"{pipeline}\" paused: nothing moves, promotions under way included"),
        false => format!("Pipeline \"{pipeline}\" is paused already"),
    }
}

/// What lets a Pipeline go on. Nothing at all: it is not paused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resumption {
    /// The gates to delete, by name, in the Pipeline's namespace.
    pub gates: Vec<String>,
    /// The merge patch for the Pipeline, when `spec.paused` holds it too.
    pub patch: Option<Value>,
}

/// What was done to let a Pipeline go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resumed {
    /// The Pipeline.
    pub pipeline: String,
    /// The gates that held it.
    pub deleted_gates: Vec<String>,
    /// Whether `spec.paused` held it.
    pub unpaused: bool,
}

impl Resumption {
    /// What is done for a Pipeline once all of this is carried out.
    pub fn carried_out(self, pipeline: &str) -> Resumed {
        Resumed { pipeline: pipeline.to_owned(), unpaused: self.patch.is_some(), deleted_gates: self.gates }
    }
}

impl Resumed {
    /// The same as a sentence for people.
    pub fn render(&self) -> String {
        let Resumed { pipeline, deleted_gates, unpaused } = self;
        match *unpaused || !deleted_gates.is_empty() {
            true => format!("Pipeline \"{pipeline}\" goes on"),
            false => format!("Pipeline \"{pipeline}\" is not paused"),
        }
    }
}

/// The gates that hold a Pipeline as a whole.
pub(super) fn freezes_of<'g>(
    pipeline: &Pipeline,
    gates: &[&'g PolicyGate],
) -> impl Iterator<Item = &'g PolicyGate> {
    let holds = |gate: &PolicyGate| {
        kardinal_policy::is_freeze(gate)
            && gate.metadata.namespace == pipeline.metadata.namespace
            && label_of(&gate.metadata, PIPELINE_LABEL)
                == Some(label_value(name_of(&pipeline.metadata)).as_str())
    };
    gates.iter().copied().filter(move |gate| holds(gate))
}

/// Lets a Pipeline go on: everything that holds it is taken away. `gates` are those of its namespace. Doing it twice is
/// harmless.
pub fn resume(pipeline: &Pipeline, gates: &[&PolicyGate]) -> Resumption {
    let gates = freezes_of(pipeline, gates).map(|gate| name_of(&gate.metadata).to_owned());
    let patch = pipeline.spec.paused().then(|| json!({ "spec": { "paused": false } }));
    Resumption { gates: gates.collect(), patch }
}
