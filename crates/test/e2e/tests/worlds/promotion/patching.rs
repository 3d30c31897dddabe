//! Objects that vanish while a Graph makes up its mind about them.

use anyhow::ensure;
use kardinal_api::graph::NodeState;
use kardinal_testkit::requests::Requests;
use kardinal_testkit::world::{graphs, in_memory_overheard};
use kardinal_testkit::{Story, World};
use serde_json::{Value, json};

use super::words::GRAPHS;

fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Somebody deletes `target` right before the Graph's next write to it.
fn delete_before_write(world: &World, requests: &Requests) {
    let target = Story::new(world).api("v1", "ConfigMap");
    requests.interrupt("/configmaps/target", async move {
        let _ = target.delete("target", &kube::api::DeleteParams::default()).await;
    });
}

async fn left_alone(story: &Story<'_>, requests: &Requests) -> anyhow::Result<()> {
    story
        .world
        .eventually("the Graph has written too late", async || {
            Ok(if requests.is_interruption_pending() { Err("not yet".to_owned()) } else { Ok(()) })
        })
        .await?;
    story.state("g", "target", NodeState::Pending).await?;
    let left = story.find("v1", "ConfigMap", "target").await?;
    ensure!(left.is_none(), "an object that nobody made: {left:?}");
    Ok(())
}

/// Waits until `target` holds exactly this.
async fn holds(story: &Story<'_>, wanted: Value) -> anyhow::Result<()> {
    story
        .world
        .eventually(&format!("`target` holds {wanted}"), async || {
            let seen = story.find("v1", "ConfigMap", "target").await?.unwrap_or_default();
            Ok(if seen["data"] == wanted { Ok(()) } else { Err(seen["data"].to_string()) })
        })
        .await
}

/// A patch is for an object that somebody else makes: it never makes one, neither at first nor later.
#[test]
fn a_patch_makes_no_object() -> anyhow::Result<()> {
    in_memory_overheard(graphs(), async |world, requests| {
        let story = Story::new(world);
        story.apply(&config("input", json!({"text": "one"}))).await?;
        story.apply(&config("target", json!({"mine": "yes"}))).await?;
        delete_before_write(world, requests);
        let patch = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "target"},
            "data": {"text": "${input.data.text}"}});
        let input = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "input"}});
        let nodes = json!([{"id": "input", "ref": input}, {"id": "target", "patch": patch}]);
        let graph = json!({"apiVersion": GRAPHS, "kind": "Graph", "metadata": {"name": "g"}, "spec": {"nodes": nodes}});
        story.apply(&graph).await?;
        left_alone(&story, requests).await?;

        story.apply(&config("target", json!({"mine": "yes"}))).await?;
        holds(&story, json!({"mine": "yes", "text": "one"})).await?;
        delete_before_write(world, requests);
        story.apply(&config("input", json!({"text": "two"}))).await?;
        left_alone(&story, requests).await?;

        // Another object of the same name is another object; it is patched on its own merits.
        story.apply(&config("target", json!({"mine": "again"}))).await?;
        holds(&story, json!({"mine": "again", "text": "two"})).await?;
        delete_before_write(world, requests);
        story.delete(GRAPHS, "Graph", "g").await?;
        story.gone(GRAPHS, "Graph", "g").await?;
        let left = story.find("v1", "ConfigMap", "target").await?;
        ensure!(left.is_none(), "letting go has made an object: {left:?}");
        Ok(())
    })
}
