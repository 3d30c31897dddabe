//! From what was read to what a step wants to know.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Pipeline, PolicyGate, PromotionStep};
use kardinal_manifest::Image;
use kardinal_object::name_of;

use super::ImageMove;
use crate::gate_context::{Candidate, EnvironmentFacts};
use crate::policy_gate::Place;

/// Why everything is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// For people.
    pub why: String,
    /// Since when, where that is known.
    pub since: Option<Timestamp>,
}

/// Whether everything is held: somebody froze the Pipeline, or paused it.
pub fn hold(pipeline: Option<&Pipeline>, freezes: &[PolicyGate]) -> Option<Hold> {
    if let Some(freeze) = freezes.first() {
        let why = freeze.spec.message.clone().unwrap_or_else(|| "the Pipeline is paused".to_owned());
        return Some(Hold { why, since: freeze.metadata.creation_timestamp.as_ref().map(|time| time.0) });
    }
    let pipeline = pipeline.filter(|pipeline| pipeline.spec.paused())?;
    let name = name_of(&pipeline.metadata);
    let why = format!("Pipeline `{name}` is paused by `spec.paused`; `kardinal resume {name}` lets it go on");
    Some(Hold { why, since: None })
}

/// What the pull request says about each gate, by name. Each comes with the place where it stands, as far as that is
/// known.
pub fn gate_texts(
    step: &PromotionStep,
    candidate: &Candidate<'_>,
    gates: &[(PolicyGate, Option<Place>)],
    now: Timestamp,
) -> BTreeMap<String, String> {
    let text = |gate: &PolicyGate, place: Option<&Place>| {
        let environment = EnvironmentFacts {
            name: &step.spec.environment,
            approval: step.spec.approval.unwrap_or_default(),
            upstreams: place.map(|place| place.upstreams.as_slice()).unwrap_or_default(),
        };
        kardinal_policy::detail(&gate.spec, &candidate.context(environment, now))
    };
    gates
        .iter()
        .map(|(gate, place)| (name_of(&gate.metadata).to_owned(), text(gate, place.as_ref())))
        .collect()
}

/// From which version to which each image goes.
pub fn image_moves(before: &[Image], wanted: &[Image]) -> Vec<ImageMove> {
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
