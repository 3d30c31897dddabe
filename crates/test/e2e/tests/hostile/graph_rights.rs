//! The rights of Graphs and of the controllers on a real kube-apiserver with RBAC, installed as `kardinal install --export`
//! has it.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kardinal_api::graph::NodeState;
use kardinal_testkit::installed::{ACCOUNT, apply, client_as};
use kardinal_testkit::world::{graphs, on_real_kubernetes_installed};
use kardinal_testkit::{Story, World};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const GRAPHS: &str = "experimental.kro.run/v1alpha1";
const KARDINAL: &str = "kardinal.io/v1alpha1";
const POLICIES: &str = "platform-policies";

#[test]
fn the_installed_account_has_no_write_on_gates_of_the_policy_namespaces() -> anyhow::Result<()> {
    on_real_kubernetes_installed(graphs(), async |world| {
        let story = Story::new(world);
        apply(
            &world.client,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POLICIES}}),
        )
        .await?;
        let gate = |namespace: &str| {
            json!({
                "apiVersion": KARDINAL, "kind": "PolicyGate", "metadata": {"name": "frozen", "namespace": namespace},
                "spec": {"expression": "false", "message": "nobody passes"},
            })
        };
        apply(&world.client, &gate(POLICIES)).await?;
        let kubeconfig = world.kubeconfig.clone().context("a kubeconfig")?;
        let account = client_as(&world.client, &kubeconfig, kardinal_api::SYSTEM_NAMESPACE, ACCOUNT).await?;
        let gates = kardinal_testkit::apply::api(&account, POLICIES, KARDINAL, "PolicyGate");
        let open = Patch::Merge(json!({"spec": {"expression": "true"}}));
        let refused = world
            .eventually("the admission policy holds", async || {
                Ok(match gates.patch("frozen", &PatchParams::default(), &open).await {
                    Err(kube::Error::Api(status)) if status.code == 403 => Ok(status.message.clone()),
                    other => Err(format!("{other:?}")),
                })
            })
            .await?;
        ensure!(refused.contains("do not write the gates of the organisation"), "{refused}");
        let mut made = gate(POLICIES);
        made["metadata"]["name"] = "made".into();
        let made = Patch::Apply(made);
        ensure!(gates.patch("made", &PatchParams::apply("x"), &made).await.is_err(), "it makes none there");
        ensure!(gates.delete("frozen", &DeleteParams::default()).await.is_err(), "it deletes none there");
        let status = Patch::Merge(json!({"status": {"ready": false}}));
        gates.patch_status("frozen", &PatchParams::default(), &status).await.context("it reports there")?;

        // In a team's namespace its Graphs make gates, and take them away.
        let mut own = gate(&world.namespace);
        own["metadata"]["name"] = "own".into();
        let node = json!({"id": "gate", "template": own});
        story.apply(&graph("gated", None, &[node])).await?;
        story.condition("gated", "Ready", "True", "Ready").await?;
        story.delete(GRAPHS, "Graph", "gated").await?;
        story.gone(GRAPHS, "Graph", "gated").await?;
        story.gone(KARDINAL, "PolicyGate", "own").await
    })
}

#[test]
fn people_get_the_kinds_with_the_built_in_roles_and_no_status() -> anyhow::Result<()> {
    on_real_kubernetes_installed(graphs(), async |world| {
        for role in ["view", "edit", "admin"] {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": world.namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role}],
            });
            apply(&world.client, &binding).await?;
        }
        let reviews: Api<SubjectAccessReview> = Api::all(world.client.clone());
        let may = async |user: &str, verb: &str, resource: &str| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let group = if resource == "graphs" { "experimental.kro.run" } else { "kardinal.io" };
            let review = serde_json::from_value(json!({"spec": {"user": user, "resourceAttributes": {
                "namespace": world.namespace, "verb": verb, "group": group, "resource": resource,
                "subresource": subresource,
            }}}))?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            anyhow::Ok(answer.status.is_some_and(|status| status.allowed))
        };
        for (user, verb, resource, wanted) in [
            ("view", "list", "promotionsteps", true),
            ("view", "create", "bundles", false),
            ("edit", "create", "bundles", true),
            ("edit", "delete", "policygates", true),
            ("admin", "patch", "pipelines", true),
            ("admin", "patch", "graphs", true),
        ] {
            // The built-in roles are put together a moment later.
            world
                .eventually(&format!("{user} may {verb} {resource}: {wanted}"), async || {
                    let so = may(user, verb, resource).await? == wanted;
                    Ok(if so { Ok(()) } else { Err("it is not so yet".to_owned()) })
                })
                .await?;
        }
        for resource in ["promotionsteps", "promotionsteps/status", "bundles/status", "policygates/status"] {
            for user in ["view", "edit", "admin"] {
                ensure!(!may(user, "patch", resource).await?, "{user} may patch {resource}");
            }
        }
        Ok(())
    })
}

#[test]
fn a_graph_with_an_account_does_what_the_account_may() -> anyhow::Result<()> {
    on_real_kubernetes_installed(graphs(), async |world| {
        let story = Story::new(world);
        let other = format!("{}-b", world.namespace);
        prepare(world, &other).await?;
        let config = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": other.as_str()}, "data": {"from": "a"},
            })
        };
        let read = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": other.as_str()}});
        let copy = json!({"id": "copy", "template": {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}, "data": {"key": "${theirs.data.key}"},
        }});
        let nodes = |name: &str| {
            vec![
                json!({"id": "made", "template": config(name)}),
                json!({"id": "theirs", "ref": read}),
                copy.clone(),
            ]
        };

        // Nobody, and an account without rights.
        for (name, account) in [("nobody", None), ("stranger", Some("stranger"))] {
            story.apply(&graph(name, account, &nodes(name))).await?;
            for node in ["made", "theirs"] {
                let seen = story.state(name, node, NodeState::Error).await?;
                let message = seen.message.unwrap_or_default();
                let word = if account.is_some() { "may not get" } else { "`spec.serviceAccountName`" };
                ensure!(message.contains(word), "{name} {node}: {message}");
            }
            ensure!(story.find("v1", "ConfigMap", "copy").await?.is_none(), "{name}: nothing is copied");
            story.delete(GRAPHS, "Graph", name).await?;
            story.gone(GRAPHS, "Graph", name).await?;
        }

        // An account with the rights for it.
        story.apply(&graph("deployer", Some("deployer"), &nodes("made"))).await?;
        story.condition("deployer", "Ready", "True", "Ready").await?;
        let copy = story.find("v1", "ConfigMap", "copy").await?.context("the copy")?;
        ensure!(copy["data"]["key"] == "value", "{copy}");
        let configs = kardinal_testkit::apply::api(&world.client, &other, "v1", "ConfigMap");
        configs.get("made").await.context("it was made in the name of the account")?;

        // The rights go; then the Graph goes, too, and leaves behind what it may not remove.
        let bindings = kardinal_testkit::apply::api(
            &world.client,
            &other,
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
        );
        bindings.delete("deployer", &DeleteParams::default()).await?;
        story.delete(GRAPHS, "Graph", "deployer").await?;
        story.gone(GRAPHS, "Graph", "deployer").await?;
        configs.get("made").await.context("it stays")?;
        let events: Api<k8s_openapi::api::core::v1::Event> =
            Api::namespaced(world.client.clone(), &world.namespace);
        let events = events.list(&ListParams::default()).await?.items;
        let told = events.iter().find(|event| event.reason.as_deref() == Some("NotAllowed"));
        let message = told.and_then(|event| event.message.clone()).context("an event tells of it")?;
        ensure!(message.contains(&format!("ConfigMap {other}/made")), "{message}");
        Ok(())
    })
}

/// Another team's namespace with something to read, and two accounts, of which one has rights there.
async fn prepare(world: &World, other: &str) -> anyhow::Result<()> {
    let own = world.namespace.as_str();
    let rights = "rbac.authorization.k8s.io/v1";
    let subject = json!({"kind": "ServiceAccount", "name": "deployer", "namespace": own});
    for document in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": other}, "data": {"key": "value"}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger", "namespace": own}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer", "namespace": own}}),
        json!({
            "apiVersion": rights, "kind": "Role", "metadata": {"name": "deployer", "namespace": other},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}],
        }),
        json!({
            "apiVersion": rights, "kind": "Role", "metadata": {"name": "deployer", "namespace": own},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]}],
        }),
        json!({
            "apiVersion": rights, "kind": "RoleBinding", "metadata": {"name": "deployer", "namespace": other},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"}, "subjects": [subject],
        }),
        json!({
            "apiVersion": rights, "kind": "RoleBinding", "metadata": {"name": "deployer", "namespace": own},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"}, "subjects": [subject],
        }),
    ] {
        apply(&world.client, &document).await?;
    }
    Ok(())
}

fn graph(name: &str, account: Option<&str>, nodes: &[Value]) -> Value {
    let mut graph =
        json!({"apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": name}, "spec": {"nodes": nodes}});
    if let (Some(account), Some(spec)) = (account, graph.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("serviceAccountName".to_owned(), account.into());
    }
    graph
}
