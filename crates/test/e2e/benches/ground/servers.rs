//! `kardinal up` and kube-apiserver + etcd under the same load, one after the other.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kardinal_testkit::child::{Running, free_port};
use kardinal_testkit::real::{Cluster, programs};
use kardinal_testkit::{up, world::client_of};

use crate::load::{self, Measured};
use crate::process::resident;
use crate::table::{Row, times};

const CONCURRENCIES: [usize; 3] = [1, 16, 64];
const CREATES: usize = 3000;
const STARTS: usize = 7;
const START_LIMIT: Duration = Duration::from_secs(60);

/// What one server showed.
struct Shown {
    loads: Vec<Measured>,
    empty: u64,
    loaded: u64,
}

/// The rows about servers.
pub(crate) fn rows() -> anyhow::Result<Vec<Row>> {
    let size = load::sample()?.len();
    anyhow::ensure!((850..=950).contains(&size), "the object has {size} bytes instead of about 900");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let mut rows = runtime.block_on(starts())?;
    rows.iter().for_each(Row::progress);
    let data = folder.path().join("data");
    let started = runtime.block_on(Started::start(&data))?;
    let ours = runtime.block_on(measure(&started.kubeconfig, &["kardinal"], &data))?;
    drop(started);
    let again = runtime.block_on(Started::start(&data))?;
    let objects = CONCURRENCIES.len() * (CREATES + 200);
    let what = format!("start-up with {objects} objects until /readyz");
    rows.push(Row::ours(what, millis(again.ready), ""));
    drop(again);
    let theirs = match programs()? {
        None => None,
        Some(programs) => {
            let cluster = Cluster::start(&programs)?;
            let folder = cluster.kubeconfig.parent().context("the kubeconfig is in a folder")?;
            Some(runtime.block_on(measure(&cluster.kubeconfig, &["kube-apiserver", "etcd"], folder))?)
        }
    };
    let mut compared = compare(&ours, theirs.as_ref());
    compared.append(&mut rows);
    compared.iter().for_each(Row::progress);
    Ok(compared)
}

async fn measure(kubeconfig: &Path, names: &[&str], folder: &Path) -> anyhow::Result<Shown> {
    let client = client_of(kubeconfig).await?;
    // A server that has just started still does this and that.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let empty = resident(names, folder)?;
    let mut loads = Vec::new();
    for concurrency in CONCURRENCIES {
        loads.push(load::creates(&client, concurrency, CREATES).await?);
    }
    Ok(Shown { loads, empty, loaded: resident(names, folder)? })
}

fn compare(ours: &Shown, theirs: Option<&Shown>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, (concurrency, measured)) in CONCURRENCIES.iter().zip(&ours.loads).enumerate() {
        let other = theirs.and_then(|theirs| theirs.loads.get(at));
        rows.push(Row {
            what: format!("creates/s, {concurrency} in flight (p50, p99)"),
            ours: rate(measured),
            theirs: other.map(rate).unwrap_or_default(),
            ratio: other.map(|other| times(measured.rate, other.rate)).unwrap_or_default(),
            aim: if *concurrency > 1 { ">= 4x" } else { "" },
        });
    }
    let objects = CONCURRENCIES.len() * (CREATES + 200);
    for (what, mine, other) in [
        ("memory, empty".to_owned(), ours.empty, theirs.map(|theirs| theirs.empty)),
        (format!("memory, after {objects} creates"), ours.loaded, theirs.map(|theirs| theirs.loaded)),
    ] {
        rows.push(Row {
            what,
            ours: mebibytes(mine),
            theirs: other.map(mebibytes).unwrap_or_default(),
            ratio: other.map(|other| times(other as f64, mine as f64)).unwrap_or_default(),
            aim: ">= 8x less",
        });
    }
    rows
}

fn rate(measured: &Measured) -> String {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    format!("{:.0} ({:.1} ms, {:.1} ms)", measured.rate, millis(measured.median), millis(measured.slow))
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

/// A `kardinal up` with the times that its start took.
struct Started {
    kubeconfig: PathBuf,
    ready: Duration,
    complete: Duration,
    _running: Running,
}

impl Started {
    async fn start(data: &Path) -> anyhow::Result<Started> {
        let binary = up::binary()?;
        let port = free_port()?;
        let arguments =
            ["up", "--data-dir", &data.display().to_string(), "--listen", &format!("127.0.0.1:{port}")]
                .map(str::to_owned);
        std::fs::create_dir_all(data)?;
        let endpoints = data.join("endpoints.json");
        // A process that was killed leaves its file behind.
        let _ = std::fs::remove_file(&endpoints);
        let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.accept_invalid_certs = true;
        let client = kube::Client::try_from(config)?;
        let started = Instant::now();
        let running = Running::start(&binary, &arguments, &data.with_extension("log"))?;
        let mut ready = None;
        loop {
            if ready.is_none() && is_ready(&client).await {
                ready = Some(started.elapsed());
            }
            if let (Some(ready), true) = (ready, endpoints.exists()) {
                let kubeconfig = data.join("kubeconfig");
                return Ok(Started { kubeconfig, ready, complete: started.elapsed(), _running: running });
            }
            if started.elapsed() > START_LIMIT {
                let log = std::fs::read_to_string(data.with_extension("log")).unwrap_or_default();
                bail!("`{}` did not start:\n{log}", binary.display());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn is_ready(client: &kube::Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok_and(|text| text == "ok")
}

async fn starts() -> anyhow::Result<Vec<Row>> {
    let (mut ready, mut complete) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let folder = tempfile::tempdir()?;
        let started = Started::start(&folder.path().join("data")).await?;
        ready.push(started.ready);
        complete.push(started.complete);
    }
    ready.sort_unstable();
    complete.sort_unstable();
    let median = |times: &[Duration]| times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(vec![
        Row::ours("start-up, empty, until /readyz", millis(median(&ready)), "< 300 ms"),
        Row::ours("start-up, empty, until endpoints.json", millis(median(&complete)), "< 300 ms"),
    ])
}
