//! Which Bundles a change concerns, and how soon.

use jiff::SignedDuration;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    BUNDLE_LABEL, Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionState, PromotionStep,
};
use kardinal_cluster::View;
use serde::Deserialize as _;
use serde_json::Value;

use super::Kind;
use crate::promotion::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, keys, label, text};
use crate::reconcile::routes::{Heard, Hears, Pace};

/// Where a step stands.
const STATE: &str = "/status/state";
/// Set on an object that is being deleted.
const LEAVING: &str = "/metadata/deletionTimestamp";

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<Bundle>, of_bundle).paced(Pace::By(pace_of_bundle)),
    Hears::read(gvk::<PromotionStep>, of_step).paced(Pace::By(pace_of_step)),
    Hears::read(gvk::<Pipeline>, of_pipeline).paced(Pace::By(pace_of_others)),
    Hears::read(gvk::<Graph>, of_graph).paced(Pace::By(pace_of_others)),
    Hears::read(gvk::<PolicyGate>, of_gate).paced(Pace::By(pace_of_others)),
];

fn of_bundle(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    // A newer Bundle may take the place of older ones.
    let mut all = match concerns_others(heard) {
        true => bundles_of(heard, &namespace, label(heard.object, PIPELINE_LABEL)),
        false => Vec::new(),
    };
    all.push((namespace, name));
    all
}

fn of_step(heard: &Heard<'_, Kind>) -> Vec<Key> {
    vec![(heard.key().0, text(heard.object, "/spec/bundleRef").to_owned())]
}

fn of_pipeline(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    bundles_of(heard, &namespace, &name)
}

fn of_graph(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let namespace = heard.key().0;
    facets::carried_by(heard.object).map(|name| (namespace.clone(), name.to_owned())).collect()
}

/// Instances belong to one Bundle; templates matter only when a Graph is made.
fn of_gate(heard: &Heard<'_, Kind>) -> Vec<Key> {
    match label(heard.object, BUNDLE_LABEL) {
        "" => Vec::new(),
        bundle => vec![(heard.key().0, bundle.to_owned())],
    }
}

fn bundles_of(heard: &Heard<'_, Kind>, namespace: &str, pipeline: &str) -> Vec<Key> {
    keys::<Bundle>(&heard.view(), Some(namespace), facets::PIPELINE, pipeline)
}

/// The record may follow a step at its own pace; an end must not wait.
fn pace_of_step(heard: &Heard<'_, Kind>) -> SignedDuration {
    let new = match heard.both() {
        // It has only been planned.
        (None, Some(_)) => return crate::PACE,
        (Some(_), Some(new)) => new,
        (Some(_) | None, None) => return SignedDuration::ZERO,
    };
    let state = new.pointer(STATE).and_then(|state| PromotionState::deserialize(state).ok());
    let ended = match state {
        Some(PromotionState::Failed) => true,
        Some(PromotionState::Verified) => {
            has_arrived(&heard.view(), &heard.key().0, text(new, "/spec/bundleRef"))
        }
        Some(
            PromotionState::Pending
            | PromotionState::Promoting
            | PromotionState::WaitingForMerge
            | PromotionState::HealthChecking,
        )
        | None => false,
    };
    if ended { SignedDuration::ZERO } else { pace_of_others(heard) }
}

/// What somebody asked for must not wait.
fn pace_of_others(heard: &Heard<'_, Kind>) -> SignedDuration {
    let (Some(old), Some(new)) = heard.both() else { return SignedDuration::ZERO };
    let asked = ["/metadata/generation", "/metadata/labels", "/metadata/annotations", LEAVING]
        .iter()
        .any(|field| old.pointer(field) != new.pointer(field));
    if asked { SignedDuration::ZERO } else { crate::PACE }
}

fn pace_of_bundle(heard: &Heard<'_, Kind>) -> SignedDuration {
    if concerns_others(heard) { SignedDuration::ZERO } else { pace_of_others(heard) }
}

/// Whether a Bundle is verified wherever its Graph leads.
fn has_arrived(view: &View, namespace: &str, bundle: &str) -> bool {
    let (Some(steps), Some(graphs)) = (view.kind(&gvk::<PromotionStep>()), view.kind(&gvk::<Graph>())) else {
        return true;
    };
    let verified = steps.filed(Some(namespace), (facets::VERIFIED, bundle.to_owned())).count();
    let graphs = graphs.filed(Some(namespace), (facets::BUNDLE, bundle.to_owned()));
    graphs.map(|(_, graph)| graph.filed_under(facets::MAKES_STEP).count()).all(|steps| steps <= verified)
}

/// Whether a change of one Bundle may matter to the others of its Pipeline, and not only to its own record.
fn concerns_others(heard: &Heard<'_, Kind>) -> bool {
    let place = |bundle: &Value| {
        let environments = bundle.pointer("/status/environments").and_then(Value::as_object);
        let all = ["/status/phase", "/metadata/labels", "/metadata/annotations", LEAVING]
            .map(|field| bundle.pointer(field).cloned());
        (all, environments.map(serde_json::Map::len))
    };
    let (old, new) = heard.both();
    old.map(place) != new.map(place)
}
