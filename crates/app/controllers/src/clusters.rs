//! Other clusters, whose workloads are looked at through a kubeconfig in a Secret.
//!
//! The kubeconfig is data: what it may say is decided by [`remote_cluster`]. The Secret is read again while somebody
//! looks, so that a changed one is used and one that is gone ends its watches. Watches at which nobody has looked for a
//! while end, too.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kardinal_cluster::{Change, Clock, Kinds, Watches};
use kardinal_graph::Gvk;
use kardinal_planner::health::{RemoteCluster, Unknown, remote_cluster};
use kardinal_planner::intent::check_name;
use kardinal_reach::Policy;
use kube::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use crate::driver::Key;
use crate::forges::{self, Trouble};

/// The keys under which a Secret may hold a kubeconfig.
const KEYS: [&str; 2] = ["kubeconfig", "value"];
/// How long a Secret is believed before it is read again.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// How long a cluster is believed to be reachable after it was asked.
const CONFIRMED: SignedDuration = SignedDuration::from_secs(10);
/// How long the watches of a cluster outlive the last look at it.
const IDLE: SignedDuration = SignedDuration::from_mins(5);
/// How long a cluster may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may take to answer whether it is there.
const ANSWER: Duration = Duration::from_secs(10);

type Known = Arc<Mutex<BTreeMap<Key, Arc<Remote>>>>;

/// The clusters that are watched, by the Secret that leads to them.
pub(crate) struct Clusters {
    /// Where the Secrets are.
    client: kube::Client,
    clock: Arc<dyn Clock>,
    /// Which servers may be talked to.
    policy: Policy,
    known: Known,
    /// Where their changes go.
    changes: UnboundedSender<Change>,
    stop: CancellationToken,
}

/// A cluster that is watched.
pub(crate) struct Remote {
    /// What has been seen of it.
    pub(crate) watches: Arc<Watches>,
    /// How it was reached.
    way: RemoteCluster,
    times: Mutex<Times>,
    changes: UnboundedSender<Change>,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
}

struct Times {
    /// When its Secret was read last.
    read: Timestamp,
    /// When somebody looked at it last.
    used: Timestamp,
    /// What it answered last when it was asked for a kind in a namespace.
    asked: BTreeMap<(Gvk, String), Asked>,
}

#[derive(Default)]
struct Asked {
    /// Whether an answer is on its way.
    under_way: bool,
    /// The last answer.
    last: Option<(Timestamp, Result<(), String>)>,
}

/// Whether a cluster answers.
pub(crate) enum Reached {
    /// It did a moment ago.
    Yes,
    /// It is being asked; a change of the kind is told when that is known.
    NotKnown,
    /// It does not.
    No(String),
}

impl Remote {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the cluster answers for a kind. A watch alone cannot tell: a connection that was cut is as silent as one
    /// on which nothing happens. Nobody waits for the answer here.
    pub(crate) fn reached(self: &Arc<Self>, kind: &Gvk, namespace: &str, now: Timestamp) -> Reached {
        let key = (kind.clone(), namespace.to_owned());
        let mut times = self.times();
        let asked = times.asked.entry(key.clone()).or_default();
        let fresh = asked.last.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < CONFIRMED);
        if !fresh && !asked.under_way {
            asked.under_way = true;
            tokio::spawn(self.clone().ask(key));
        }
        match &asked.last {
            Some((_, Err(why))) => Reached::No(why.clone()),
            Some((_, Ok(()))) if fresh => Reached::Yes,
            _ => Reached::NotKnown,
        }
    }

    async fn ask(self: Arc<Self>, key: (Gvk, String)) {
        let (kind, namespace) = &key;
        let answer = tokio::select! {
            () = self.stop.cancelled() => return,
            answer = tokio::time::timeout(ANSWER, self.watches.confirm(kind, namespace)) => answer,
        };
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER.as_secs())));
        let asked = Asked { under_way: false, last: Some((self.clock.now(), answer)) };
        let kind = kind.clone();
        self.times().asked.insert(key, asked);
        // Nobody listens any more when the controllers stop.
        let _ = self.changes.send(Change::Kind(kind));
    }
}

impl Clusters {
    /// None yet.
    pub(crate) fn new(
        client: kube::Client,
        clock: Arc<dyn Clock>,
        policy: Policy,
        changes: UnboundedSender<Change>,
        stop: CancellationToken,
    ) -> Clusters {
        Clusters { client, clock, policy, known: Known::default(), changes, stop }
    }

    /// The cluster that a Secret leads to; why nothing is known of it, otherwise.
    pub(crate) async fn reach(&self, namespace: &str, secret: &str) -> Result<Arc<Remote>, Unknown> {
        let key = (namespace.to_owned(), secret.to_owned());
        let now = self.clock.now();
        let known = lock(&self.known).get(&key).cloned();
        if let Some(remote) = &known {
            let mut times = remote.times();
            times.used = now;
            if now.duration_since(times.read) < FRESH {
                drop(times);
                return Ok(remote.clone());
            }
        }
        let way = match read(&self.client, &key).await {
            Ok(way) => way,
            // What was read before still counts: a failed read says nothing.
            Err(Unknown::Unreachable(why)) => return known.ok_or(Unknown::Unreachable(why)),
            Err(problem) => {
                self.end(&key);
                return Err(problem);
            }
        };
        if let Some(remote) = known.filter(|remote| remote.way == way) {
            remote.times().read = now;
            return Ok(remote);
        }
        self.end(&key);
        permitted(&self.policy, &way.server).await.map_err(|why| Unknown::Problem(unusable(&key.1, why)))?;
        self.follow(key, way, now).await
    }

    /// Ends the watches behind a Secret.
    fn end(&self, key: &Key) {
        if let Some(remote) = lock(&self.known).remove(key) {
            remote.stop.cancel();
        }
    }

    async fn follow(&self, key: Key, way: RemoteCluster, now: Timestamp) -> Result<Arc<Remote>, Unknown> {
        let client = connect(&way).await.map_err(|why| Unknown::Problem(unusable(&key.1, why)))?;
        let kinds = Arc::new(Kinds::new(client.clone()));
        let stop = self.stop.child_token();
        let (watches, received) = Watches::new(client, kinds, |_, _| Vec::new(), stop.clone());
        let times = Mutex::new(Times { read: now, used: now, asked: BTreeMap::new() });
        let (changes, clock) = (self.changes.clone(), self.clock.clone());
        let remote = Arc::new(Remote { watches, way, times, changes, clock, stop });
        if let Some(other) = lock(&self.known).insert(key.clone(), remote.clone()) {
            other.stop.cancel();
        }
        tokio::spawn(forward(received, self.changes.clone(), remote.stop.clone()));
        tokio::spawn(end_when_idle(self.known.clone(), key, remote.clone()));
        Ok(remote)
    }
}

fn lock(known: &Known) -> MutexGuard<'_, BTreeMap<Key, Arc<Remote>>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn forward(
    mut received: UnboundedReceiver<Change>,
    changes: UnboundedSender<Change>,
    stop: CancellationToken,
) {
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return,
            change = received.recv() => change,
        };
        let Some(change) = change else { return };
        if changes.send(change).is_err() {
            return;
        }
    }
}

async fn end_when_idle(known: Known, key: Key, remote: Arc<Remote>) {
    loop {
        let until = remote.times().used + IDLE;
        if remote.clock.now() >= until {
            break;
        }
        tokio::select! {
            () = remote.stop.cancelled() => return,
            () = remote.clock.sleep_until(until) => {}
        }
    }
    let mut all = lock(&known);
    if all.get(&key).is_some_and(|found| Arc::ptr_eq(found, &remote)) {
        all.remove(&key);
    }
    remote.stop.cancel();
}

/// Reads the way to a cluster out of its Secret.
async fn read(client: &kube::Client, (namespace, name): &Key) -> Result<RemoteCluster, Unknown> {
    check_name("health.cluster", name).map_err(|problem| Unknown::Problem(problem.to_string()))?;
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = match api.get_opt(name).await {
        Ok(Some(secret)) => secret,
        Ok(None) => {
            return Err(Unknown::Problem(format!(
                "the Secret `{name}` of `health.cluster` is not in namespace `{namespace}`: create it with the key \
                 `kubeconfig`"
            )));
        }
        Err(error) => {
            return Err(Unknown::Unreachable(format!("the Secret `{name}` cannot be read: {error}")));
        }
    };
    let hosts =
        secret.metadata.annotations.as_ref().and_then(|annotations| annotations.get(forges::HOSTS)).cloned();
    forges::check_kind(name, &secret).map_err(problem)?;
    let data = secret.data.unwrap_or_default();
    let Some(text) = KEYS.iter().find_map(|key| data.get(*key)) else {
        return Err(Unknown::Problem(format!(
            "the Secret `{name}` of `health.cluster` has no key `kubeconfig`: add it"
        )));
    };
    let text = std::str::from_utf8(&text.0).map_err(|_| "it is not UTF-8".to_owned());
    let way = text.and_then(remote_cluster).map_err(|why| Unknown::Problem(unusable(name, why)))?;
    forges::check_hosts(name, hosts.as_deref(), &way.server).map_err(problem)?;
    Ok(way)
}

fn problem(trouble: Trouble) -> Unknown {
    match trouble {
        Trouble::Problem(why) => Unknown::Problem(why),
        Trouble::Fault(why) => Unknown::Unreachable(why),
    }
}

/// Whether the operator lets the server be talked to, by its name and by the addresses that it has now.
async fn permitted(policy: &Policy, server: &str) -> Result<(), String> {
    let (host, port) = forges::authority(server);
    policy.check_host(&host, port)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let looked_up = tokio::net::lookup_host((bare, port.unwrap_or(443)));
    // A name that has no address for now leads nowhere: the cluster is unreachable, which is said elsewhere.
    let Ok(Ok(addresses)) = tokio::time::timeout(CONNECT, looked_up).await else { return Ok(()) };
    for address in addresses {
        policy.check_address(&host, address.ip())?;
    }
    Ok(())
}

fn unusable(secret: &str, why: String) -> String {
    format!("the kubeconfig in the Secret `{secret}` cannot be used: {why}")
}

/// A client for exactly this way: no file is opened, no program runs, and what the machine is set up with plays no part.
async fn connect(way: &RemoteCluster) -> Result<kube::Client, String> {
    // Errors may quote what they stumble over, which is a secret.
    let bad = |_| "its certificates or its server's URL cannot be read".to_owned();
    let file: Kubeconfig = serde_json::from_value(way.kubeconfig()).map_err(|_| bad(()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(|_| bad(()))?;
    config.connect_timeout = Some(CONNECT);
    kube::Client::try_from(config).map_err(|_| bad(()))
}
