//! From the objects that were found to the facts that a verdict is made from.

use std::collections::BTreeMap;

use kardinal_api::kardinal::PromotionStepSpec;
use kardinal_object::Gvk;
use serde_json::Value;

use super::{Chosen, HealthFacts, Target, Unknown, choose, related};

/// The kinds that may tell the health of a step, whether they are installed or not.
pub fn kinds(spec: &PromotionStepSpec) -> Vec<Gvk> {
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
pub fn facts(chosen: Chosen, select: impl Fn(&Target) -> Vec<Value>) -> HealthFacts {
    let Chosen { target, fallbacks, warning } = chosen;
    let mut facts = HealthFacts {
        objects: select(&target),
        target,
        fell_back: warning,
        contains: BTreeMap::new(),
        unknown: None,
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
    let beside: Vec<Value> = facts
        .objects
        .iter()
        .filter_map(|object| related(&facts.target, object))
        .flat_map(|target| select(&target))
        .collect();
    facts.objects.extend(beside);
    facts
}

/// The cluster of a step cannot be asked.
pub fn unknown(spec: &PromotionStepSpec, why: Unknown) -> HealthFacts {
    HealthFacts {
        target: choose(spec, &|_, _| false).target,
        objects: Vec::new(),
        fell_back: None,
        contains: BTreeMap::new(),
        unknown: Some(why),
    }
}
