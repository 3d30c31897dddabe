//! Measures durable creates per second over HTTPS at several concurrencies, with client and server in one process.
//!
//! `cargo run --release -p kardinal-apiserver --example creates [DIR]`

// Printing is what it is for.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kardinal_apiserver::{Options, Server};
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let dir =
        std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("kardinal-creates"), Into::into);
    let began = Instant::now();
    let server = Server::start(Options { data_dir: Some(dir.clone()), ..Options::default() }).await?;
    let handle = server.serve(tokio::net::TcpListener::bind("127.0.0.1:0").await?).await?;
    println!("start-up {:?} on {}", began.elapsed(), dir.display());
    let kubeconfig = Kubeconfig::from_yaml(handle.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let inside = server.client("default");
    for (label, client, sizes) in [("https", client, [1, 16, 64]), ("in process", inside, [1, 16, 64])] {
        for concurrency in sizes {
            let (rate, mean) = measure(&client, concurrency).await?;
            println!("{label:>10} {concurrency:>3} writers: {rate:>8.0} creates/s, {mean:.2} ms each");
        }
    }
    server.shutdown().await;
    Ok(())
}

async fn measure(client: &Client, concurrency: usize) -> Result<(f64, f64), Failure> {
    let total = 500 * (1 + concurrency);
    let next = Arc::new(AtomicUsize::new(0));
    let began = Instant::now();
    let run = std::time::UNIX_EPOCH.elapsed()?.as_nanos();
    let workers: Vec<_> = (0..concurrency)
        .map(|_| {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
            let next = next.clone();
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return Ok::<_, kube::Error>(());
                    }
                    let data = BTreeMap::from([("value".to_owned(), "x".repeat(1000))]);
                    let mut object = ConfigMap { data: Some(data), ..ConfigMap::default() };
                    object.metadata.name = Some(format!("bench-{run}-{number}"));
                    api.create(&PostParams::default(), &object).await?;
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let seconds = began.elapsed().as_secs_f64();
    #[allow(clippy::cast_precision_loss)] // counts far below 2^52
    let (total, concurrency) = (total as f64, concurrency as f64);
    Ok((total / seconds, seconds * 1000.0 * concurrency / total))
}
