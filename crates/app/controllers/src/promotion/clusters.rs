//! Other clusters, whose workloads are looked at through a kubeconfig in a Secret.
//!
//! The kubeconfig is data: what it may say is decided by [`remote_cluster`]. The Secret is read again while somebody
//! looks, so that a changed one is used and one that is gone ends its watches. Watches at which nobody has looked for a
//! while end, too.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http_body_util::Limited;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::{Change, Clock, Kinds, Lost, Room, Watches};
use kardinal_object::Gvk;
use kardinal_promotion::health::{RemoteCluster, Unknown, remote_cluster};
use kardinal_reach::{Policy, Refused, authority};
use kardinal_vcs::Barrier;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;
use tower::BoxError;

use crate::Resolver;
use crate::forges::{self, CLUSTER_KEYS, Purpose, Trouble};
use crate::reconcile::driver::Key;

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
/// How much of one answer is read. Longer lists are asked for in smaller pages, watches go on with the next answer.
const ANSWER_BYTES: usize = 2 << 20;
/// How much is kept of all clusters that the Secrets of one namespace lead to.
const ROOM_BYTES: usize = 64 << 20;
/// How many that may be.
const CLUSTERS: usize = 16;

type Known = Arc<Mutex<BTreeMap<Key, Arc<Remote>>>>;

/// The clusters that are watched, by the Secret that leads to them.
pub(crate) struct Clusters {
    /// Where the Secrets are.
    client: kube::Client,
    clock: Arc<dyn Clock>,
    /// Which servers may be talked to.
    policy: Policy,
    known: Known,
    /// What each namespace may take of our memory.
    rooms: Mutex<BTreeMap<String, Weak<Room>>>,
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
    last: Option<(Timestamp, Result<(), Lost>)>,
}

/// Whether a cluster answers.
pub(crate) enum Reached {
    /// It did a moment ago.
    Yes,
    /// It is being asked; a change of the kind is told when that is known.
    NotKnown,
    /// It does not.
    No(Lost),
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
            Some((_, Err(lost))) => Reached::No(lost.clone()),
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
        let answer = answer.unwrap_or_else(|_| {
            Err(Lost { why: format!("no answer within {} s", ANSWER.as_secs()), code: None })
        });
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
        Clusters { client, clock, policy, known: Known::default(), rooms: Mutex::default(), changes, stop }
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
            Err(unreachable @ Unknown::Unreachable { .. }) => return known.ok_or(unreachable),
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
        has_place_for(&lock(&self.known), &key)?;
        permitted(&self.policy, &way.server).await.map_err(|refused| {
            let barrier = refused.barrier();
            Unknown::Problem { message: unusable(&key.1, refused), barrier }
        })?;
        self.follow(key, way, now).await
    }

    /// Ends the watches behind a Secret.
    fn end(&self, key: &Key) {
        if let Some(remote) = lock(&self.known).remove(key) {
            remote.stop.cancel();
        }
    }

    /// What the namespace's clusters share.
    fn room(&self, namespace: &str) -> Arc<Room> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(namespace).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Room::new(ROOM_BYTES);
        rooms.insert(namespace.to_owned(), Arc::downgrade(&room));
        room
    }

    async fn follow(&self, key: Key, way: RemoteCluster, now: Timestamp) -> Result<Arc<Remote>, Unknown> {
        let client =
            connect(&way, &self.policy).await.map_err(|why| Unknown::problem(unusable(&key.1, why)))?;
        let kinds = Arc::new(Kinds::new(client.clone()));
        let stop = self.stop.child_token();
        let (watches, received) = Watches::within(self.room(&key.0), client, kinds, stop.clone());
        let times = Mutex::new(Times { read: now, used: now, asked: BTreeMap::new() });
        let (changes, clock) = (self.changes.clone(), self.clock.clone());
        let remote = Arc::new(Remote { watches, way, times, changes, clock, stop });
        {
            // Others may have come while this one was connected to, so they are counted where it takes its place.
            let mut known = lock(&self.known);
            has_place_for(&known, &key)?;
            if let Some(other) = known.insert(key.clone(), remote.clone()) {
                other.stop.cancel();
            }
        }
        tokio::spawn(forward(received, self.changes.clone(), remote.stop.clone()));
        tokio::spawn(end_when_idle(self.known.clone(), key, remote.clone()));
        Ok(remote)
    }
}

/// Each cluster has tasks and connections of its own, however little it tells.
fn has_place_for(known: &BTreeMap<Key, Arc<Remote>>, key: &Key) -> Result<(), Unknown> {
    let (namespace, secret) = key;
    let others = known.keys().filter(|other| other.0 == *namespace && *other != key).count();
    if others < CLUSTERS {
        return Ok(());
    }
    Err(Unknown::problem(format!(
        "the Secret `{secret}` of `health.cluster` is not used: {CLUSTERS} other clusters are watched for the \
         namespace `{namespace}`, and more are not"
    )))
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
    let taken = forges::read(client, (namespace, name), &Purpose::Cluster).await.map_err(problem)?;
    let Some(text) = CLUSTER_KEYS.iter().find_map(|key| taken.get(key)) else {
        let message =
            format!("the Secret `{name}` of `health.cluster` has no key `kubeconfig`: add it as UTF-8 text");
        return Err(Unknown::Problem { message, barrier: Barrier::NotLetIn });
    };
    let way = remote_cluster(text.reveal()).map_err(|why| Unknown::problem(unusable(name, why)))?;
    taken.check_url(&way.server).map_err(problem)?;
    Ok(way)
}

fn problem(trouble: Trouble) -> Unknown {
    match trouble {
        Trouble::Problem { message, barrier } => Unknown::Problem { message, barrier },
        Trouble::Fault(why) => Unknown::Unreachable { why, code: None },
    }
}

/// What is known of a cluster of which nothing is heard.
pub(crate) fn unreachable(lost: Lost) -> Unknown {
    Unknown::Unreachable { why: lost.why, code: lost.code }
}

/// Whether the operator lets the server be talked to, by its name and by the addresses that it has now. What it has
/// when the connection is made is judged again, then: see [`connect`].
async fn permitted(policy: &Policy, server: &str) -> Result<(), Refused> {
    policy.check_url(server)?;
    let (host, _) = authority(server);
    let bare = host.trim_matches(['[', ']']).to_owned();
    let looked_up = Resolver::new(policy.clone()).look_up(bare);
    match tokio::time::timeout(CONNECT, looked_up).await {
        Ok(Err(error)) => match Refused::within(error.as_ref()) {
            Some(refused) => Err(refused.clone()),
            // A name that has no address for now leads nowhere: the cluster is unreachable, which is said elsewhere.
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn unusable(secret: &str, why: impl Display) -> String {
    format!("the kubeconfig in the Secret `{secret}` cannot be used: {why}")
}

/// A client for exactly this way: no file is opened, no program runs, and what the machine is set up with plays no part.
/// Every connection goes to an address that the policy allows, whatever the name leads to by then.
async fn connect(way: &RemoteCluster, policy: &Policy) -> Result<kube::Client, String> {
    // Errors may quote what they stumble over, which is a secret.
    let bad = |_| "its certificates or its server's URL cannot be read".to_owned();
    let file: Kubeconfig = serde_json::from_value(way.kubeconfig()).map_err(|_| bad(()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let config = config.map_err(|_| bad(()))?;
    let mut sockets = HttpConnector::new_with_resolver(Resolver::new(policy.clone()));
    sockets.enforce_http(false);
    let secured = config.rustls_https_connector_with_connector(sockets).map_err(|_| bad(()))?;
    let mut patient = TimeoutConnector::new(secured);
    patient.set_connect_timeout(Some(CONNECT));
    patient.set_read_timeout(config.read_timeout);
    patient.set_write_timeout(config.write_timeout);
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|_| bad(()))?)
        .map_err(BoxError::from)
        .map_response(|answer: http::Response<_>| answer.map(|body| Limited::new(body, ANSWER_BYTES)))
        .service(legacy::Client::builder(TokioExecutor::new()).build::<_, kube::client::Body>(patient));
    Ok(kube::Client::new(service, config.default_namespace))
}
