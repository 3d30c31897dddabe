//! Shards: the control plane carries their steps out until an agent of theirs was seen; from then on only the agent.

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_controllers::{Settings, Shards};
use kardinal_promotion::shard::Agent;
use kardinal_simulator::Simulator;
use kardinal_testkit::shop::{APP, IMAGE};
use kardinal_testkit::world::{in_memory_replicas, promotions};
use kardinal_testkit::{Shop, World};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::replicas::leads;
use super::words::{has_version, pipeline};

const LEASE: &str = "kardinal-agent-eu-cluster";

/// A cluster with nothing but workloads.
pub(crate) async fn workloads(
    world: &World,
    shop: &Shop<'_>,
) -> anyhow::Result<(kardinal_apiserver::Server, Simulator)> {
    let server = kardinal_apiserver::Server::start(kardinal_apiserver::Options::default()).await?;
    let client = server.client("default");
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("prod".to_owned());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let simulator = Simulator {
        client,
        repositories: world.workshop.git.clone(),
        remote: world.workshop.remote(&world.namespace, &shop.repository),
        branch: "main".to_owned(),
        application: APP.to_owned(),
        environments: Vec::new(),
    };
    Ok((server, simulator))
}

#[test]
fn a_shard_belongs_to_its_agent_from_the_first_time_its_lease_is_seen() -> anyhow::Result<()> {
    in_memory_replicas(async |world, [agent, _]| {
        let shop = Shop::open(world, &["prod"]).await?;
        world.start_controllers().await?;
        shop.pipeline(pipeline(json!([{"name": "prod", "shard": "eu-cluster"}]))).await?;

        // No agent was ever seen: the control plane does everything by itself.
        shop.deploy("prod", "1.29.0").await?;
        shop.release("my-app-v1-29-0", "1.29.0", json!({})).await?;
        shop.phase("my-app-v1-29-0", BundlePhase::Verified).await?;

        // The agent looks at the workloads of its own cluster.
        let (cluster, simulator) = workloads(world, &shop).await?;
        simulator.deploy("prod", &format!("{IMAGE}:1.30.0")).await?;
        let settings = Settings { shards: Shards::Only("eu-cluster".to_owned()), ..promotions() };
        let own = Some(cluster.client("default"));
        let process = agent.start_beside(world, "agent", settings, own)?;
        leads(world, LEASE, "agent").await?;
        shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
        shop.phase("my-app-v1-30-0", BundlePhase::Verified).await?;
        has_version(&shop, "prod", "1.30.0").await?;
        let heard = agent.requests.take();
        ensure!(heard.iter().any(|line| line.starts_with("GIT commit")), "the agent commits: {heard:?}");

        // The agent is away: its steps wait for it, and that is told.
        agent.requests.kill();
        shop.release("my-app-v1-31-0", "1.31.0", json!({})).await?;
        shop.step("my-app-v1-31-0", "prod", "exists", |_| true).await?;
        world.advance(SignedDuration::from_mins(4)).await;
        let step = shop.find_step("my-app-v1-31-0", "prod").await?.context("the step exists")?;
        let state = step.status.as_ref().and_then(|status| status.state);
        ensure!(matches!(state, None | Some(PromotionState::Pending)), "nobody else touches it: {state:?}");
        has_version(&shop, "prod", "1.30.0").await?;
        let api: Api<Lease> = Api::namespaced(world.client.clone(), "kardinal-system");
        let known = Agent::of(&api.get(LEASE).await?, world.now()).context("it has the label")?;
        let away = known.away(world.now()).unwrap_or_default();
        ensure!(away == "agent of shard eu-cluster last seen 4 min ago", "{away}");
        ensure!(known.holder.version.as_deref() == Some("1.2.3"));

        // Without the Lease the shard is the control plane's again.
        process.stop.cancel();
        process.ended.await?;
        api.delete(LEASE, &DeleteParams::default()).await?;
        shop.deploy("prod", "1.31.0").await?;
        shop.phase("my-app-v1-31-0", BundlePhase::Verified).await?;
        has_version(&shop, "prod", "1.31.0").await?;
        cluster.shutdown().await;
        shop.close().await
    })
}
