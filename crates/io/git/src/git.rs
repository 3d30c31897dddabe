//! The entry to the crate: every call finds its repository here.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use kardinal_reach::{Hosts, Policy};
use reqwest::dns::Resolve;
use tokio::sync::Semaphore;

use crate::{
    Budget, Committed, Error, FileChange, Future, Local, Order, Remote, Repositories, cache,
    error::Failure,
    http::Http,
    lane::AsyncWork,
    remote::{Place, Target},
    scratch,
    session::{Depot, Session, blocking},
    store::guard,
};

/// So many repositories are kept open.
const MAX_OPEN: usize = 256;
/// So many packs are unpacked at a time.
const UNPACKING: usize = 4;

/// How repositories are kept.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the caches of remote repositories live.
    pub cache_dir: PathBuf,
    /// The caches together may take this many bytes; the least recently used go first.
    pub max_bytes: u64,
    /// A cache that nobody used for this long is removed.
    pub max_age: Duration,
    /// Our own forge, whose repositories need no network and no cache.
    pub local: Option<Local>,
    /// How much of a repository is read at most.
    pub limits: Limits,
}

/// How much of a repository is read at most. What is larger is refused before memory is used for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The size in bytes of one object, unpacked.
    pub object: u64,
    /// The size in bytes of what one fetch brings, packed.
    pub pack: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { object: 64 << 20, pack: 1 << 30 }
    }
}

/// All repositories, ready for use from any number of tasks.
#[derive(Clone)]
pub struct Git {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Git {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Git").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    pub(crate) settings: Settings,
    /// Which hosts may be talked to.
    pub(crate) reach: Policy,
    pub(crate) http: Http,
    /// So many packs are unpacked at a time, whoever sent them.
    pub(crate) unpacking: Semaphore,
    depots: Mutex<HashMap<Key, Arc<Depot>>>,
}

/// What makes two remotes the same repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Disk(PathBuf),
    Url(String),
}

impl Git {
    /// For the one who started the program: whatever that person may reach. Opens nothing yet; caches appear with the
    /// first use.
    pub fn new(settings: Settings) -> Git {
        Git::reaching(settings, Policy::machine(Hosts::default()), None)
    }

    /// Reaches only what the policy allows. Names are looked up by the resolver, which refuses forbidden addresses. The first
    /// one of a process removes what dead ones have left in the folder for temporary files.
    pub fn reaching(settings: Settings, reach: Policy, resolver: Option<Arc<dyn Resolve>>) -> Git {
        scratch::sweep();
        let unpacking = Semaphore::new(UNPACKING);
        let http = Http::new(resolver);
        Git { inner: Arc::new(Inner { settings, reach, http, unpacking, depots: Mutex::default() }) }
    }
}

impl Inner {
    /// Understands the remote and gets its repository ready.
    async fn session(self: &Arc<Inner>, remote: &Remote) -> Result<Session, Failure> {
        let target = Target::new(remote, self.settings.local.as_ref(), &self.reach)?;
        let key = match &target.place {
            Place::Disk(path) => Key::Disk(path.clone()),
            Place::Http | Place::Program => Key::Url(target.url.clone()),
        };
        let depot = self.depot(key);
        Session::open(Arc::clone(self), depot, target).await
    }

    /// What is kept about a repository. Of very many, only those in use are remembered.
    fn depot(&self, key: Key) -> Arc<Depot> {
        let mut depots = guard(&self.depots);
        if depots.len() > MAX_OPEN {
            depots.retain(|_, depot| Arc::strong_count(depot) > 1);
        }
        Arc::clone(depots.entry(key).or_default())
    }

    /// Removes the caches that are too many or too old. What is in use stays.
    pub(crate) async fn sweep(self: &Arc<Inner>) -> Result<(), Failure> {
        let inner = Arc::clone(self);
        blocking(move || {
            for found in cache::surplus(&inner.settings) {
                let depots: Vec<Arc<Depot>> = guard(&inner.depots).values().cloned().collect();
                depots.iter().for_each(|depot| depot.close_idle(&found.path));
                cache::evict(&found);
            }
            Ok(())
        })
        .await
    }

    /// Runs an operation; if the object database turns out to be damaged, once more with a fresh one.
    async fn run<T, F, R>(self: &Arc<Inner>, remote: &Remote, operation: F) -> Result<T, Error>
    where
        F: Fn(Arc<Session>) -> R + Send,
        R: std::future::Future<Output = Result<T, Failure>> + Send,
    {
        let session = Arc::new(self.session(remote).await.map_err(Failure::into_error)?);
        match operation(Arc::clone(&session)).await {
            Err(Failure::Corrupt(message)) => {
                tracing::warn!(
                    url = session.target.url,
                    message,
                    "a repository cannot be read; opening it afresh"
                );
                session.discard().await.map_err(Failure::into_error)?;
                drop(session);
                let session = Arc::new(self.session(remote).await.map_err(Failure::into_error)?);
                operation(session).await.map_err(Failure::into_error)
            }
            other => other.map_err(Failure::into_error),
        }
    }
}

/// A batch of orders for one branch of one remote.
struct Batch<'a> {
    inner: &'a Arc<Inner>,
    remote: &'a Remote,
}

impl AsyncWork for Batch<'_> {
    async fn run(&self, orders: Vec<Order>) -> Vec<Result<Committed, Error>> {
        let done = self
            .inner
            .run(self.remote, |session| {
                let orders = orders.clone();
                async move { session.carry_out(orders).await }
            })
            .await;
        match done {
            Ok(results) => results,
            Err(error) => orders.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

impl Repositories for Git {
    fn resolve<'a>(&'a self, remote: &'a Remote, id: &'a str) -> Future<'a, String> {
        Box::pin(async move {
            let id = self.inner.run(remote, move |session| async move { session.resolve(id).await }).await?;
            Ok(id.to_string())
        })
    }

    fn diff<'a>(
        &'a self,
        remote: &'a Remote,
        from: Option<&'a str>,
        to: &'a str,
        budget: &'a Budget,
    ) -> Future<'a, Vec<FileChange>> {
        Box::pin(self.inner.run(remote, move |session| async move { session.diff(from, to, budget).await }))
    }

    fn tip<'a>(&'a self, remote: &'a Remote, branch: &'a str) -> Future<'a, Option<String>> {
        Box::pin(async move {
            let tip = self.inner.run(remote, |session| async move { session.tip(branch).await }).await?;
            Ok(tip.map(|id| id.to_string()))
        })
    }

    fn read<'a>(&'a self, remote: &'a Remote, commit: &'a str, path: &'a str) -> Future<'a, Option<Vec<u8>>> {
        Box::pin(self.inner.run(remote, move |session| async move { session.read(commit, path).await }))
    }

    fn commit<'a>(&'a self, remote: &'a Remote, order: &'a Order) -> Future<'a, Committed> {
        Box::pin(async move {
            let session = self.inner.session(remote).await.map_err(Failure::into_error)?;
            let (depot, lane) = session.lane(&order.branch);
            drop(session);
            let work = Batch { inner: &self.inner, remote };
            let result = lane.pass(order, &work).await;
            drop(lane);
            depot.tidy_lanes();
            result
        })
    }

    fn delete_branch<'a>(&'a self, remote: &'a Remote, branch: &'a str, expected: &'a str) -> Future<'a, ()> {
        Box::pin(
            self.inner
                .run(remote, move |session| async move { session.delete_branch(branch, expected).await }),
        )
    }

    fn contains<'a>(
        &'a self,
        remote: &'a Remote,
        descendant: &'a str,
        ancestor: &'a str,
    ) -> Future<'a, bool> {
        Box::pin(
            self.inner
                .run(remote, move |session| async move { session.contains(descendant, ancestor).await }),
        )
    }
}
