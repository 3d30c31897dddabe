//! The Graph of the specification, node by node.

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use serde_json::{Value, json};

use super::world::{fixture, gate, org, yaml};
use crate::bundle::translate;
use kardinal_planner::graph::check::compile_nodes;

fn pipeline_of_5_1() -> Pipeline {
    let mut pipeline: Pipeline = fixture!("pipeline-5-1");
    // The document shows the adapter that was found, which the Pipeline leaves open.
    pipeline.spec.environments[2].health =
        Some(yaml("{type: argocd, argocd: {name: my-app-prod}, timeout: 15m}"));
    pipeline
}

fn soak() -> PolicyGate {
    gate(
        "platform-policies",
        "staging-soak",
        "{kardinal.io/scope: org, kardinal.io/applies-to: prod, kardinal.io/type: gate}",
        "{expression: 'bundle.upstreamSoakMinutes >= 30', message: Bundle must soak in staging for at least 30 minutes, recheckInterval: 1m}",
    )
}

#[test]
fn the_graph_of_5_3_is_made_exactly() {
    let bundle: Bundle = fixture!("bundle-5-5");
    let no_weekend: PolicyGate = fixture!("policy-gate-5-2");
    let wanted: Graph = fixture!("graph-5-3-gated");
    let made = translate(&bundle, &pipeline_of_5_1(), &[&soak(), &no_weekend], &org(), &[]).unwrap();
    assert_eq!(made.metadata.name, wanted.metadata.name);
    let owner = &made.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Bundle", "my-app-v1-29-0-1712567890"));
    assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
    let mut nodes = serde_json::to_value(&made.spec.nodes).unwrap();
    for node in nodes.as_array_mut().unwrap() {
        // Labels and annotations are ours; everything else is the document's.
        let metadata = node.pointer_mut("/template/metadata").unwrap().as_object_mut().unwrap();
        metadata.retain(|key, _| key == "name");
    }
    let mut wanted = serde_json::to_value(&wanted.spec.nodes).unwrap();
    for node in wanted.as_array_mut().unwrap() {
        // The document asks for an open gate and a fresh answer for ever, with which no finished Graph would stay ready.
        if node.pointer("/template/kind") == Some(&Value::from("PolicyGate")) {
            let open = node["propagateWhen"][0].as_str().unwrap().trim_end_matches('}').to_owned();
            let arrived = "bundle.?status.?phase.orValue(\"\") == \"Verified\"}";
            node["readyWhen"] = json!([format!("{open} || {arrived}")]);
            node["dependsOn"] = json!(["bundle"]);
        }
    }
    assert_eq!(nodes, wanted);
    compile_nodes(&made.spec.nodes).unwrap();
}

#[test]
fn the_objects_carry_labels_and_annotations() {
    let bundle: Bundle = fixture!("bundle-5-5");
    let made = translate(&bundle, &pipeline_of_5_1(), &[&soak()], &org(), &[]).unwrap();
    let metadata = |id: &str| -> Value {
        let node = made.spec.nodes.iter().find(|node| node.id == id).unwrap();
        node.template.as_ref().unwrap()["metadata"].clone()
    };
    let labels = |id: &str| serde_json::to_string(&metadata(id)["labels"]).unwrap();
    let annotations = |id: &str| serde_json::to_string(&metadata(id)["annotations"]).unwrap();
    let name = "my-app-v1-29-0-1712567890";
    assert_eq!(
        labels("dev"),
        format!(
            r#"{{"kardinal.io/bundle":"{name}","kardinal.io/environment":"dev","kardinal.io/pipeline":"my-app"}}"#
        )
    );
    assert_eq!(
        labels("prod"),
        format!(
            r#"{{"kardinal.io/bundle":"{name}","kardinal.io/environment":"prod","kardinal.io/pipeline":"my-app","kardinal.io/shard":"prod-cluster"}}"#
        )
    );
    assert_eq!(
        labels("stagingSoak"),
        format!(
            r#"{{"kardinal.io/bundle":"{name}","kardinal.io/environment":"prod","kardinal.io/gate-template":"staging-soak","kardinal.io/gate-template-namespace":"platform-policies","kardinal.io/pipeline":"my-app","kardinal.io/scope":"org"}}"#
        )
    );
    assert_eq!(annotations("dev"), "null");
    assert_eq!(annotations("staging"), r#"{"kardinal.io/upstreams":"dev"}"#);
    assert_eq!(
        annotations("stagingSoak"),
        r#"{"kardinal.io/approval":"pr-review","kardinal.io/upstreams":"staging"}"#
    );
    let graph = made.metadata.labels.unwrap();
    assert_eq!(graph["kardinal.io/pipeline"], "my-app");
    assert_eq!(graph["kardinal.io/bundle"], name);
}
