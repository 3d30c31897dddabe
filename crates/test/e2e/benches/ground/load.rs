//! Creates through one client, with a given number in flight.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Api;
use kube::api::PostParams;

/// Bytes of each object as JSON.
const SIZE: usize = 900;
/// Creates before the clock starts.
const WARM_UP: usize = 200;

/// What a load measured.
pub(crate) struct Measured {
    /// Creates per second.
    pub(crate) rate: f64,
    /// The time within which half of the creates were answered.
    pub(crate) median: Duration,
    /// The time within which 99 of 100 creates were answered.
    pub(crate) slow: Duration,
}

/// Creates `count` ConfigMaps with `concurrency` requests in flight, in a namespace of their own.
pub(crate) async fn creates(
    client: &kube::Client,
    concurrency: usize,
    count: usize,
) -> anyhow::Result<Measured> {
    let namespace = format!("load-{concurrency}");
    let mut made = Namespace::default();
    made.metadata.name = Some(namespace.clone());
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &made).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    run(&maps, concurrency, 0, WARM_UP).await?;
    let started = Instant::now();
    let mut times = run(&maps, concurrency, WARM_UP, count).await?;
    let elapsed = started.elapsed();
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(Measured { rate: count as f64 / elapsed.as_secs_f64(), median: at(0.5), slow: at(0.99) })
}

async fn run(
    maps: &Api<ConfigMap>,
    concurrency: usize,
    from: usize,
    count: usize,
) -> anyhow::Result<Vec<Duration>> {
    let next = Arc::new(AtomicUsize::new(from));
    let workers: Vec<_> = (0..concurrency)
        .map(|_| {
            let (maps, next) = (maps.clone(), next.clone());
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= from + count {
                        return anyhow::Ok(times);
                    }
                    let started = Instant::now();
                    maps.create(&PostParams::default(), &config_map(number)).await?;
                    times.push(started.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::with_capacity(count);
    for worker in workers {
        times.extend(worker.await??);
    }
    Ok(times)
}

fn config_map(number: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("map-{number:06}"));
    map.data = Some(BTreeMap::from([("text".to_owned(), "x".repeat(SIZE - 105))]));
    map
}

/// The object of the load, as JSON.
pub(crate) fn sample() -> anyhow::Result<String> {
    Ok(serde_json::to_string(&config_map(0))?)
}
