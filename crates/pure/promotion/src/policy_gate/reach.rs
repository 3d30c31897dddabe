//! Whether a template guards anything at all.

use std::collections::BTreeSet;

use kardinal_api::PolicyGate;
use kardinal_api::kardinal::{Pipeline, PromotionStep};
use kardinal_policy::{guards, is_freeze, is_template, names_something};

use crate::bundle::step_spec;
use crate::promotion_step::{TYPES, target};
use kardinal_planner::problem::listed;

/// How many environments a message lists.
const LISTED: usize = 20;

/// Why a template guards nothing, if so. `pipelines` are those that count it; before there is one, only a template that
/// names nothing is wrong for certain.
pub fn guards_nothing(gate: &PolicyGate, pipelines: &[&Pipeline]) -> Option<String> {
    if !is_template(gate) || is_freeze(gate) {
        return None;
    }
    if !names_something(gate) {
        return Some(
            "it guards nothing: name environments in `spec.appliesTo` or the label `kardinal.io/applies-to`, or where \
             they write in `spec.appliesToPaths` or `spec.appliesToBranches`"
                .to_owned(),
        );
    }
    let mut known = BTreeSet::new();
    for (pipeline, environment) in pipelines
        .iter()
        .flat_map(|pipeline| pipeline.spec.environments.iter().map(move |one| (*pipeline, one)))
    {
        let step = PromotionStep::new("", step_spec(pipeline, environment, false));
        if TYPES.into_iter().any(|kind| guards(gate, &target(&step, kind))) {
            return None;
        }
        known.insert(environment.name.as_str());
    }
    if known.is_empty() {
        return None;
    }
    let named =
        gate.metadata.labels.iter().flat_map(|labels| labels.get(kardinal_api::kardinal::APPLIES_TO_LABEL));
    let spec = &gate.spec;
    let named = named.chain(&spec.applies_to).chain(&spec.applies_to_paths).chain(&spec.applies_to_branches);
    Some(format!(
        "it guards nothing: no environment of any Pipeline is meant by {}; there are {}",
        listed(named.map(String::as_str)),
        listed(known.into_iter().take(LISTED))
    ))
}
