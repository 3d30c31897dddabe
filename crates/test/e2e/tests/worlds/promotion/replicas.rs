//! Two controllers on one cluster: one leads, the other takes over, and nothing is done twice.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::coordination::v1::Lease;
use kardinal_api::kardinal::{BundlePhase, PromotionState};
use kardinal_testkit::world::{Process, in_memory_replicas, promotions};
use kardinal_testkit::{Shop, World};
use kube::Api;
use serde_json::json;
use tokio::time::Instant;

use super::words::{has_version, pipeline};

const BUNDLE: &str = "my-app-v1-29-0";

/// Waits until this replica holds the Lease.
pub(crate) async fn leads(world: &World, lease: &str, identity: &str) -> anyhow::Result<()> {
    let api: Api<Lease> = Api::namespaced(world.client.clone(), "kardinal-system");
    world
        .eventually(&format!("`{identity}` leads"), async || {
            let holder = api.get_opt(lease).await?.and_then(|lease| lease.spec?.holder_identity);
            Ok(if holder.as_deref() == Some(identity) { Ok(()) } else { Err(format!("{holder:?}")) })
        })
        .await
}

async fn end(process: Process) -> anyhow::Result<()> {
    process.stop.cancel();
    Ok(process.ended.await?)
}

#[test]
fn a_standby_takes_over_and_a_deposed_leader_writes_nothing() -> anyhow::Result<()> {
    in_memory_replicas(async |world, [first, second]| {
        let mut shop = Shop::open(world, &["dev", "prod"]).await?;
        shop.run_workloads(&["dev", "prod"]);
        shop.pipeline(pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}]))).await?;
        let a = first.start(world, "a", promotions())?;
        leads(world, "kardinal-controller", "a").await?;
        let b = second.start(world, "b", promotions())?;
        shop.release(BUNDLE, "1.29.0", json!({})).await?;
        shop.state(BUNDLE, "prod", PromotionState::WaitingForMerge).await?;
        ensure!(second.requests.writes() == 0, "a standby writes: {:?}", second.requests.take());

        // The leader is cut off in the middle; the other one goes on within the duration of the Lease and one look.
        let cut = Instant::now();
        first.requests.kill();
        shop.merge(BUNDLE, "prod", "alice").await?;
        leads(world, "kardinal-controller", "b").await?;
        ensure!(cut.elapsed() <= Duration::from_millis(17_100), "taken over after {:?}", cut.elapsed());
        shop.phase(BUNDLE, BundlePhase::Verified).await?;
        has_version(&shop, "prod", "1.29.0").await?;

        // The old leader comes back and stands by.
        let written = first.requests.writes();
        first.requests.revive();
        shop.release("my-app-v1-30-0", "1.30.0", json!({})).await?;
        shop.state("my-app-v1-30-0", "prod", PromotionState::WaitingForMerge).await?;
        world.advance(jiff::SignedDuration::from_mins(1)).await;
        ensure!(first.requests.writes() == written, "a deposed leader writes: {:?}", first.requests.take());

        // A clean stop hands over at once.
        let stopped = Instant::now();
        end(b).await?;
        leads(world, "kardinal-controller", "a").await?;
        ensure!(stopped.elapsed() <= Duration::from_secs(8), "handed over after {:?}", stopped.elapsed());
        shop.merge("my-app-v1-30-0", "prod", "alice").await?;
        shop.phase("my-app-v1-30-0", BundlePhase::Verified).await?;

        let mut commits = shop.log()?;
        commits.sort();
        let count = commits.len();
        commits.dedup();
        ensure!(commits.len() == count, "something was committed twice: {:?}", shop.log()?);
        ensure!(shop.pull_requests().await?.len() == 2, "{:?}", shop.pull_requests().await?);
        shop.fsck()?;
        end(a).await?;
        shop.close().await
    })
}
