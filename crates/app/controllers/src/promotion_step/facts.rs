//! From what was read to what the planner wants to know. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep, PromotionStepSpec};
use kardinal_graph::Gvk;
use kardinal_manifest::Image;
use kardinal_planner::health::{Chosen, HealthFacts, Target, choose};
use kardinal_planner::policy_gate::place_by_labels;
use kardinal_planner::promotion_step::ImageMove;
use kardinal_policy::{EnvironmentFacts, Facts};
use serde_json::Value;

/// Why everything is held.
pub(super) fn hold(pipeline: Option<&Pipeline>, freezes: &[PolicyGate]) -> Option<String> {
    let named = |pipeline: &Pipeline| pipeline.metadata.name.clone().unwrap_or_default();
    if let Some(freeze) = freezes.first() {
        let why = freeze.spec.message.clone().unwrap_or_else(|| "the Pipeline is paused".to_owned());
        return Some(why);
    }
    let pipeline = pipeline.filter(|pipeline| pipeline.spec.paused())?;
    Some(format!("Pipeline `{}` is paused by `spec.paused`", named(pipeline)))
}

/// What the pull request says about each gate.
pub(super) fn gate_texts(
    step: &PromotionStep,
    bundle: &Bundle,
    previous: Option<&Bundle>,
    gates: &[PolicyGate],
    now: Timestamp,
) -> BTreeMap<String, String> {
    let text = |gate: &PolicyGate| {
        let upstreams = place_by_labels(gate).map(|place| place.upstreams).unwrap_or_default();
        let environment = EnvironmentFacts {
            name: &step.spec.environment,
            approval: step.spec.approval.unwrap_or_default(),
            upstreams: &upstreams,
        };
        kardinal_policy::detail(&gate.spec, &Facts { bundle, environment, previous, now })
    };
    gates.iter().map(|gate| (gate.metadata.name.clone().unwrap_or_default(), text(gate))).collect()
}

/// From which version to which each image goes.
pub(super) fn image_moves(before: &[Image], wanted: &[Image]) -> Vec<ImageMove> {
    let version = |image: &Image| image.tag.clone().or_else(|| image.digest.clone());
    let moves = wanted.iter().filter_map(|image| {
        let old = before.iter().find(|old| {
            old.repository == image.repository || old.name == image.repository || old.name == image.name
        });
        let (from, to) = (old.and_then(version), version(image)?);
        (from.as_ref() != Some(&to)).then(|| ImageMove { repository: image.repository.clone(), from, to })
    });
    moves.collect()
}

/// The kinds that may tell the health of a step, whether they are installed or not.
pub(super) fn health_kinds(spec: &PromotionStepSpec) -> Vec<Gvk> {
    let everything = choose(spec, &|_, _| true);
    let nothing = choose(spec, &|_, _| false);
    let mut all: Vec<Gvk> = [everything, nothing]
        .into_iter()
        .flat_map(|chosen| std::iter::once(chosen.target).chain(chosen.fallbacks))
        .filter_map(|target| Gvk::parse(&target.api_version, &target.kind))
        .chain(Gvk::parse("kustomize.toolkit.fluxcd.io/v1", "Kustomization"))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Looks at the first target that exists.
pub(super) fn health_facts(chosen: Chosen, select: impl Fn(&Target) -> Vec<Value>) -> HealthFacts {
    let Chosen { target, fallbacks, warning } = chosen;
    let mut facts = HealthFacts {
        objects: select(&target),
        target,
        fell_back: warning,
        contains: BTreeMap::new(),
        cluster_problem: None,
    };
    for fallback in fallbacks {
        if !facts.objects.is_empty() {
            break;
        }
        let objects = select(&fallback);
        if !objects.is_empty() {
            facts.fell_back = Some(format!("{} does not exist; looking at {fallback} instead", facts.target));
            facts.target = fallback;
            facts.objects = objects;
        }
    }
    let related: Vec<Value> = facts
        .objects
        .iter()
        .filter_map(|object| kardinal_planner::health::related(&facts.target, object))
        .flat_map(|target| select(&target))
        .collect();
    facts.objects.extend(related);
    facts
}

/// The cluster that a step names cannot be asked.
pub(super) fn unreachable(spec: &PromotionStepSpec, problem: String) -> HealthFacts {
    HealthFacts {
        target: choose(spec, &|_, _| false).target,
        objects: Vec::new(),
        fell_back: None,
        contains: BTreeMap::new(),
        cluster_problem: Some(problem),
    }
}
