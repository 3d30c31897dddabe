//! Every kind of node and every modifier, in all three worlds.

use anyhow::{Context as _, ensure};
use kardinal_api::graph::NodeState;
use kardinal_testkit::{Story, World, in_three_worlds};
use serde_json::{Value, json};

const GRAPHS: &str = "experimental.kro.run/v1alpha1";

in_three_worlds!(every_kind_of_node);
in_three_worlds!(a_finalizing_node_runs_before_its_target_goes);
in_three_worlds!(another_graphs_object_is_refused);

fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

fn graph(name: &str, nodes: Value) -> Value {
    json!({"apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": name}, "spec": {"nodes": nodes}})
}

fn region(name: &str) -> Value {
    let mut region = config(name, json!({"name": name}));
    region["metadata"]["labels"] = json!({"region": "yes"});
    region
}

fn all_kinds() -> Value {
    let identity = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    graph(
        "all",
        json!([
            {"id": "input", "ref": identity("input")},
            {"id": "regions", "watch": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "${input.metadata.namespace}"}, "selector": {"matchLabels": {"region": "yes"}}}},
            {"id": "summary", "def": {"count": "${string(size(regions))}", "names": "${regions.map(r, r.data.name)}"}},
            {"id": "copies", "forEach": [{"region": "${summary.names}"}],
                "template": config("copy-${region}", json!({"of": "${region}"})), "readyWhen": ["${each.data.of != ''}"]},
            {"id": "target", "patch": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"},
                "data": {"count": "${summary.count}"}}},
            {"id": "adopted", "dependsOn": ["target"], "template": config("existing", json!({"ours": "yes"}))},
            {"id": "extra", "includeWhen": ["${input.data.extra == 'yes'}"], "template": config("extra", json!({}))},
            {"id": "after", "template": config("after", json!({"extra": "${extra.metadata.name}"}))},
            {"id": "soft", "template": config("soft", json!({"extra": "${extra.?metadata.?name.orValue('none')}"}))},
        ]),
    )
}

async fn every_kind_of_node(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    story.apply(&config("target", json!({"mine": "yes"}))).await?;
    story.apply(&config("existing", json!({"theirs": "yes"}))).await?;
    for name in ["eu", "us"] {
        story.apply(&region(name)).await?;
    }
    story.apply(&all_kinds()).await?;

    // What does not exist is waited for, whatever can go on goes on.
    story.state("all", "input", NodeState::Pending).await?;
    story.apply(&config("input", json!({"extra": "yes"}))).await?;
    story.condition("all", "Ready", "True", "Ready").await?;
    data(&story, "target", json!({"mine": "yes", "count": "2"})).await?;
    data(&story, "existing", json!({"theirs": "yes", "ours": "yes"})).await?;
    data(&story, "copy-us", json!({"of": "us"})).await?;
    data(&story, "after", json!({"extra": "extra"})).await?;
    data(&story, "soft", json!({"extra": "extra"})).await?;

    // The set grows and shrinks with what is watched.
    story.apply(&region("ap")).await?;
    data(&story, "copy-ap", json!({"of": "ap"})).await?;
    data(&story, "target", json!({"mine": "yes", "count": "3"})).await?;
    story.delete("v1", "ConfigMap", "us").await?;
    story.gone("v1", "ConfigMap", "copy-us").await?;

    // Exclusion spreads to hard dependents, not to soft ones.
    story.apply(&config("input", json!({"extra": "no"}))).await?;
    for name in ["after", "extra"] {
        story.gone("v1", "ConfigMap", name).await?;
    }
    data(&story, "soft", json!({"extra": "none"})).await?;
    story.state("all", "after", NodeState::Excluded).await?;

    // The Graph goes: what it made goes, what it found stays without its fields.
    story.delete(GRAPHS, "Graph", "all").await?;
    story.gone(GRAPHS, "Graph", "all").await?;
    for name in ["copy-eu", "copy-ap", "soft"] {
        ensure!(story.find("v1", "ConfigMap", name).await?.is_none(), "`{name}` was left behind");
    }
    data(&story, "target", json!({"mine": "yes"})).await?;
    data(&story, "existing", json!({"theirs": "yes"})).await?;
    let target = story.find("v1", "ConfigMap", "target").await?.context("it stays")?;
    ensure!(
        !target.to_string().contains("internal.kro.run/reference\":\"patch"),
        "a mark was left: {target}"
    );
    Ok(())
}

/// Waits until a ConfigMap holds exactly this.
async fn data(story: &Story<'_>, name: &str, wanted: Value) -> anyhow::Result<()> {
    story
        .world
        .eventually(&format!("`{name}` holds {wanted}"), async || {
            let seen = story.find("v1", "ConfigMap", name).await?.unwrap_or_default();
            Ok(if seen["data"] == wanted { Ok(()) } else { Err(seen["data"].to_string()) })
        })
        .await
}

async fn a_finalizing_node_runs_before_its_target_goes(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    story
        .apply(&graph(
            "last",
            json!([
                {"id": "database", "template": config("database", json!({"name": "orders"}))},
                {"id": "backup", "finalizes": "database", "readyWhen": ["${backup.data.done == 'yes'}"],
                 "template": config("backup", json!({"of": "${database.data.name}"}))},
            ]),
        ))
        .await?;
    story.condition("last", "Ready", "True", "Ready").await?;
    ensure!(story.find("v1", "ConfigMap", "backup").await?.is_none(), "it runs only at the end");

    story.delete(GRAPHS, "Graph", "last").await?;
    data(&story, "backup", json!({"of": "orders"})).await?;
    story.condition("last", "Ready", "Unknown", "Terminating").await?;
    ensure!(story.find("v1", "ConfigMap", "database").await?.is_some(), "the target waits for its backup");
    let done = json!({"data": {"done": "yes"}});
    let params = kube::api::PatchParams::default();
    story.api("v1", "ConfigMap").patch("backup", &params, &kube::api::Patch::Merge(&done)).await?;
    for name in ["database", "backup"] {
        story.gone("v1", "ConfigMap", name).await?;
    }
    story.gone(GRAPHS, "Graph", "last").await
}

async fn another_graphs_object_is_refused(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    let claim = |name: &str, text: &str| {
        graph(name, json!([{"id": "a", "template": config("shared", json!({"text": text}))}]))
    };
    story.apply(&claim("first", "one")).await?;
    story.condition("first", "Ready", "True", "Ready").await?;
    story.apply(&claim("second", "two")).await?;
    let refused = story.state("second", "a", NodeState::Conflict).await?;
    ensure!(refused.message.as_deref().is_some_and(|message| message.contains("first")), "{refused:?}");
    story.condition("second", "Ready", "False", "Conflict").await?;

    // The second goes without touching what is not its own; when the first goes, a third may have the name.
    story.delete(GRAPHS, "Graph", "second").await?;
    story.gone(GRAPHS, "Graph", "second").await?;
    data(&story, "shared", json!({"text": "one"})).await?;
    story.delete(GRAPHS, "Graph", "first").await?;
    story.gone("v1", "ConfigMap", "shared").await
}
