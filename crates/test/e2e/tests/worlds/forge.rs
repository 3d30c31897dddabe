//! The local forge: repositories and pull requests by themselves, in all three worlds.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use kardinal_api::forge::{PullRequest, Repository};
use kardinal_testkit::{Story, World, in_three_worlds};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

const FORGE: &str = "forge.kardinal.io/v1alpha1";

in_three_worlds!(pull_requests_made_at_the_same_time_get_different_numbers);
in_three_worlds!(a_number_is_never_given_twice_whatever_is_deleted_and_whoever_dies);
in_three_worlds!(a_repository_that_is_not_used_keeps_no_other_one_waiting_and_is_seen_when_it_is_mended);

fn repository(name: &str) -> Value {
    json!({"apiVersion": FORGE, "kind": "Repository", "metadata": {"name": name}, "spec": {}})
}

fn pull_request(repository: &str, name: &str) -> Value {
    let spec = json!({"repository": repository, "title": "t", "base": "main", "head": name});
    json!({"apiVersion": FORGE, "kind": "PullRequest", "metadata": {"name": name}, "spec": spec})
}

/// The numbers of the pull requests of a repository, once all of them have one.
async fn numbers(world: &World, repository: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let api: Api<PullRequest> = Api::namespaced(world.client.clone(), &world.namespace);
    let number = |request: PullRequest| {
        let number = request.status.and_then(|status| status.number);
        let name = request.metadata.name.unwrap_or_default();
        number.map(|number| (name.clone(), number)).ok_or(name)
    };
    world
        .eventually("every pull request has a number", async || {
            let all = api.list(&ListParams::default()).await?.items;
            Ok(all.into_iter().filter(|request| request.spec.repository == repository).map(number).collect())
        })
        .await
}

async fn pull_requests_made_at_the_same_time_get_different_numbers(world: &World) -> anyhow::Result<()> {
    let story = Story::new(world);
    let places = ["app", "web", "missing"];
    for name in ["app", "web"] {
        story.apply(&repository(name)).await?;
    }
    let all: Vec<Value> =
        (0..10).flat_map(|at| places.map(|place| pull_request(place, &format!("{place}-{at}")))).collect();
    try_join_all(all.iter().map(|request| story.apply(request))).await?;
    for place in places {
        let given = numbers(world, place).await?;
        let mut sorted: Vec<u64> = given.values().copied().collect();
        sorted.sort_unstable();
        ensure!(sorted == (1..=10).collect::<Vec<u64>>(), "{place}: {given:?}");
    }
    // What could not be kept while there was no repository is kept as soon as there is one.
    let before = numbers(world, "missing").await?;
    story.apply(&repository("missing")).await?;
    let store = &world.workshop.forge.store;
    world
        .eventually("the numbers are kept with the repository", async || {
            let last = store.last_number(&world.namespace, "missing")?.number;
            Ok(if last == 10 { Ok(()) } else { Err(last.to_string()) })
        })
        .await?;
    ensure!(numbers(world, "missing").await? == before, "a number never changes");
    Ok(())
}

async fn a_number_is_never_given_twice_whatever_is_deleted_and_whoever_dies(
    world: &World,
) -> anyhow::Result<()> {
    let story = Story::new(world);
    story.apply(&repository("app")).await?;
    let open = async |name: &str| {
        story.apply(&pull_request("app", name)).await?;
        numbers(world, "app").await?.get(name).copied().context("it has a number")
    };
    let delete = async |name: &str| {
        story.delete(FORGE, "PullRequest", name).await?;
        story.gone(FORGE, "PullRequest", name).await
    };
    ensure!((open("a").await?, open("b").await?) == (1, 2));
    delete("b").await?;
    ensure!(open("c").await? == 3, "the highest one was deleted");
    world.stop_controllers().await;
    delete("c").await?;
    delete("a").await?;
    world.start_controllers().await?;
    ensure!(open("d").await? == 4, "all of them were deleted while nobody looked");

    // Whoever dies after a number was kept and before it was written gives it to the same one.
    world.stop_controllers().await;
    let uid = story.apply(&pull_request("app", "e")).await?.metadata.uid.context("a uid")?;
    world.workshop.forge.store.give_number(&world.namespace, "app", 5, &uid)?;
    world.start_controllers().await?;
    ensure!(numbers(world, "app").await?.get("e") == Some(&5), "there is no gap");
    world.stop_controllers().await;
    let uid = story.apply(&pull_request("app", "f")).await?.metadata.uid.context("a uid")?;
    world.workshop.forge.store.give_number(&world.namespace, "app", 6, &uid)?;
    delete("f").await?;
    world.start_controllers().await?;
    ensure!(open("g").await? == 7, "nobody knows whether the other one was written");
    Ok(())
}

async fn a_repository_that_is_not_used_keeps_no_other_one_waiting_and_is_seen_when_it_is_mended(
    world: &World,
) -> anyhow::Result<()> {
    let story = Story::new(world);
    let store = &world.workshop.forge.store;
    let foreign = store.create(&world.namespace, "odd", "main")?.join("objects/info/alternates");
    std::fs::create_dir_all(foreign.parent().context("a folder")?)?;
    std::fs::write(&foreign, "/elsewhere\n")?;
    for name in ["odd", "app"] {
        story.apply(&repository(name)).await?;
        story.apply(&pull_request(name, &format!("{name}-1"))).await?;
    }
    let mergeable = async |name: &str, reason: &str| {
        let api: Api<PullRequest> = Api::namespaced(world.client.clone(), &world.namespace);
        let what = format!("pull request `{name}` says {reason}");
        world
            .eventually(&what, async || {
                let status = api.get(name).await?.status.unwrap_or_default();
                let says = status.conditions.first().map(|condition| condition.reason.clone());
                Ok(if says.as_deref() == Some(reason) { Ok(()) } else { Err(format!("{status:?}")) })
            })
            .await
    };
    mergeable("odd-1", "Refused").await?;
    mergeable("app-1", "HeadMissing").await?;
    std::fs::remove_file(&foreign)?;
    // Nobody tells that it was mended.
    mergeable("odd-1", "HeadMissing").await?;
    let repositories: Api<Repository> = Api::namespaced(world.client.clone(), &world.namespace);
    let status = repositories.get("odd").await?.status.unwrap_or_default();
    ensure!(status.conditions.first().is_some_and(|ready| ready.status == "True"), "{status:?}");
    Ok(())
}
