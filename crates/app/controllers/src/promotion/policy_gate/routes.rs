//! Which gates a change concerns.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use kardinal_cluster::{Change, View};
use kardinal_planner::names::label_value;
use serde_json::Value;

use crate::facets;
use crate::reconcile::driver::Key;
use crate::reconcile::objects::{about, all_keys, before_and_after, key_of, keys};

/// How long templates wait to say whether a Pipeline has what they guard: nobody else waits for that, and one Pipeline
/// can have many templates and change many times.
const TOGETHER: SignedDuration = SignedDuration::from_secs(2);

/// The gates that have to look at a change.
pub(super) fn route(view: &View, change: &Change, policy_namespaces: &[String]) -> Vec<Key> {
    if let Change::Kind(_) = change {
        return all_keys::<PolicyGate>(view);
    }
    if let Some(gate) = about::<PolicyGate>(change) {
        let key = key_of(gate);
        let mut all = instances(view, &key);
        all.push(key);
        return all;
    }
    if about::<Pipeline>(change).is_some() {
        return templates(view, before_and_after(change), policy_namespaces);
    }
    let Some(bundle) = about::<Bundle>(change) else { return Vec::new() };
    let (namespace, name) = key_of(bundle);
    let found = |facet, value: &str| keys::<PolicyGate>(view, Some(&namespace), facet, value);
    found(facets::BUNDLE, &name).into_iter().chain(found(facets::BY_HAND, "")).collect()
}

/// How long they may take.
pub(super) fn patience(change: &Change) -> SignedDuration {
    match about::<Pipeline>(change) {
        Some(_) => TOGETHER,
        None => SignedDuration::ZERO,
    }
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
