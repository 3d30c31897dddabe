//! Which gates a change concerns.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use kardinal_cluster::View;
use kardinal_planner::names::label_value;
use serde_json::Value;

use super::Kind;
use crate::promotion::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{gvk, key_of, keys};
use crate::reconcile::routes::{Heard, Hears, Pace, nobody};

/// How long templates wait to say whether a Pipeline has what they guard: nobody else waits for that, and one Pipeline
/// can have many templates and change many times.
const TOGETHER: SignedDuration = SignedDuration::from_secs(2);

pub(super) const HEARS: &[Hears<Kind>] = &[
    Hears::read(gvk::<PolicyGate>, of_gate),
    Hears::read(gvk::<Bundle>, of_bundle),
    Hears::read(gvk::<Graph>, nobody),
    Hears::read(gvk::<Pipeline>, of_pipeline).paced(Pace::Within(TOGETHER)),
];

fn of_gate(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let key = heard.key();
    let mut all = instances(&heard.view(), &key);
    all.push(key);
    all
}

fn of_bundle(heard: &Heard<'_, Kind>) -> Vec<Key> {
    let (namespace, name) = heard.key();
    let view = heard.view();
    let found = |facet, value: &str| keys::<PolicyGate>(&view, Some(&namespace), facet, value);
    found(facets::BUNDLE, &name).into_iter().chain(found(facets::BY_HAND, "")).collect()
}

fn of_pipeline(heard: &Heard<'_, Kind>) -> Vec<Key> {
    templates(&heard.view(), heard.both(), &heard.kind.context.policy_namespaces)
}

/// The instances made from a template.
fn instances(view: &View, (namespace, name): &Key) -> Vec<Key> {
    keys::<PolicyGate>(view, None, facets::TEMPLATE, &facets::place(namespace, &label_value(name)))
}

/// The templates that may guard what a Pipeline is made of, or was made of before.
fn templates(
    view: &View,
    (old, new): (Option<&Value>, Option<&Value>),
    policy_namespaces: &[String],
) -> Vec<Key> {
    if old.map(made_of) == new.map(made_of) {
        return Vec::new();
    }
    let pipelines = || [old, new].into_iter().flatten();
    let own = pipelines().map(|pipeline| key_of(pipeline).0);
    let added = pipelines().flat_map(added);
    let all: BTreeSet<String> = own.chain(added).chain(policy_namespaces.iter().cloned()).collect();
    all.iter().flat_map(|place| keys::<PolicyGate>(view, Some(place), facets::BUNDLE, "")).collect()
}

/// What decides which templates guard an environment of a Pipeline.
fn made_of(pipeline: &Value) -> [Option<&Value>; 3] {
    ["/spec/policyNamespaces", "/spec/git", "/spec/environments"].map(|field| pipeline.pointer(field))
}

/// The namespaces that a Pipeline adds to those that are searched for templates.
fn added(pipeline: &Value) -> impl Iterator<Item = String> {
    let names = pipeline.pointer("/spec/policyNamespaces").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests;
