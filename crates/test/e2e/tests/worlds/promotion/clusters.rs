//! Health on another cluster, to which a kubeconfig in a Secret leads. Time is real, for that cluster answers over a socket.

use std::net::SocketAddr;

use anyhow::ensure;
use jiff::SignedDuration;
use kardinal_api::kardinal::PromotionState;
use kardinal_apiserver::{ServeHandle, Server};
use kardinal_testkit::requests::Requests;
use kardinal_testkit::shop::IMAGE;
use kardinal_testkit::world::{in_memory_real_time, promotions};
use kardinal_testkit::{Shop, World};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::shards::workloads;
use super::words::{has_version, message, pipeline, says};

const BUNDLE: &str = "my-app-v1-29-0";
const SECRET: &str = "eu";

/// Another cluster that runs this version in `prod`, and its door.
async fn cluster(world: &World, shop: &Shop<'_>, version: &str) -> anyhow::Result<(Server, ServeHandle)> {
    let (server, simulator) = workloads(world, shop).await?;
    simulator.deploy("prod", &format!("{IMAGE}:{version}")).await?;
    let door = server.serve(TcpListener::bind("127.0.0.1:0").await?).await?;
    Ok((server, door))
}

/// Makes the Secret lead to a cluster.
async fn lead_to(shop: &Shop<'_>, kubeconfig: &str) -> anyhow::Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
        "stringData": {"kubeconfig": kubeconfig},
    });
    shop.story.apply(&secret).await?;
    Ok(())
}

/// Lets so much time pass, and waits until a look at the cluster that came after it is over. Every look reads the Secret
/// anew by then, and the looks of one step come one after the other.
async fn look_again(world: &World, requests: &Requests, by: SignedDuration) -> anyhow::Result<()> {
    for pause in [by, SignedDuration::from_secs(11)] {
        requests.take();
        world.advance(pause).await;
        world
            .eventually("the Secret is read again", async || {
                let read = requests.take().iter().any(|heard| heard.contains("/secrets/eu"));
                Ok(if read { Ok(()) } else { Err("nobody has looked".to_owned()) })
            })
            .await?;
    }
    Ok(())
}

/// The step neither fails nor says what runs on a cluster of which nothing is known.
async fn is_unknown(shop: &Shop<'_>) -> anyhow::Result<()> {
    let unknown = "health is unknown: the cluster cannot be reached, which was noticed at ";
    let step = says(shop, BUNDLE, "prod", unknown).await?;
    let state = step.status.as_ref().and_then(|status| status.state);
    ensure!(state == Some(PromotionState::HealthChecking), "{state:?}: {}", message(&step));
    ensure!(!message(&step).contains("still runs"), "{}", message(&step));
    Ok(())
}

#[test]
fn a_remote_cluster_that_goes_away_is_unknown_and_a_changed_secret_is_used_without_a_restart()
-> anyhow::Result<()> {
    in_memory_real_time(promotions(), async |world, requests| {
        let shop = Shop::open(world, &["prod"]).await?;
        let (one, door) = cluster(world, &shop, "1.28.0").await?;
        lead_to(&shop, door.kubeconfig()).await?;
        // What runs in the namespace of the same name right here proves nothing.
        shop.deploy("prod", "1.29.0").await?;
        let health = json!({"type": "resource", "cluster": SECRET});
        shop.pipeline(pipeline(json!([{"name": "prod", "health": health}]))).await?;
        shop.release(BUNDLE, "1.29.0", json!({})).await?;
        says(&shop, BUNDLE, "prod", "still runs 1.28.0").await?;
        has_version(&shop, "prod", "1.29.0").await?;

        // It goes away: nobody knows what it runs, and that does not count as time to become healthy.
        door.stop().await;
        one.shutdown().await;
        world.advance(SignedDuration::from_secs(16)).await;
        is_unknown(&shop).await?;
        look_again(world, requests, SignedDuration::from_mins(11)).await?;
        is_unknown(&shop).await?;

        // The Secret leads to another cluster by now.
        let (two, door) = cluster(world, &shop, "1.29.0").await?;
        lead_to(&shop, door.kubeconfig()).await?;
        world.advance(SignedDuration::from_secs(11)).await;
        shop.state(BUNDLE, "prod", PromotionState::Verified).await?;
        world.stop_controllers().await;
        door.stop().await;
        two.shutdown().await;
        shop.close().await
    })
}

/// What becomes of connections on the way to a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They are hung up at once.
    Closed,
    /// They lead to the cluster.
    Open,
    /// Nothing arrives on them any more, in either direction, and nobody hangs up.
    Silent,
}

/// The beginning of a way to a cluster.
async fn way_to(cluster: SocketAddr, way: watch::Receiver<Way>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((here, _)) = listener.accept().await {
            tokio::spawn(pass_on(here, cluster, way.clone()));
        }
    });
    Ok(address)
}

async fn pass_on(
    mut here: TcpStream,
    cluster: SocketAddr,
    mut way: watch::Receiver<Way>,
) -> std::io::Result<()> {
    if *way.borrow() == Way::Closed {
        return Ok(());
    }
    let mut there = TcpStream::connect(cluster).await?;
    let silence = async { way.wait_for(|way| *way == Way::Silent).await.is_ok() };
    tokio::select! {
        biased;
        _ = silence => std::future::pending().await,
        done = tokio::io::copy_bidirectional(&mut here, &mut there) => done.map(drop),
    }
}

#[test]
fn a_remote_cluster_that_was_never_there_or_falls_silent_is_unknown_and_fails_nothing() -> anyhow::Result<()>
{
    in_memory_real_time(promotions(), async |world, _| {
        let shop = Shop::open(world, &["prod"]).await?;
        let (_cluster, door) = cluster(world, &shop, "1.28.0").await?;
        let way = watch::Sender::new(Way::Closed);
        let address = way_to(door.local_addr(), way.subscribe()).await?;
        let (straight, around) = (door.local_addr().to_string(), address.to_string());
        lead_to(&shop, &door.kubeconfig().replace(&straight, &around)).await?;
        let health = json!({"type": "resource", "cluster": SECRET, "timeout": "1m"});
        shop.pipeline(pipeline(json!([{"name": "prod", "health": health}]))).await?;
        shop.release(BUNDLE, "1.29.0", json!({})).await?;
        is_unknown(&shop).await?;

        way.send_replace(Way::Open);
        says(&shop, BUNDLE, "prod", "still runs 1.28.0").await?;

        // What was seen last is not held against it when the time is over: it may be long out of date.
        way.send_replace(Way::Silent);
        world.advance(SignedDuration::from_mins(2)).await;
        is_unknown(&shop).await?;
        shop.close().await
    })
}
