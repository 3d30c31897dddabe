//! A tenant writes Graphs in its own namespace and tries to reach out of it: the controller may do more than the tenant,
//! and must not lend it its hands.

use anyhow::{Context as _, ensure};
use kardinal_api::graph::NodeState;
use kardinal_testkit::world::{graphs, in_memory};
use kardinal_testkit::{Story, World, apply};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};

const GRAPHS: &str = "experimental.kro.run/v1alpha1";
const KARDINAL: &str = "kardinal.io/v1alpha1";
const POLICIES: &str = "platform-policies";
const OTHERS: &str = "team-b";
const RIGHTS: &str = "rbac.authorization.k8s.io/v1";

/// An organisation gate that nobody passes, and a Secret of another team.
async fn furnish(world: &World) -> anyhow::Result<()> {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client.clone());
    for name in [POLICIES, OTHERS] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        match namespaces.create(&PostParams::default(), &namespace).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(error.into()),
        }
    }
    let gate = json!({
        "apiVersion": KARDINAL, "kind": "PolicyGate",
        "metadata": {"name": "frozen", "labels": {"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": "false", "message": "nobody passes"},
    });
    apply(&world.client, POLICIES, &gate).await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"key": "hidden"}});
    apply(&world.client, OTHERS, &secret).await?;
    Ok(())
}

async fn gate(world: &World) -> anyhow::Result<DynamicObject> {
    let gates = apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    Ok(gates.get("frozen").await?)
}

/// A Graph with this node, what carries its data out, and one that has nothing to do with it.
fn graph(name: &str, node: &Value) -> Value {
    let config = |name: String, text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    json!({
        "apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": name},
        "spec": {"nodes": [
            node,
            {"id": "loot", "template": config(format!("{name}-loot"), "${string(size(attack))}")},
            {"id": "beside", "template": config(format!("{name}-beside"), "fine")},
        ]},
    })
}

fn open_gate() -> Value {
    json!({
        "apiVersion": KARDINAL, "kind": "PolicyGate", "metadata": {"name": "frozen", "namespace": POLICIES},
        "spec": {"expression": "true", "message": "everybody passes"},
    })
}

/// Every way out that a Graph has.
fn attacks() -> Vec<(&'static str, Value)> {
    let secret = |namespace: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": namespace}});
    let binding = |kind: &str| {
        let admin =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
        json!({"apiVersion": RIGHTS, "kind": kind, "metadata": {"name": "conquered"}, "roleRef": admin})
    };
    let token = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "conquered"},
        "type": "kubernetes.io/service-account-token",
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "conquered"}});
    vec![
        ("force", json!({"id": "attack", "lifecycle": {"apply": "Force"}, "template": open_gate()})),
        ("adopt", json!({"id": "attack", "template": open_gate()})),
        ("patch", json!({"id": "attack", "patch": open_gate()})),
        (
            "status",
            json!({"id": "attack", "patch": {
                "apiVersion": KARDINAL, "kind": "PolicyGate", "metadata": {"name": "frozen", "namespace": POLICIES},
                "status": {"ready": true},
            }}),
        ),
        ("ref", json!({"id": "attack", "ref": secret(OTHERS)})),
        (
            "watch",
            json!({"id": "attack", "watch": {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": OTHERS}}}),
        ),
        ("watchall", json!({"id": "attack", "watch": {"apiVersion": "v1", "kind": "Secret"}})),
        (
            "foreach",
            json!({"id": "attack", "forEach": {"ns": format!("${{['{OTHERS}', '{POLICIES}']}}")}, "ref": secret("${ns}")}),
        ),
        ("computed", json!({"id": "attack", "ref": secret("${'team' + '-b'}")})),
        ("binding", json!({"id": "attack", "template": binding("ClusterRoleBinding")})),
        ("local", json!({"id": "attack", "template": binding("RoleBinding")})),
        ("token", json!({"id": "attack", "template": token})),
        ("namespace", json!({"id": "attack", "template": namespace})),
        ("namespaces", json!({"id": "attack", "watch": {"apiVersion": "v1", "kind": "Namespace"}})),
        (
            "definition",
            json!({"id": "attack", "patch": {
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "policygates.kardinal.io", "labels": {"conquered": "yes"}},
            }}),
        ),
    ]
}

#[test]
fn a_graph_acts_inside_its_own_namespace() -> anyhow::Result<()> {
    in_memory(graphs(), async |world| {
        furnish(world).await?;
        let before = gate(world).await?;
        let story = Story::new(world);
        for (name, node) in attacks() {
            story.apply(&graph(name, &node)).await?;
            let node =
                story.state(name, "attack", NodeState::Error).await.with_context(|| name.to_owned())?;
            let message = node.message.unwrap_or_default();
            for word in ["`spec.serviceAccountName`", "`--graph-scope=cluster`"] {
                ensure!(message.contains(word), "{name}: the way out is told: {message}");
            }
            story.condition(name, "Ready", "False", "Error").await?;
            story.state(name, "beside", NodeState::Ready).await?;
            ensure!(story.find("v1", "ConfigMap", &format!("{name}-loot")).await?.is_none(), "{name}: loot");
        }
        ensure!(gate(world).await?.metadata == before.metadata, "nobody has touched the gate");
        // None of them hangs when it is deleted.
        for (name, _) in attacks() {
            story.delete(GRAPHS, "Graph", name).await?;
            story.gone(GRAPHS, "Graph", name).await?;
        }
        ensure!(gate(world).await?.metadata == before.metadata, "nobody has touched the gate");
        Ok(())
    })
}

#[test]
fn a_node_that_runs_at_the_end_stays_inside_too() -> anyhow::Result<()> {
    in_memory(graphs(), async |world| {
        furnish(world).await?;
        let before = gate(world).await?;
        let story = Story::new(world);
        let last = json!({"id": "attack", "finalizes": "beside", "lifecycle": {"apply": "Force"}, "template": open_gate()});
        let mut graph = graph("last", &last);
        if let Some(nodes) = graph["spec"]["nodes"].as_array_mut() {
            nodes.retain(|node| node["id"] != "loot");
        }
        story.apply(&graph).await?;
        story.state("last", "beside", NodeState::Ready).await?;
        story.delete(GRAPHS, "Graph", "last").await?;
        story.gone(GRAPHS, "Graph", "last").await?;
        story.gone("v1", "ConfigMap", "last-beside").await?;
        ensure!(gate(world).await?.metadata == before.metadata, "nobody has touched the gate");
        Ok(())
    })
}

#[test]
fn an_operator_may_let_graphs_out_and_in_again_and_what_is_outside_then_stays() -> anyhow::Result<()> {
    let outside =
        kardinal_controllers::Settings { graph_scope: kardinal_controllers::GraphScope::Cluster, ..graphs() };
    in_memory(outside, async |world| {
        furnish(world).await?;
        let story = Story::new(world);
        let mut graph = graph(
            "allowed",
            &json!({"id": "attack", "template": open_gate(), "lifecycle": {"apply": "Force"}}),
        );
        if let Some(nodes) = graph["spec"]["nodes"].as_array_mut() {
            nodes.retain(|node| node["id"] != "loot");
        }
        story.apply(&graph).await?;
        story.condition("allowed", "Ready", "True", "Ready").await?;
        ensure!(gate(world).await?.data["spec"]["expression"] == "true", "the operator has allowed it");

        // From now on Graphs stay at home, and one that was outside cannot clean up there.
        world.restart_with(graphs()).await?;
        story.state("allowed", "attack", NodeState::Error).await?;
        story.delete(GRAPHS, "Graph", "allowed").await?;
        story.gone(GRAPHS, "Graph", "allowed").await?;
        story.gone("v1", "ConfigMap", "allowed-beside").await?;
        ensure!(gate(world).await?.data["spec"]["expression"] == "true", "the gate is left as it is");
        let events: Api<k8s_openapi::api::core::v1::Event> =
            Api::namespaced(world.client.clone(), &world.namespace);
        let events = events.list(&kube::api::ListParams::default()).await?.items;
        let told = events.iter().find(|event| event.reason.as_deref() == Some("NotAllowed"));
        let message = told.and_then(|event| event.message.clone()).context("an event tells of it")?;
        ensure!(message.contains("PolicyGate platform-policies/frozen"), "{message}");
        Ok(())
    })
}

#[test]
fn an_account_without_rbac_behind_it_is_refused() -> anyhow::Result<()> {
    in_memory(graphs(), async |world| {
        furnish(world).await?;
        let story = Story::new(world);
        for (name, node) in [
            (
                "reads",
                json!({"id": "attack", "ref": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": OTHERS}}}),
            ),
            ("writes", json!({"id": "attack", "template": open_gate()})),
        ] {
            let mut graph = graph(name, &node);
            graph["spec"]["serviceAccountName"] = "deployer".into();
            story.apply(&graph).await?;
            let node = story.state(name, "attack", NodeState::Error).await?;
            let message = node.message.unwrap_or_default();
            ensure!(message.to_lowercase().contains("impersonat"), "{message}");
            story.delete(GRAPHS, "Graph", name).await?;
            story.gone(GRAPHS, "Graph", name).await?;
        }
        ensure!(gate(world).await?.data["spec"]["expression"] == "false");
        Ok(())
    })
}
