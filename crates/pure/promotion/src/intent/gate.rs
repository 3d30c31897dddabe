//! Holding a Pipeline, letting it go again, and passing a gate in spite of what it says.

use jiff::Timestamp;
use kardinal_api::kardinal::{
    Bundle, BundleType, GateOverride, PIPELINE_LABEL, Pipeline, PolicyGate, PolicyGateSpec, PromotionStep,
};
use kardinal_object::{label_of, name_of};
use serde_json::{Value, json};

use crate::bundle::{
    FREEZE_LABEL, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, pipeline_name, step_spec,
};
use crate::promotion_step::{base_branch, directory, target};
use kardinal_planner::names::label_value;
use kardinal_planner::problem::Problem;

/// How many overrides a gate can hold.
const OVERRIDES: usize = 100;

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

/// A wish to pass a gate in spite of what it says.
#[derive(Clone, Copy, Debug)]
pub struct Override<'a> {
    /// Why.
    pub reason: &'a str,
    /// Who wants it.
    pub who: &'a str,
    /// The environment that it is for. Absent: all of them.
    pub stage: Option<&'a str>,
    /// Where that environment writes, see [`place_of`].
    pub place: Option<&'a WritesTo>,
    /// Until when. Absent: for ever.
    pub expires: Option<Timestamp>,
    /// The one Bundle that it is for. Absent: all of them.
    pub only: Option<&'a Bundle>,
}

/// Where an environment writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritesTo {
    /// Its directory, and what it writes outside of that.
    pub paths: Vec<String>,
    /// Its branch.
    pub branch: String,
}

impl std::fmt::Display for WritesTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` on `{}`", self.paths.join("`, `"), self.branch)
    }
}

/// Where an override of a gate instance has to stand to count: namespace and name of the template, when the gate shows one
/// of the organisation's. Otherwise the instance itself takes it.
pub fn overridden_in(instance: &PolicyGate) -> Option<(&str, &str)> {
    let labels = instance.metadata.labels.as_ref()?;
    let namespace = labels.get(GATE_TEMPLATE_NAMESPACE_LABEL)?;
    let is_org = kardinal_policy::scope(instance) == kardinal_policy::Scope::Org;
    let elsewhere = Some(namespace) != instance.metadata.namespace.as_ref();
    (is_org && elsewhere).then_some((namespace, labels.get(GATE_TEMPLATE_LABEL)?))
}

/// The merge patch that adds an override to a gate. It holds only for the version of the gate that was seen, so that
/// two people who override at the same time do not undo each other. Overrides that have ended are dropped.
pub fn override_gate(gate: &PolicyGate, wish: &Override<'_>, now: Timestamp) -> Result<Value, Problem> {
    if wish.reason.trim().is_empty() {
        return Err(
            Problem::new("reason", "is empty").hint("say why the gate may be passed; it is kept on record")
        );
    }
    if let Some(expires) = wish.expires.filter(|expires| *expires <= now) {
        return Err(Problem::new("expires", format!("`{expires}` is over")).hint(format!("it is {now} now")));
    }
    if let Some(stage) = wish.stage
        && !kardinal_policy::applies_to(gate, stage)
        && !is_instance_for(gate, stage)
        // Who writes where is not known here.
        && gate.spec.applies_to_paths.is_empty()
        && gate.spec.applies_to_branches.is_empty()
    {
        let name = name_of(&gate.metadata);
        return Err(Problem::new("stage", format!("the gate `{name}` does not guard `{stage}`"))
            .hint("leave the stage out, or name an environment that the gate applies to"));
    }
    let mut overrides: Vec<GateOverride> =
        gate.spec.overrides.iter().filter(|given| kardinal_policy::is_active(given, now)).cloned().collect();
    if overrides.len() >= OVERRIDES {
        return Err(Problem::new("overrides", format!("the gate has {OVERRIDES} overrides already"))
            .hint("remove some that are not needed any more"));
    }
    overrides.push(GateOverride {
        reason: wish.reason.to_owned(),
        stage: wish.stage.map(str::to_owned),
        paths: wish.place.map(|place| place.paths.clone()).unwrap_or_default(),
        branches: wish.place.map(|place| place.branch.clone()).into_iter().collect(),
        namespace: wish.only.and_then(|bundle| bundle.metadata.namespace.clone()),
        pipeline: wish.only.and_then(pipeline_name).map(str::to_owned),
        bundle: wish.only.and_then(|bundle| bundle.metadata.name.clone()),
        expires_at: wish.expires,
        created_at: Some(now),
        created_by: (!wish.who.is_empty()).then(|| wish.who.to_owned()),
    });
    Ok(json!({
        "metadata": { "resourceVersion": gate.metadata.resource_version },
        "spec": { "overrides": overrides },
    }))
}

/// Where an environment of a Pipeline writes, whatever a Bundle brings. Absent: there is no such environment, or its names
/// would be read as patterns, which mean more than one place.
pub fn place_of(pipeline: &Pipeline, environment: &str) -> Option<WritesTo> {
    let environment = pipeline.spec.environments.iter().find(|one| one.name == environment)?;
    let step = PromotionStep::new("", step_spec(pipeline, environment, false));
    let (directory, branch) = (directory(&step), base_branch(&step));
    let mut paths = vec![directory.clone()];
    for written in [BundleType::Image, BundleType::Config].map(|kind| target(&step, kind).paths).concat() {
        let path = written.to_string();
        if !written.lies_in(&directory) && !paths.contains(&path) {
            paths.push(path);
        }
    }
    let is_pattern = |path: &String| path.strip_suffix("/**").unwrap_or(path).contains('*');
    (!paths.iter().any(is_pattern) && !branch.contains('*')).then_some(WritesTo { paths, branch })
}

fn is_instance_for(gate: &PolicyGate, stage: &str) -> bool {
    let label =
        gate.metadata.labels.as_ref().and_then(|map| map.get(kardinal_api::kardinal::ENVIRONMENT_LABEL));
    label.is_some_and(|environment| environment == stage)
}
