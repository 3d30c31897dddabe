//! Holding a Pipeline, and letting it go again.

use kardinal_api::kardinal::{PIPELINE_LABEL, Pipeline, PolicyGate, PolicyGateSpec};
use kardinal_object::{label_of, name_of};
use serde_json::{Value, json};

use crate::bundle::FREEZE_LABEL;
use kardinal_planner::names::label_value;
use kardinal_planner::problem::Problem;

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

/// What lets a Pipeline go on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resumption {
    /// The gates to delete, by name, in the Pipeline's namespace.
    pub gates: Vec<String>,
    /// The merge patch for the Pipeline, when `spec.paused` holds it too.
    pub patch: Option<Value>,
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

/// Lets a Pipeline go on. `gates` are those of its namespace.
pub fn resume(pipeline: &Pipeline, gates: &[&PolicyGate]) -> Result<Resumption, Problem> {
    let name = name_of(&pipeline.metadata);
    let gates: Vec<String> =
        freezes_of(pipeline, gates).map(|gate| name_of(&gate.metadata).to_owned()).collect();
    let patch = pipeline.spec.paused().then(|| json!({ "spec": { "paused": false } }));
    if gates.is_empty() && patch.is_none() {
        return Err(
            Problem::new("pipeline", format!("`{name}` is not paused")).hint("nothing has to be done")
        );
    }
    Ok(Resumption { gates, patch })
}
