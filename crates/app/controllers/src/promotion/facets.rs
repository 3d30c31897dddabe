//! What the objects of promotions are found by.

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    BUNDLE_LABEL, Bundle, PIPELINE_LABEL, Pipeline, PolicyGate, PromotionStep, SHARD_LABEL,
};
use kardinal_cluster::Facet;
use kardinal_graph::referring_graphs;
use kardinal_policy::{FREEZE_LABEL, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL};
use kardinal_promotion::promotion_step::promotion_branch;
use serde_json::Value;

use crate::dialect::{FacetsOf, owners};
use crate::reconcile::objects::{is, label, text};

/// A Graph that carries the Bundle, a step of it, or a gate that was made for it; whatever may be a template of gates has "".
pub(crate) const BUNDLE: &str = "Bundle";
/// A Graph, by each of its nodes that makes a step.
pub(crate) const MAKES_STEP: &str = "makes step";
/// A step that is verified, by its Bundle.
pub(crate) const VERIFIED: &str = "verified";
/// A Bundle of the Pipeline, or a step of one.
pub(crate) const PIPELINE: &str = "Pipeline";
/// A Pipeline, by a namespace that it adds to those that are searched for templates of gates.
pub(crate) const SEARCHES: &str = "searches namespace";
/// A gate that holds the whole Pipeline.
pub(crate) const FREEZES: &str = "freezes Pipeline";
/// A gate that was made from a template, by [`place`].
pub(crate) const TEMPLATE: &str = "template";
/// A gate that somebody wrote into a Graph, so that nothing on it names its Bundle; all of them have "".
pub(crate) const BY_HAND: &str = "by hand";
/// A step that is under way; all of them have "".
pub(crate) const MOVING: &str = "moving";
/// A step that is under way, by its Bundle.
pub(crate) const MOVING_BUNDLE: &str = "moving with Bundle";
/// A step that is under way, by its Pipeline.
pub(crate) const MOVING_PIPELINE: &str = "moving in Pipeline";
/// A step that is under way, by the [`place`] it wants to get to.
pub(crate) const MOVING_TO: &str = "moving to";
/// A step that is under way, by a gate that it must pass.
pub(crate) const MOVING_PAST: &str = "moving past gate";
/// A step, by the branch of the pull request that it may have.
pub(crate) const BRANCH: &str = "branch";

/// A step that has a shard; all of them have "".
pub(crate) const SHARDED: &str = "sharded";

/// A namespace and a name in it, or a Pipeline and an environment of it, as one text.
pub(crate) fn place(outer: &str, inner: &str) -> String {
    format!("{outer}/{inner}")
}

/// By kind.
pub(super) const FACETS: &[FacetsOf] = &[
    FacetsOf { kind: is::<Graph>, found_by: of_graph },
    FacetsOf { kind: is::<Bundle>, found_by: of_bundle },
    FacetsOf { kind: is::<Pipeline>, found_by: of_pipeline },
    FacetsOf { kind: is::<PolicyGate>, found_by: of_gate },
    FacetsOf { kind: is::<PromotionStep>, found_by: of_step },
];

fn of_graph(graph: &Value, all: &mut Vec<Facet>) {
    all.extend(carried_by(graph).map(|bundle| (BUNDLE, bundle.to_owned())));
    let nodes = graph.pointer("/spec/nodes").and_then(Value::as_array).into_iter().flatten();
    let steps = nodes.filter(|node| text(node, "/template/kind") == "PromotionStep");
    all.extend(steps.map(|node| (MAKES_STEP, text(node, "/id").to_owned())));
}

fn of_bundle(bundle: &Value, all: &mut Vec<Facet>) {
    all.push((PIPELINE, label(bundle, PIPELINE_LABEL).to_owned()));
}

fn of_pipeline(pipeline: &Value, all: &mut Vec<Facet>) {
    let added = pipeline.pointer("/spec/policyNamespaces").and_then(Value::as_array);
    let added = added.into_iter().flatten().filter_map(Value::as_str);
    all.extend(added.map(|namespace| (SEARCHES, namespace.to_owned())));
}

fn of_gate(gate: &Value, all: &mut Vec<Facet>) {
    let bundle = label(gate, BUNDLE_LABEL);
    let is_node = referring_graphs(gate).next().is_some();
    if bundle.is_empty() && is_node {
        all.push((BY_HAND, String::new()));
    }
    all.push((BUNDLE, bundle.to_owned()));
    if label(gate, FREEZE_LABEL) == "true" {
        all.push((FREEZES, label(gate, PIPELINE_LABEL).to_owned()));
    }
    let template = label(gate, GATE_TEMPLATE_LABEL);
    if !template.is_empty() {
        all.push((TEMPLATE, place(label(gate, GATE_TEMPLATE_NAMESPACE_LABEL), template)));
    } else if !bundle.is_empty() {
        // Which gates are templates is for the policy to say: a label that names a Bundle takes none of them out of sight.
        all.push((BUNDLE, String::new()));
    }
}

fn of_step(step: &Value, all: &mut Vec<Facet>) {
    let [bundle, pipeline, environment] =
        ["/spec/bundleRef", "/spec/pipeline", "/spec/environment"].map(|field| text(step, field));
    all.push((BUNDLE, bundle.to_owned()));
    all.push((PIPELINE, pipeline.to_owned()));
    if !label(step, SHARD_LABEL).is_empty() {
        all.push((SHARDED, String::new()));
    }
    let state = text(step, "/status/state");
    if state == "Verified" {
        all.push((VERIFIED, bundle.to_owned()));
    }
    // Whatever its status says: somebody may have written that, or opens the pull request again.
    let namespace = text(step, "/metadata/namespace");
    all.push((BRANCH, promotion_branch(namespace, bundle, environment)));
    let ended = matches!(state, "Verified" | "Failed");
    // One that has ended may still have to close its pull request.
    if ended && text(step, "/status/outputs/prState") != "open" {
        return;
    }
    all.push((MOVING, String::new()));
    all.push((MOVING_BUNDLE, bundle.to_owned()));
    all.push((MOVING_PIPELINE, pipeline.to_owned()));
    all.push((MOVING_TO, place(pipeline, environment)));
    let gates = step.pointer("/spec/requiredGates").and_then(Value::as_array).into_iter().flatten();
    all.extend(gates.filter_map(Value::as_str).map(|gate| (MOVING_PAST, gate.to_owned())));
}

/// The Bundles that a Graph carries: its owner, or a node of it.
pub(crate) fn carried_by(graph: &Value) -> impl Iterator<Item = &str> {
    let is_bundle = |object: &&Value| text(object, "/kind") == "Bundle";
    let nodes = graph.pointer("/spec/nodes").and_then(Value::as_array).into_iter().flatten();
    let bodies = nodes.filter_map(|node| node.get("template").or_else(|| node.get("ref")));
    let owners = owners(graph).filter(is_bundle).map(|owner| text(owner, "/name"));
    owners.chain(bodies.filter(is_bundle).map(|body| text(body, "/metadata/name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::facets_of;
    use crate::graph::facets::MANAGED_BY;
    use kardinal_object::Gvk;
    use serde_json::json;

    fn found_by(api_version: &str, kind: &str, object: &Value, facet: &str) -> Vec<String> {
        let all = facets_of(&Gvk::parse(api_version, kind).unwrap(), object);
        all.into_iter().filter(|(name, _)| *name == facet).map(|(_, value)| value).collect()
    }

    #[test]
    fn a_step_is_found_by_where_it_moves_until_it_is_there() {
        let step = |state: &str, pull_request: &str| {
            json!({
                "metadata": {"namespace": "team-a"},
                "spec": {"bundleRef": "v2", "pipeline": "app", "environment": "prod", "requiredGates": ["soak"]},
                "status": {"state": state, "outputs": {"prState": pull_request}},
            })
        };
        let cases = [
            ("", "", 1),
            ("Pending", "", 1),
            ("WaitingForMerge", "open", 1),
            ("Verified", "merged", 0),
            ("Failed", "open", 1),
            ("Failed", "closed", 0),
        ];
        for (state, pull_request, moving) in cases {
            let count = |facet| {
                found_by("kardinal.io/v1alpha1", "PromotionStep", &step(state, pull_request), facet).len()
            };
            for facet in [MOVING_BUNDLE, MOVING_PIPELINE, MOVING_TO, MOVING_PAST] {
                assert_eq!(count(facet), moving, "{state} {pull_request}: {facet}");
            }
            // Whoever opens a pull request again can merge it.
            let found = found_by("kardinal.io/v1alpha1", "PromotionStep", &step(state, pull_request), BRANCH);
            assert_eq!(found, ["kardinal/team-a/v2/prod"], "{state} {pull_request}");
            assert_eq!((count(BUNDLE), count(PIPELINE)), (1, 1), "{state}");
        }
    }

    #[test]
    fn a_graph_is_found_by_its_owner_and_by_the_bundle_it_reads() {
        let graph = json!({
            "metadata": {"uid": "u", "ownerReferences": [{"kind": "Bundle", "name": "v1"}, {"kind": "Other", "name": "x"}]},
            "spec": {"nodes": [
                {"id": "b", "ref": {"kind": "Bundle", "metadata": {"name": "v2"}}},
                {"id": "c", "template": {"kind": "ConfigMap", "metadata": {"name": "c"}}},
            ]},
        });
        assert_eq!(found_by("experimental.kro.run/v1alpha1", "Graph", &graph, BUNDLE), ["v1", "v2"]);
    }

    #[test]
    fn gates_are_told_apart_by_whom_they_are_for() {
        let gate = |labels: Value| json!({"metadata": {"labels": labels}});
        let found = |labels, facet| found_by("kardinal.io/v1alpha1", "PolicyGate", &gate(labels), facet);
        assert_eq!(found(json!({}), BUNDLE), [""]);
        let made_for = json!({BUNDLE_LABEL: "v1", "kardinal.io/gate-template": "soak"});
        assert_eq!(found(made_for, BUNDLE), ["v1"]);
        // A label of a Bundle makes no instance: what was not made from a template may be one.
        assert_eq!(found(json!({BUNDLE_LABEL: "v1"}), BUNDLE), ["v1", ""]);
        let in_graph = "gate.u-1.internal.kro.run/reference";
        assert_eq!(found(json!({in_graph: "template"}), BY_HAND), [""]);
        assert_eq!(found(json!({in_graph: "template"}), MANAGED_BY), ["u-1"]);
        assert!(found(json!({in_graph: "template", BUNDLE_LABEL: "v1"}), BY_HAND).is_empty());
        assert!(found(json!({}), BY_HAND).is_empty(), "a template");
        assert_eq!(found(json!({"kardinal.io/freeze": "true", PIPELINE_LABEL: "app"}), FREEZES), ["app"]);
        assert!(found(json!({PIPELINE_LABEL: "app"}), FREEZES).is_empty());
        let made = json!({"kardinal.io/gate-template": "soak", "kardinal.io/gate-template-namespace": "org"});
        assert_eq!(found(made, TEMPLATE), ["org/soak"]);
    }
}
