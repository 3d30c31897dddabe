//! Where a gate instance stands: which Bundle it holds, at the door of which environment.

use std::collections::BTreeSet;

use kardinal_api::PolicyGate;
use kardinal_api::graph::{Graph, Node};
use kardinal_api::kardinal::{Approval, BUNDLE_LABEL, ENVIRONMENT_LABEL, GROUP};
use kardinal_cel::{Env, Template};
use kardinal_object::label_of;
use serde_json::Value;

use crate::bundle::{APPROVAL_ANNOTATION, UPSTREAMS_ANNOTATION};
use crate::gate_context::EnvironmentFacts;
use kardinal_planner::graph::owner;

/// Where a gate instance stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The Bundle that it holds, in the gate's namespace.
    pub bundle: String,
    /// The environment behind it.
    pub environment: String,
    /// Who lets changes in there.
    pub approval: Approval,
    /// The environments directly before it.
    pub upstreams: Vec<String>,
}

impl Place {
    /// What gates are told of the environment.
    pub(crate) fn facts(&self) -> EnvironmentFacts<'_> {
        EnvironmentFacts { name: &self.environment, approval: self.approval, upstreams: &self.upstreams }
    }
}

/// The place of an instance that was made from a template: labels and annotations tell it.
pub fn place_by_labels(gate: &PolicyGate) -> Option<Place> {
    let annotations = gate.metadata.annotations.as_ref();
    let annotation = |name: &str| annotations.and_then(|all| all.get(name)).map(String::as_str);
    let upstreams = annotation(UPSTREAMS_ANNOTATION).unwrap_or_default();
    // An empty one names nobody, as if there were none.
    let label = |name: &str| label_of(&gate.metadata, name).filter(|text| !text.is_empty());
    Some(Place {
        bundle: label(BUNDLE_LABEL)?.to_owned(),
        environment: label(ENVIRONMENT_LABEL)?.to_owned(),
        approval: approval(annotation(APPROVAL_ANNOTATION)),
        upstreams: upstreams
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    })
}

/// The place of an instance in a Graph that people wrote. The environment is that of the PromotionStep that requires
/// the gate; the upstreams are those of the PromotionSteps that the gate refers to; the Bundle is the Graph's node of
/// that kind, or its owner.
pub fn place_in_graph(graph: &Graph, gate: &PolicyGate) -> Option<Place> {
    let own = graph.spec.nodes.iter().find(|node| makes(graph, node, gate))?;
    let steps: Vec<(&Node, &Value)> =
        graph.spec.nodes.iter().filter_map(|node| Some((node, body(node, "PromotionStep")?))).collect();
    let requires = |(_, step): &&(&Node, &Value)| {
        step.pointer("/spec/requiredGates").is_some_and(|gates| refers(gates).contains(&own.id))
    };
    let follows =
        |(node, step): &&(&Node, &Value)| refers(step).contains(&own.id) || node.depends_on.contains(&own.id);
    let (_, guarded) = steps.iter().find(requires).or_else(|| steps.iter().find(follows))?;
    let mut before = body(own, "PolicyGate").map(refers).unwrap_or_default();
    before.extend(own.depends_on.iter().cloned());
    let upstreams = steps
        .iter()
        .filter(|(node, _)| before.contains(&node.id))
        .filter_map(|(_, step)| literal(step, "/spec/environment"))
        .collect();
    Some(Place {
        bundle: bundle_of(graph, guarded)?,
        environment: literal(guarded, "/spec/environment")?,
        approval: approval(guarded.pointer("/spec/approval").and_then(Value::as_str)),
        upstreams,
    })
}

/// Whether the node makes this gate: the Graph has put its label on it, or the names are the same.
fn makes(graph: &Graph, node: &Node, gate: &PolicyGate) -> bool {
    let Some(template) = body(node, "PolicyGate") else { return false };
    label_of(&gate.metadata, &owner(graph).reference_label(&node.id)).is_some()
        || literal(template, "/metadata/name").is_some_and(|name| gate.metadata.name.as_ref() == Some(&name))
}

fn bundle_of(graph: &Graph, step: &Value) -> Option<String> {
    let named = |node: &Node| literal(body(node, "Bundle")?, "/metadata/name");
    graph
        .spec
        .nodes
        .iter()
        .find_map(named)
        .or_else(|| {
            let owners = graph.metadata.owner_references.iter().flatten();
            owners
                .filter(|owner| owner.kind == "Bundle" && is_ours(&owner.api_version))
                .map(|owner| owner.name.clone())
                .next()
        })
        .or_else(|| literal(step, "/spec/bundleRef"))
}

/// What a node makes or reads, when it is one of our kinds.
fn body<'n>(node: &'n Node, kind: &str) -> Option<&'n Value> {
    let body = node.template.as_ref().or(node.reference.as_ref())?;
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    (text("kind") == Some(kind) && text("apiVersion").is_some_and(is_ours)).then_some(body)
}

fn is_ours(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

/// A text that is there as it is, without an expression in it.
fn literal(object: &Value, pointer: &str) -> Option<String> {
    let text = object.pointer(pointer)?.as_str()?;
    (!text.contains("${")).then(|| text.to_owned())
}

/// The nodes that the expressions in a body refer to.
fn refers(body: &Value) -> BTreeSet<String> {
    let env = Env::standard().allow_undeclared();
    let Ok(template) = Template::compile(&env, body) else { return BTreeSet::new() };
    template.references().into_iter().map(|(_, reference)| reference.root.clone()).collect()
}

fn approval(text: Option<&str>) -> Approval {
    match text {
        Some("pr-review") => Approval::PrReview,
        _ => Approval::Auto,
    }
}
