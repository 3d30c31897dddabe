//! The controllers die at every single write of a Graph's whole life: it always ends the same.

use anyhow::{Context as _, ensure};
use kardinal_testkit::requests::{Death, Requests};
use kardinal_testkit::world::in_memory_overheard;
use kardinal_testkit::{Story, World};
use serde_json::{Value, json};

const GRAPHS: &str = "experimental.kro.run/v1alpha1";

/// A chain with a side branch; `version` changes what all of them hold, and `extra` adds a node.
fn graph(version: &str, extra: bool) -> Value {
    let config = |name: &str, text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
    let mut nodes = vec![
        json!({"id": "a", "template": config("a", version)}),
        json!({"id": "b", "template": config("b", "${a.data.text}")}),
        json!({"id": "c", "template": config("c", "${b.data.text}"), "readyWhen": ["${c.data.text != ''}"]}),
    ];
    if extra {
        nodes.push(json!({"id": "side", "template": config("side", "${a.data.text}")}));
    }
    json!({"apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": "g"}, "spec": {"nodes": nodes}})
}

/// Creation, a change that also removes a node, deletion; returns what was there before the end.
async fn life(world: &World) -> anyhow::Result<Value> {
    let story = Story::new(world);
    story.apply(&graph("one", true)).await?;
    settled(&story, "one", true).await?;
    story.apply(&graph("two", false)).await?;
    settled(&story, "two", false).await?;
    story.gone("v1", "ConfigMap", "side").await?;
    let seen = snapshot(&story).await?;
    story.delete(GRAPHS, "Graph", "g").await?;
    story.gone(GRAPHS, "Graph", "g").await?;
    for name in ["a", "b", "c"] {
        ensure!(story.find("v1", "ConfigMap", name).await?.is_none(), "`{name}` was left behind");
    }
    Ok(seen)
}

async fn settled(story: &Story<'_>, version: &str, side: bool) -> anyhow::Result<()> {
    let last = if side { "side" } else { "c" };
    story
        .world
        .eventually(&format!("version `{version}` is everywhere"), async || {
            let mut seen = Vec::new();
            for name in ["a", "b", "c", last] {
                seen.push(
                    story.find("v1", "ConfigMap", name).await?.map(|object| object["data"]["text"].clone()),
                );
            }
            let done = seen.iter().all(|text| text.as_ref().is_some_and(|text| text == version));
            Ok(if done { Ok(()) } else { Err(format!("{seen:?}")) })
        })
        .await?;
    story.condition("g", "Ready", "True", "Ready").await
}

/// Everything that a user can see, without what differs from run to run.
async fn snapshot(story: &Story<'_>) -> anyhow::Result<Value> {
    let mut objects = Vec::new();
    for name in ["a", "b", "c"] {
        let object = story.find("v1", "ConfigMap", name).await?.context("it exists")?;
        objects.push(json!({"name": name, "data": object["data"], "order": object["metadata"]["annotations"]["internal.kro.run/apply-order"]}));
    }
    let graph = story.find(GRAPHS, "Graph", "g").await?.context("the Graph exists")?;
    let revisions = story.api(GRAPHS, "GraphRevision").list(&kube::api::ListParams::default()).await?;
    let revisions: Vec<_> =
        revisions.items.iter().filter_map(|revision| revision.metadata.name.clone()).collect();
    Ok(json!({"objects": objects, "nodes": graph["status"]["nodes"], "revisions": revisions}))
}

/// Lives through one death, with somebody who starts the controllers again.
fn live(death: Option<Death>) -> anyhow::Result<(Value, usize)> {
    let mut lived = (Value::Null, 0);
    in_memory_overheard(kardinal_testkit::world::graphs(), async |world, requests| {
        if let Some(death) = death {
            requests.die(death);
        }
        let seen = tokio::select! {
            seen = life(world) => seen?,
            died = supervise(world, requests) => died?,
        };
        lived = (seen, requests.writes());
        Ok(())
    })?;
    Ok(lived)
}

async fn supervise(world: &World, requests: &Requests) -> anyhow::Result<Value> {
    loop {
        requests.dead().await;
        world.stop_controllers().await;
        requests.revive();
        world.start_controllers().await?;
    }
}

#[test]
fn death_at_every_write_changes_nothing() -> anyhow::Result<()> {
    let (undisturbed, writes) = live(None)?;
    ensure!(writes > 10, "a life of {writes} writes is no life");
    for at in 1..=writes {
        for death in [Death::BeforeWrite(at), Death::AfterWrite(at)] {
            let (seen, _) = live(Some(death)).with_context(|| format!("{death:?} of {writes}"))?;
            ensure!(seen == undisturbed, "{death:?}: {seen:#}\ninstead of {undisturbed:#}");
        }
    }
    Ok(())
}
