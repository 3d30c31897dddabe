//! Kills a durable server with SIGKILL again and again under sixteen writers and checks what is left.
//!
//! The test binary runs itself as the server process. Each writer owns its own names, so after a restart every
//! object must be in its last acknowledged state, or in the state that the one unanswered write would have made.

// Helpers of tests fail by panicking; clippy knows that only of functions marked as tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kardinal_apiserver::{Options, Server};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const ROLE: &str = "KARDINAL_KILL_TEST_DIR";
const SEED: &str = "KARDINAL_KILL_TEST_SEED";
const KILLS: u64 = 50;
const WRITERS: u64 = 16;
const NAMES: u64 = 12;

/// Not a test of its own: the server process, when the environment says so.
#[test]
fn child() {
    let Ok(dir) = std::env::var(ROLE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let options = Options { data_dir: Some(dir.into()), ..Options::default() };
        let server = Server::start(options).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _handle = server.serve(listener).await.unwrap();
        println!("\nREADY");
        std::future::pending::<()>().await;
    });
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// What a name holds: the value it was last written with and the version of that write.
type State = Option<(String, u64)>;

/// A writer's knowledge of its names.
struct Truth {
    known: BTreeMap<String, State>,
    /// The write that got no answer: its name and the value it would have left (nothing for a delete).
    pending: Option<(String, Option<String>)>,
    chance: Chance,
    counter: u64,
}

/// The server process; it does not outlive the test, however that ends.
struct Running(Child);

impl Running {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(dir: &Path) -> Running {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "READY"), "the server did not start");
    Running(child)
}

async fn connect(dir: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(dir.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn version(object: &ConfigMap) -> u64 {
    object.metadata.resource_version.as_deref().unwrap().parse().unwrap()
}

fn value(object: &ConfigMap) -> String {
    object.data.as_ref().unwrap()["value"].clone()
}

/// Writes until the server goes away; returns every acknowledged version.
async fn write(
    api: Api<ConfigMap>,
    truth: &mut Truth,
    acknowledged: &AtomicU64,
    limit: u64,
    reached: &Notify,
) -> Vec<u64> {
    let mut versions = Vec::new();
    let names: Vec<String> = truth.known.keys().cloned().collect();
    loop {
        let name = names[usize::try_from(truth.chance.below(NAMES)).unwrap()].clone();
        truth.counter += 1;
        let text = format!("{name}-{}", truth.counter);
        let state = truth.known[&name].clone();
        let delete = state.is_some() && truth.chance.below(4) == 0;
        truth.pending = Some((name.clone(), (!delete).then(|| text.clone())));
        let mut object =
            ConfigMap { data: Some(BTreeMap::from([("value".to_owned(), text)])), ..ConfigMap::default() };
        object.metadata.name = Some(name.clone());
        let result = match &state {
            None => api.create(&PostParams::default(), &object).await.map(Some),
            Some(_) if delete => api.delete(&name, &DeleteParams::default()).await.map(|_| None),
            Some((_, rv)) => {
                object.metadata.resource_version = Some(rv.to_string());
                api.replace(&name, &PostParams::default(), &object).await.map(Some)
            }
        };
        match result {
            Ok(written) => {
                let state = written.map(|object| (value(&object), version(&object)));
                versions.extend(state.iter().map(|(_, rv)| *rv));
                truth.known.insert(name, state);
                truth.pending = None;
            }
            Err(kube::Error::Api(status)) => panic!("the server refused a correct write: {status:?}"),
            Err(_) => return versions,
        }
        if acknowledged.fetch_add(1, Ordering::SeqCst) + 1 == limit {
            reached.notify_one();
        }
    }
}

/// Compares what is stored with what was acknowledged and settles unanswered writes.
async fn verify(client: &Client, truths: &mut [Truth], used: &mut BTreeSet<u64>, round: u64) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let list = api.list(&ListParams::default()).await.unwrap();
    let list_version: u64 = list.metadata.resource_version.as_deref().unwrap().parse().unwrap();
    let highest = used.last().copied().unwrap_or(0);
    assert!(
        list_version >= highest,
        "round {round}: the server is at {list_version}, {highest} was acknowledged"
    );
    let mut stored: BTreeMap<String, (String, u64)> = list
        .items
        .iter()
        .map(|object| (object.metadata.name.clone().unwrap(), (value(object), version(object))))
        .collect();
    for truth in truths {
        let pending = truth.pending.take();
        for (name, known) in &mut truth.known {
            let found = stored.remove(name);
            if found == *known {
                continue;
            }
            let Some((_, would_be)) = pending.as_ref().filter(|(pending, _)| pending == name) else {
                panic!("round {round}: `{name}` is {found:?}, acknowledged was {known:?}");
            };
            let found_value = found.as_ref().map(|(value, _)| value);
            assert_eq!(
                found_value,
                would_be.as_ref(),
                "round {round}: `{name}` is neither before nor after its last write"
            );
            if let Some((_, rv)) = &found {
                assert!(used.insert(*rv), "round {round}: version {rv} was used twice");
            }
            *known = found;
        }
    }
    assert!(stored.is_empty(), "round {round}: nobody wrote {stored:?}");
}

#[test]
fn no_acknowledged_write_is_lost_by_kill_9() {
    if std::env::var(ROLE).is_ok() {
        return;
    }
    let seed = std::env::var(SEED)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap());
    println!("seed {seed} (set {SEED} to repeat)");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(kill_rounds(seed));
}

async fn kill_rounds(seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut chance = Chance(seed);
    let mut truths: Vec<Truth> = (0..WRITERS)
        .map(|writer| Truth {
            known: (0..NAMES).map(|name| (format!("w{writer}-{name}"), None)).collect(),
            pending: None,
            chance: Chance(seed ^ (writer + 1)),
            counter: 0,
        })
        .collect();
    let mut used = BTreeSet::new();
    let mut total = 0;
    for round in 0..=KILLS {
        let mut child = start(dir.path());
        let client = connect(dir.path()).await;
        verify(&client, &mut truths, &mut used, round).await;
        if round == KILLS {
            child.kill();
            break;
        }
        let limit = 1 + chance.below(150);
        let (acknowledged, reached) = (Arc::new(AtomicU64::new(0)), Arc::new(Notify::new()));
        let mut writers = JoinSet::new();
        for mut truth in truths.drain(..) {
            let api = Api::namespaced(client.clone(), "default");
            let (acknowledged, reached) = (acknowledged.clone(), reached.clone());
            writers.spawn(async move {
                let versions = write(api, &mut truth, &acknowledged, limit, &reached).await;
                (truth, versions)
            });
        }
        // A writer that ends before the kill has met a wrong answer: its panic is the result of this test.
        let early = tokio::select! {
            () = reached.notified() => None,
            ended = writers.join_next() => ended,
        };
        child.kill();
        let mut ended: Vec<_> = early.into_iter().collect();
        while let Some(writer) = writers.join_next().await {
            ended.push(writer);
        }
        for writer in ended {
            let (truth, versions) = writer.unwrap();
            truths.push(truth);
            for rv in versions {
                assert!(used.insert(rv), "round {round}: version {rv} was used twice");
            }
        }
        total += acknowledged.load(Ordering::SeqCst);
    }
    println!("{KILLS} kills, {total} acknowledged writes, all there");
}
