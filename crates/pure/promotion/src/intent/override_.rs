//! Passing a gate in spite of what it says: which gates are meant, and where an override of each has to stand.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::GoDuration;
use kardinal_api::kardinal::{
    BUNDLE_LABEL, Bundle, BundleType, ENVIRONMENT_LABEL, GateOverride, PIPELINE_LABEL, Pipeline, PolicyGate,
    PromotionStep,
};
use kardinal_object::{label_of, name_of};
use serde_json::{Value, json};

use super::Error;
use crate::bundle::{
    GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL, is_finished, phase_of, pipeline_name, step_spec,
};
use crate::promotion_step::{base_branch, directory, target};
use kardinal_planner::names::label_value;
use kardinal_planner::problem::{Problem, listed};

/// How many overrides a gate can hold.
const OVERRIDES: usize = 100;

/// A gate that a Bundle on its way waits at, and what an override of it is for.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The Bundle's own gate.
    pub gate: &'a PolicyGate,
    /// The environment in front of which it stands. Absent: all of them.
    pub environment: Option<&'a str>,
    /// Where that environment writes: the team chooses it, so whoever overrides shall see it.
    pub place: Option<WritesTo>,
    /// Namespace and name of the gate that has to hold the override, where the instance's own would not count.
    pub template: Option<(&'a str, &'a str)>,
    /// The one Bundle that the override is for, where it stands in a template.
    pub only: Option<&'a Bundle>,
}

impl Instance<'_> {
    /// The wish that [`override_gate`] fulfils.
    pub fn wish<'w>(&'w self, reason: &'w str, who: &'w str, expires: Timestamp) -> Override<'w> {
        let Instance { environment: stage, only, .. } = *self;
        Override { reason, who, stage, place: self.place.as_ref(), expires: Some(expires), only }
    }
}

/// The instances of a gate that Bundles on their way wait at, in front of one environment or of all.
pub fn instances<'a>(
    pipeline: &Pipeline,
    bundles: &'a [Bundle],
    gates: &'a [PolicyGate],
    gate: &str,
    environment: Option<&str>,
) -> Result<Vec<Instance<'a>>, Error> {
    let on_their_way: Vec<(String, &Bundle)> = bundles
        .iter()
        .filter(|bundle| !phase_of(bundle).is_some_and(is_finished))
        .map(|bundle| (label_value(name_of(&bundle.metadata)), bundle))
        .collect();
    let name = name_of(&pipeline.metadata);
    let of_pipeline = label_value(name);
    let ours = gates.iter().filter(|gate| label_of(&gate.metadata, PIPELINE_LABEL) == Some(&of_pipeline));
    let ours = ours.filter(|gate| {
        environment.is_none_or(|wanted| label_of(&gate.metadata, ENVIRONMENT_LABEL) == Some(wanted))
    });
    let waited_at: Vec<(&PolicyGate, &Bundle)> = ours
        .filter_map(|gate| {
            let label = label_of(&gate.metadata, BUNDLE_LABEL)?;
            let (_, bundle) = on_their_way.iter().find(|(value, _)| value == label)?;
            Some((gate, *bundle))
        })
        .collect();
    let wanted = label_value(gate);
    let is_named = |one: &PolicyGate| label_of(&one.metadata, GATE_TEMPLATE_LABEL) == Some(&wanted);
    let named = waited_at.iter().filter(|(one, _)| is_named(one));
    let named: Vec<Instance<'a>> = named.map(|(one, bundle)| instance(pipeline, one, bundle)).collect();
    match named.is_empty() {
        true => Err(Error::NotFound(waits_nowhere(name, gate, waited_at.iter().map(|(one, _)| *one)))),
        false => Ok(named),
    }
}

fn instance<'a>(pipeline: &Pipeline, gate: &'a PolicyGate, bundle: &'a Bundle) -> Instance<'a> {
    let environment = label_of(&gate.metadata, ENVIRONMENT_LABEL);
    let template = overridden_in(gate);
    Instance {
        gate,
        environment,
        place: environment.and_then(|environment| place_of(pipeline, environment)),
        template,
        only: template.map(|_| bundle),
    }
}

/// The answer where no Bundle waits at a gate of this name: the gates at which some do.
fn waits_nowhere<'a>(pipeline: &str, gate: &str, others: impl Iterator<Item = &'a PolicyGate>) -> Problem {
    let problem = Problem::new("gate", format!("no Bundle on its way waits at a gate `{gate}`"));
    let mut known: Vec<&str> =
        others.filter_map(|gate| label_of(&gate.metadata, GATE_TEMPLATE_LABEL)).collect();
    known.sort_unstable();
    known.dedup();
    match known.is_empty() {
        true => problem.hint(format!("no gates are asked now; `kardinal explain {pipeline}` tells why")),
        false => problem.hint(format!("they wait at {}", listed(known))),
    }
}

/// When an override ends that holds for a while, such as `30m`.
pub fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    let wrong =
        |why: String| Problem::new("expires", format!("`{text}`: {why}")).hint("write it as `30m` or `2h`");
    let duration = GoDuration::new(text).parse().map_err(|error| wrong(error.to_string()))?;
    if duration <= SignedDuration::ZERO {
        return Err(wrong("it must be more than nothing".to_owned()));
    }
    now.checked_add(duration).map_err(|error| wrong(error.to_string()))
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
    label_of(&gate.metadata, ENVIRONMENT_LABEL) == Some(stage)
}
