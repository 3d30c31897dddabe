//! The Graph in all three worlds.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use kardinal_api::graph::NodeState;
use kardinal_testkit::{Story, World, in_three_worlds};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const KARDINAL: &str = "kardinal.io/v1alpha1";
const GRAPHS: &str = "experimental.kro.run/v1alpha1";
const NAME: &str = "my-app-v1-29-0";
const BUNDLE: &str = "my-app-v1-29-0-1712567890";

in_three_worlds!(the_graph_of_the_specification);
in_three_worlds!(independent_branches_and_drift);
in_three_worlds!(a_broken_edit_stops_nothing);
in_three_worlds!(a_restart_changes_nothing);
in_three_worlds!(promotions: a_ref_to_a_bundle_or_a_gate_works);

fn fixture(name: &str) -> anyhow::Result<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pure/api/tests/fixtures/spec004");
    let text = std::fs::read_to_string(format!("{folder}/{name}"))?;
    Ok(serde_saphyr::from_str(&text)?)
}

fn step(environment: &str) -> String {
    format!("{NAME}-{environment}")
}

/// Spec 004 §5.3 with `propagateWhen` as §3.5 has it: order, blocking, freshness, retained state, teardown.
async fn the_graph_of_the_specification(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    begin(&story).await?;
    to_the_gates(&story).await?;
    through_the_gates(&story).await?;
    a_gate_closes_again(&story).await?;
    story.set_status(KARDINAL, "PromotionStep", &step("prod"), json!({"state": "Verified"})).await?;
    story.condition(NAME, "Ready", "True", "Ready").await?;
    end(&story).await
}

/// The Bundle, and the Graph owned by it. Only the owner's uid, which no document can know, is filled in.
async fn begin(story: &Story<'_>) -> anyhow::Result<()> {
    let bundle = story.apply(&fixture("bundle-5-5.yaml")?).await?;
    let mut graph = fixture("graph-5-3-gated.yaml")?;
    graph["metadata"]["ownerReferences"][0]["uid"] = bundle.metadata.uid.clone().unwrap_or_default().into();
    story.apply(&graph).await?;
    Ok(())
}

async fn to_the_gates(story: &Story<'_>) -> anyhow::Result<()> {
    // Only dev runs; everything behind it waits, and says for what.
    story.state(NAME, "dev", NodeState::NotReady).await?;
    let staging = story.state(NAME, "staging", NodeState::Pending).await?;
    ensure!(staging.waits.iter().any(|wait| wait.node == "dev"), "staging waits for dev: {staging:?}");
    ensure!(story.find(KARDINAL, "PromotionStep", &step("staging")).await?.is_none());
    story.condition(NAME, "Compiled", "True", "Compiled").await?;
    story.condition(NAME, "Ready", "Unknown", "Pending").await?;

    // dev is verified: staging follows and carries the value; the gates still wait.
    story.set_status(KARDINAL, "PromotionStep", &step("dev"), json!({"state": "Verified"})).await?;
    story.state(NAME, "staging", NodeState::NotReady).await?;
    let staging = story.find(KARDINAL, "PromotionStep", &step("staging")).await?.context("staging exists")?;
    ensure!(staging["spec"]["upstreamVerified"] == "Verified", "{staging}");
    ensure!(staging["spec"]["bundleRef"] == BUNDLE, "{staging}");
    story.state(NAME, "noWeekendDeploys", NodeState::Pending).await?;

    // staging is verified: both gates appear side by side, prod waits for them.
    story.set_status(KARDINAL, "PromotionStep", &step("staging"), json!({"state": "Verified"})).await?;
    story.state(NAME, "noWeekendDeploys", NodeState::NotReady).await?;
    story.state(NAME, "stagingSoak", NodeState::NotReady).await?;
    story.state(NAME, "prod", NodeState::Pending).await?;
    Ok(())
}

async fn through_the_gates(story: &Story<'_>) -> anyhow::Result<()> {
    // One open gate is not enough.
    pass_gate(story, "no-weekend-deploys").await?;
    story.node(NAME, "noWeekendDeploys", "propagates", |node| node.propagating).await?;
    ensure!(story.find(KARDINAL, "PromotionStep", &step("prod")).await?.is_none(), "one gate is closed");

    // Neither is a stale one: nothing but time passes, and the gate closes by itself.
    story.world.advance(SignedDuration::from_mins(11)).await;
    story.node(NAME, "noWeekendDeploys", "is stale", |node| !node.propagating).await?;
    pass_gate(story, "staging-soak").await?;
    story.node(NAME, "stagingSoak", "propagates", |node| node.propagating).await?;
    ensure!(story.find(KARDINAL, "PromotionStep", &step("prod")).await?.is_none(), "a stale gate is closed");

    // Both fresh: prod runs and names them.
    pass_gate(story, "no-weekend-deploys").await?;
    story.state(NAME, "prod", NodeState::NotReady).await?;
    let prod = story.find(KARDINAL, "PromotionStep", &step("prod")).await?.context("prod exists")?;
    ensure!(
        prod["spec"]["requiredGates"] == json!([step("no-weekend-deploys"), step("staging-soak")]),
        "{prod}"
    );
    Ok(())
}

/// prod keeps what was applied, untouched, while a gate is closed.
async fn a_gate_closes_again(story: &Story<'_>) -> anyhow::Result<()> {
    let before = story.find(KARDINAL, "PromotionStep", &step("prod")).await?.context("prod exists")?;
    let gate = step("no-weekend-deploys");
    story.set_status(KARDINAL, "PolicyGate", &gate, json!({"ready": false})).await?;
    story.node(NAME, "prod", "is retained", |node| node.retained).await?;
    let kept = story.find(KARDINAL, "PromotionStep", &step("prod")).await?.context("prod stays")?;
    ensure!(
        kept["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"],
        "prod was written to"
    );
    pass_gate(story, "no-weekend-deploys").await?;
    pass_gate(story, "staging-soak").await?;
    story.node(NAME, "prod", "is not retained any more", |node| !node.retained).await?;
    Ok(())
}

async fn pass_gate(story: &Story<'_>, gate: &str) -> anyhow::Result<()> {
    let evaluated = story.stamp(story.world.now());
    let status = json!({"ready": true, "lastEvaluatedAt": evaluated});
    story.set_status(KARDINAL, "PolicyGate", &step(gate), status).await?;
    Ok(())
}

/// Deleting the Bundle takes the Graph and everything it made along.
async fn end(story: &Story<'_>) -> anyhow::Result<()> {
    story.delete(KARDINAL, "Bundle", BUNDLE).await?;
    for name in ["prod", "staging", "dev"] {
        story.gone(KARDINAL, "PromotionStep", &step(name)).await?;
    }
    for name in ["no-weekend-deploys", "staging-soak"] {
        story.gone(KARDINAL, "PolicyGate", &step(name)).await?;
    }
    story.gone(GRAPHS, "Graph", NAME).await?;
    story.gone(KARDINAL, "Bundle", BUNDLE).await?;
    story.gone(GRAPHS, "GraphRevision", &format!("{NAME}-g00001")).await
}

/// A Graph of ConfigMaps: `base`, then `left` and `right` side by side.
fn fan_out(name: &str, left: &str) -> Value {
    let config = |node: &str, data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-{node}")}, "data": data});
    json!({
        "apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": name},
        "spec": {"nodes": [
            {"id": "base", "template": config("base", json!({"region": "eu"}))},
            {"id": "left", "template": config("left", json!({"from": left}))},
            {"id": "right", "template": config("right", json!({"from": "${base.data.region}"})),
             "readyWhen": ["${right.data.from == 'eu'}"]},
        ]},
    })
}

async fn independent_branches_and_drift(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    // `left` cannot be evaluated; `right` does not care.
    story.apply(&fan_out("fan", "${base.data.absent}")).await?;
    story.state("fan", "right", NodeState::Ready).await?;
    story.state("fan", "left", NodeState::Pending).await?;

    // Somebody changes what is ours: it is put right. Somebody adds what is not: it stays.
    let patch = json!({"data": {"from": "us", "mine": "yes"}});
    let params = PatchParams { field_manager: Some("somebody".into()), ..PatchParams::default() };
    story.api("v1", "ConfigMap").patch("fan-right", &params, &Patch::Merge(&patch)).await?;
    let right = world
        .eventually("`fan-right` is put right", async || {
            let right = story.find("v1", "ConfigMap", "fan-right").await?.context("fan-right exists")?;
            Ok(if right["data"]["from"] == "eu" { Ok(right) } else { Err(right.to_string()) })
        })
        .await?;
    ensure!(right["data"]["mine"] == "yes", "a field of somebody else is left alone: {right}");

    // The user mends the expression, and the Graph is whole.
    story.apply(&fan_out("fan", "${base.data.region}")).await?;
    story.state("fan", "left", NodeState::Ready).await?;
    story.delete(GRAPHS, "Graph", "fan").await?;
    for name in ["fan-left", "fan-right", "fan-base"] {
        story.gone("v1", "ConfigMap", name).await?;
    }
    story.gone(GRAPHS, "Graph", "fan").await
}

async fn a_broken_edit_stops_nothing(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    story.apply(&fan_out("fan", "${base.data.region}")).await?;
    story.condition("fan", "Ready", "True", "Ready").await?;
    story.apply(&fan_out("fan", "${nobody.data.region}")).await?;
    story.condition("fan", "Compiled", "False", "ExpressionError").await?;
    story.condition("fan", "Ready", "False", "NotCompiled").await?;

    // The last good revision goes on: what it manages is still repaired.
    story.delete("v1", "ConfigMap", "fan-left").await?;
    world
        .eventually("`fan-left` is made again", async || {
            Ok(story.find("v1", "ConfigMap", "fan-left").await?.ok_or_else(|| "absent".to_owned()))
        })
        .await?;
    story.apply(&fan_out("fan", "${base.data.region}")).await?;
    story.condition("fan", "Ready", "True", "Ready").await
}

/// With everything at rest, controllers that start anew write nothing.
async fn a_restart_changes_nothing(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    story.apply(&fan_out("fan", "${base.data.region}")).await?;
    story.condition("fan", "Ready", "True", "Ready").await?;
    world.stop_controllers().await;
    let before = versions(&story).await?;
    world.start_controllers().await?;

    // A second Graph shows that they have started and come to rest.
    story.apply(&fan_out("second", "${base.data.region}")).await?;
    story.condition("second", "Ready", "True", "Ready").await?;
    ensure!(versions(&story).await? == before, "a restart wrote to objects at rest");
    Ok(())
}

async fn versions(story: &Story<'_>) -> anyhow::Result<Vec<Value>> {
    let mut versions = Vec::new();
    for name in ["fan-base", "fan-left", "fan-right"] {
        let object = story.find("v1", "ConfigMap", name).await?.context("it exists")?;
        versions.push(object["metadata"]["resourceVersion"].clone());
    }
    let graph = story.find(GRAPHS, "Graph", "fan").await?.context("the Graph exists")?;
    versions.push(graph["metadata"]["resourceVersion"].clone());
    Ok(versions)
}

/// A Graph at rest costs nothing: no write, no list, for a whole day.
#[test]
fn a_steady_graph_makes_no_request() -> anyhow::Result<()> {
    kardinal_testkit::world::in_memory_overheard(
        kardinal_testkit::world::graphs(),
        async |world, requests| {
            let story = Story::new(world);
            story.apply(&fan_out("fan", "${base.data.region}")).await?;
            story.condition("fan", "Ready", "True", "Ready").await?;
            world.advance(SignedDuration::from_mins(1)).await;
            requests.take();
            world.advance(SignedDuration::from_hours(24)).await;
            let heard = requests.take();
            ensure!(
                heard.iter().all(|line| line.contains("watch=true")),
                "requests of a steady Graph: {heard:#?}"
            );
            Ok(())
        },
    )
}

/// One layer after the other, and each object written once: the cost grows with the work.
#[test]
fn a_chain_costs_one_write_per_object() -> anyhow::Result<()> {
    const LENGTH: usize = 50;
    kardinal_testkit::world::in_memory_overheard(
        kardinal_testkit::world::graphs(),
        async |world, requests| {
            let nodes: Vec<Value> = (0..LENGTH)
                .map(|index| {
                    let before = match index {
                        0 => "start".to_owned(),
                        _ => format!("${{n{}.data.text}}", index - 1),
                    };
                    json!({"id": format!("n{index}"), "template": {"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("chain-{index}")}, "data": {"text": before}}})
                })
                .collect();
            let story = Story::new(world);
            requests.take();
            story.apply(&json!({"apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": "chain"}, "spec": {"nodes": nodes}})).await?;
            story.condition("chain", "Ready", "True", "Ready").await?;
            let heard = requests.take();
            let writes = heard.iter().filter(|line| !line.starts_with("GET")).count();
            // Besides the objects: finalizer, revision, kinds, status, and an Event for each of the two conditions.
            ensure!(writes <= LENGTH + 6, "{writes} writes for {LENGTH} objects: {heard:#?}");
            Ok(())
        },
    )
}

/// Both kinds are watched already when the Graph comes, so no watch has news of them.
async fn a_ref_to_a_bundle_or_a_gate_works(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    story.apply(&fixture("bundle-5-5.yaml")?).await?;
    let gate = json!({
        "apiVersion": KARDINAL, "kind": "PolicyGate", "metadata": {"name": "soak"},
        "spec": {"expression": "true", "message": "open"},
    });
    story.apply(&gate).await?;
    let graph = json!({
        "apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": "reader"},
        "spec": {"nodes": [
            {"id": "bundle", "ref": {"apiVersion": KARDINAL, "kind": "Bundle", "metadata": {"name": BUNDLE}}},
            {"id": "gate", "ref": {"apiVersion": KARDINAL, "kind": "PolicyGate", "metadata": {"name": "soak"}}},
            {"id": "later", "ref": {"apiVersion": KARDINAL, "kind": "${gate.metadata.name == 'soak' ? 'Bundle' : 'Pipeline'}",
                                    "metadata": {"name": BUNDLE}}},
            {"id": "copy", "template": {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"},
                "data": {"bundle": "${bundle.metadata.name}", "gate": "${gate.spec.expression}", "later": "${later.kind}"},
            }},
        ]},
    });
    story.apply(&graph).await?;
    story.condition("reader", "Ready", "True", "Ready").await?;
    let copy = story.find("v1", "ConfigMap", "copy").await?.context("the copy")?;
    ensure!(copy["data"] == json!({"bundle": BUNDLE, "gate": "true", "later": "Bundle"}), "{copy}");
    story.delete(GRAPHS, "Graph", "reader").await?;
    story.gone(GRAPHS, "Graph", "reader").await
}
