//! Whoever owns a namespace, and nothing else, cannot pass a gate of the organisation.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kardinal_api::kardinal::PromotionState;
use kardinal_testkit::shop::{APP, POLICIES};
use kardinal_testkit::world::WorldKind;
use kardinal_testkit::{Shop, World, in_three_worlds, real};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

in_three_worlds!(promotions: nine_ways_round_an_organisation_gate_and_none_reaches_prod);

const KARDINAL: &str = "kardinal.io/v1alpha1";
const GRAPHS: &str = "experimental.kro.run/v1alpha1";
const BUNDLE: &str = "my-app-v1-29-0";
const INSTANCE: &str = "my-app-v1-29-0-soak";

/// The team's owner in one world.
struct Tenant<'a> {
    shop: &'a Shop<'a>,
    client: kube::Client,
}

async fn nine_ways_round_an_organisation_gate_and_none_reaches_prod(world: &World) -> anyhow::Result<()> {
    let mut shop = Shop::open(world, &["staging", "prod"]).await?;
    shop.run_workloads(&["staging"]);
    organisation(&shop).await?;
    shop.pipeline(json!({
        "apiVersion": KARDINAL, "kind": "Pipeline", "metadata": {"name": APP},
        "spec": {"git": {"url": ""}, "environments": [{"name": "staging"}, {"name": "prod"}]},
    }))
    .await?;
    shop.release(BUNDLE, "1.29.0", json!({})).await?;
    shop.state(BUNDLE, "staging", PromotionState::Verified).await?;
    let tenant = Tenant { client: client_of_tenant(world).await?, shop: &shop };
    tenant.instance_is_closed().await?;

    tenant.deletes_the_instance().await.context("way 1")?;
    tenant.edits_the_expression().await.context("way 2")?;
    tenant.writes_the_status_of_the_instance().await.context("way 3")?;
    tenant.takes_the_gate_out_of_the_graph().await.context("way 4")?;
    tenant.writes_a_step_by_hand().await.context("way 5")?;
    tenant.overrides_the_instance().await.context("way 6")?;
    tenant.renames_the_environment().await.context("way 7")?;
    tenant.forges_verifications().await.context("way 8")?;
    tenant.forges_labels().await.context("way 9")?;
    tenant.cannot_write_where_the_organisation_does().await?;

    // And yet it is only the gate that held it: the organisation's own word opens the way.
    let overrides = json!({"spec": {"overrides": [{"reason": "let it go", "namespace": world.namespace}]}});
    let gates = kardinal_testkit::apply::api(&world.client, POLICIES, KARDINAL, "PolicyGate");
    gates.patch("soak", &PatchParams::default(), &Patch::Merge(&overrides)).await?;
    world
        .eventually("prod gets the version", async || {
            let file = shop.file("environments/prod/kustomization.yaml").await?;
            Ok(if file.contains("1.28.0") { Err(file) } else { Ok(()) })
        })
        .await?;
    shop.close().await
}

async fn organisation(shop: &Shop<'_>) -> anyhow::Result<()> {
    shop.org_manifest(&json!({
        "apiVersion": KARDINAL,
        "kind": "PolicyGate",
        // That it names a Bundle makes it no instance.
        "metadata": {"name": "soak", "labels": {
            "kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/type": "gate",
            "kardinal.io/bundle": "none",
        }},
        "spec": {
            "expression": "bundle.upstreamSoakMinutes >= 30 || bundle.provenance.rollbackOf != '' || \
                           bundle.labels['kardinal.io/emergency'] == 'true'",
            "appliesToPaths": ["environments/prod"],
        },
    }))
    .await
}

/// All rights in the scenario's namespace and none elsewhere; where nobody asks for rights, everybody has them.
async fn client_of_tenant(world: &World) -> anyhow::Result<kube::Client> {
    let (WorldKind::Real, Some(kubeconfig)) = (world.kind, &world.kubeconfig) else {
        return Ok(world.client.clone());
    };
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "owner"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }))?;
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "owner"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": real::TENANT}],
    }))?;
    let params = PostParams::default();
    Api::namespaced(world.client.clone(), &world.namespace).create(&params, &role).await?;
    Api::namespaced(world.client.clone(), &world.namespace).create(&params, &binding).await?;
    real::tenant(kubeconfig).await
}

/// Whether the status is about the object as it is written now.
fn is_current(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation");
    generation.is_some() && object.pointer("/status/observedGeneration") == generation
}

impl Tenant<'_> {
    fn world(&self) -> &World {
        self.shop.story.world
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        kardinal_testkit::apply::api(&self.client, &self.world().namespace, api_version, kind)
    }

    async fn apply(&self, manifest: &Value) -> anyhow::Result<()> {
        kardinal_testkit::apply::apply(&self.client, &self.world().namespace, manifest).await?;
        Ok(())
    }

    async fn merge(&self, kind: &str, name: &str, patch: Value) -> anyhow::Result<()> {
        self.api(KARDINAL, kind).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    async fn merge_status(&self, kind: &str, name: &str, status: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.api(KARDINAL, kind).patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A PromotionStep that no Graph has made. Each way has its own: what an older one says may have stood there before.
    async fn step(&self, name: &str, environment: &str, bundle: &str, gates: &[&str]) -> anyhow::Result<()> {
        let fresh = self.shop.story.find(KARDINAL, "PromotionStep", name).await?.is_none();
        ensure!(fresh, "`{name}` was there before");
        self.apply(&json!({
            "apiVersion": KARDINAL, "kind": "PromotionStep", "metadata": {"name": name},
            "spec": {
                "pipeline": APP, "environment": environment, "bundleRef": bundle, "path": "./environments//prod/",
                "git": {"url": self.shop.url(&self.shop.repository), "branch": "main", "provider": "local"},
                "upstreamVerified": "Verified", "requiredGates": gates,
            },
        }))
        .await
    }

    /// Waits until the step, as it is written now, says which gate holds it.
    async fn is_held(&self, step: &str) -> anyhow::Result<()> {
        self.world()
            .eventually(&format!("`{step}` is held"), async || {
                let found = self.shop.story.find(KARDINAL, "PromotionStep", step).await?.unwrap_or_default();
                let said = found.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
                let held = is_current(&found) && said.starts_with("held by gate `soak`");
                Ok(if held { Ok(()) } else { Err(found.to_string()) })
            })
            .await?;
        self.prod_is_untouched().await
    }

    /// Waits until the gate, as it is written now, was asked and has said no.
    async fn is_closed(&self, gate: &str) -> anyhow::Result<()> {
        self.world()
            .eventually(&format!("`{gate}` says no"), async || {
                let gate = self.shop.story.find(KARDINAL, "PolicyGate", gate).await?.unwrap_or_default();
                let closed = is_current(&gate) && gate.pointer("/status/ready") == Some(&json!(false));
                Ok(if closed { Ok(()) } else { Err(gate.to_string()) })
            })
            .await?;
        self.prod_is_untouched().await
    }

    async fn instance_is_closed(&self) -> anyhow::Result<()> {
        self.is_closed(INSTANCE).await
    }

    /// No gate was ever asked and said yes; who looks too late would not see it.
    async fn no_gate_has_opened(&self) -> anyhow::Result<()> {
        let events: Api<Event> = Api::namespaced(self.world().client.clone(), &self.world().namespace);
        let events = events.list(&ListParams::default()).await?;
        let opened = events.items.iter().find(|event| event.reason.as_deref() == Some("GateOpened"));
        ensure!(opened.is_none(), "a gate has opened: {opened:?}");
        Ok(())
    }

    async fn prod_is_untouched(&self) -> anyhow::Result<()> {
        let file = self.shop.file("environments/prod/kustomization.yaml").await?;
        ensure!(file.contains("1.28.0"), "prod was reached:\n{file}");
        Ok(())
    }

    async fn deletes_the_instance(&self) -> anyhow::Result<()> {
        self.api(KARDINAL, "PolicyGate").delete(INSTANCE, &DeleteParams::default()).await?;
        self.instance_is_closed().await
    }

    /// The Graph takes the edit back; a copy that is not the Graph's stays as it is.
    async fn edits_the_expression(&self) -> anyhow::Result<()> {
        let before = self.generation(INSTANCE).await?;
        self.merge("PolicyGate", INSTANCE, json!({"spec": {"expression": "true"}})).await?;
        ensure!(self.generation(INSTANCE).await? > before, "the edit is a new generation");
        self.instance_is_closed().await?;
        self.apply(&self.copy("edited", json!({"expression": "true"}))).await?;
        self.is_closed("edited").await?;
        self.no_gate_has_opened().await
    }

    async fn generation(&self, gate: &str) -> anyhow::Result<i64> {
        let gate = self.shop.story.find(KARDINAL, "PolicyGate", gate).await?.unwrap_or_default();
        gate.pointer("/metadata/generation").and_then(Value::as_i64).context("a generation")
    }

    /// A gate that says that it was made from the organisation's.
    fn copy(&self, name: &str, spec: Value) -> Value {
        json!({
            "apiVersion": KARDINAL, "kind": "PolicyGate",
            "metadata": {"name": name, "labels": {
                "kardinal.io/gate-template": "soak", "kardinal.io/gate-template-namespace": POLICIES,
                "kardinal.io/scope": "org", "kardinal.io/bundle": BUNDLE, "kardinal.io/environment": "prod",
            }},
            "spec": spec,
        })
    }

    /// The Graph may believe it and create the step, which does not.
    async fn writes_the_status_of_the_instance(&self) -> anyhow::Result<()> {
        let now = self.world().now();
        self.merge_status("PolicyGate", INSTANCE, json!({"ready": true, "lastEvaluatedAt": now})).await?;
        self.instance_is_closed().await
    }

    async fn takes_the_gate_out_of_the_graph(&self) -> anyhow::Result<()> {
        let graphs = self.api(GRAPHS, "Graph");
        let mut graph = serde_json::to_value(graphs.get(BUNDLE).await?)?;
        let nodes = graph.pointer_mut("/spec/nodes").and_then(Value::as_array_mut).context("it has nodes")?;
        let text = |node: &Value, at: &str| node.pointer(at).and_then(Value::as_str).map(str::to_owned);
        nodes.retain(|node| text(node, "/template/kind").as_deref() != Some("PolicyGate"));
        for node in nodes {
            if text(node, "/template/spec/environment").as_deref() == Some("prod") {
                let spec = node.pointer_mut("/template/spec").and_then(Value::as_object_mut);
                spec.context("a spec")?.remove("requiredGates");
                node.as_object_mut().context("a node")?.insert("dependsOn".to_owned(), json!(["staging"]));
            }
        }
        let metadata = graph.pointer_mut("/metadata").and_then(Value::as_object_mut);
        metadata.context("metadata")?.remove("managedFields");
        graphs.replace(BUNDLE, &PostParams::default(), &serde_json::from_value(graph)?).await?;
        let step = "my-app-v1-29-0-prod";
        self.world()
            .eventually("the step requires no gates", async || {
                let found = self.shop.story.find(KARDINAL, "PromotionStep", step).await?.unwrap_or_default();
                let spec = found.get("spec").cloned().unwrap_or_default();
                let free = spec.is_object() && spec.get("requiredGates").is_none();
                Ok(if free { Ok(()) } else { Err(found.to_string()) })
            })
            .await?;
        self.is_held(step).await
    }

    async fn writes_a_step_by_hand(&self) -> anyhow::Result<()> {
        self.step("by-hand", "prod", BUNDLE, &[]).await?;
        self.is_held("by-hand").await
    }

    async fn overrides_the_instance(&self) -> anyhow::Result<()> {
        let spec = json!({"expression": "true", "overrides": [{"reason": "I want to"}]});
        self.apply(&self.copy("own-soak", spec)).await?;
        self.is_closed("own-soak").await?;
        self.step("overridden", "prod", BUNDLE, &["own-soak"]).await?;
        self.is_held("overridden").await?;
        self.no_gate_has_opened().await
    }

    async fn renames_the_environment(&self) -> anyhow::Result<()> {
        self.step("renamed", "production", BUNDLE, &[]).await?;
        self.is_held("renamed").await
    }

    /// Times in the past, and a seal that looks like one.
    async fn forges_verifications(&self) -> anyhow::Result<()> {
        let long_ago = "2020-01-01T00:00:00Z";
        let step = self.shop.find_step(BUNDLE, "staging").await?.context("it is there")?;
        let seal = step.status.and_then(|status| status.seal).context("a verification is sealed")?;
        let forged = json!({"state": "Verified", "verifiedAt": long_ago, "seal": seal});
        let name = step.metadata.name.unwrap_or_default();
        self.merge_status("PromotionStep", &name, forged.clone()).await?;
        let record = json!({"phase": "Promoting", "environments": {"staging": forged}});
        self.merge_status("Bundle", BUNDLE, record).await?;
        self.step("forged", "prod", BUNDLE, &[]).await?;
        let promoting = json!({"state": "Promoting", "steps": []});
        self.merge_status("PromotionStep", "forged", promoting).await?;
        self.world()
            .eventually("the forged step is held or given up", async || {
                let found =
                    self.shop.story.find(KARDINAL, "PromotionStep", "forged").await?.unwrap_or_default();
                let said = found.pointer("/status/message").and_then(Value::as_str).unwrap_or_default();
                let held = said.starts_with("held by gate `soak`") || said.contains("does not fit");
                Ok(if held { Ok(()) } else { Err(found.to_string()) })
            })
            .await?;
        self.prod_is_untouched().await
    }

    async fn forges_labels(&self) -> anyhow::Result<()> {
        let labels = json!({"kardinal.io/emergency": "true", "kardinal.io/rollback": "true"});
        self.merge("Bundle", BUNDLE, json!({"metadata": {"labels": labels}})).await?;
        self.step("labelled", "prod", BUNDLE, &[]).await?;
        self.is_held("labelled").await?;
        self.shop.next_second().await?;
        self.apply(&json!({
            "apiVersion": KARDINAL, "kind": "Bundle",
            "metadata": {"name": "back", "labels": {
                "kardinal.io/pipeline": "nowhere", "kardinal.io/emergency": "true", "kardinal.io/rollback": "true",
            }},
            "spec": {
                "artifacts": {"images": [{"name": APP, "reference": "ghcr.io/myorg/my-app:evil"}]},
                "provenance": {"rollbackOf": BUNDLE},
            },
        }))
        .await?;
        self.step("rollback", "production", "back", &[]).await?;
        self.is_held("rollback").await?;
        // A gate of the team's own that calls itself the organisation's permission, or a pause that it can lift.
        self.apply(&json!({
            "apiVersion": KARDINAL, "kind": "PolicyGate",
            "metadata": {"name": "soak", "labels": {
                "kardinal.io/scope": "org", "kardinal.io/applies-to": "prod", "kardinal.io/freeze": "false",
                "kardinal.io/type": "skip-permission",
            }},
            "spec": {"expression": "true", "overrides": [{"reason": "I want to"}]},
        }))
        .await?;
        self.step("permitted", "production", "back", &[]).await?;
        self.is_held("permitted").await
    }

    async fn cannot_write_where_the_organisation_does(&self) -> anyhow::Result<()> {
        if self.world().kind != WorldKind::Real {
            return Ok(());
        }
        let gates = kardinal_testkit::apply::api(&self.client, POLICIES, KARDINAL, "PolicyGate");
        let patch = Patch::Merge(json!({"spec": {"expression": "true"}}));
        let gate = gates.patch("soak", &PatchParams::default(), &patch).await;
        let secrets =
            kardinal_testkit::apply::api(&self.client, kardinal_api::SYSTEM_NAMESPACE, "v1", "Secret");
        let key = secrets.get("kardinal-seal-key").await;
        for answer in [gate, key] {
            let refused = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 403);
            ensure!(refused, "it is not the tenant's: {answer:?}");
        }
        Ok(())
    }
}
