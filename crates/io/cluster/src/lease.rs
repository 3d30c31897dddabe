//! Leader election by a Lease: the acting half. What to do is decided by [`kardinal_planner::lease`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kardinal_planner::lease::{
    Decision, RENEW_DEADLINE, RETRY_PERIOD, VERSION_ANNOTATION, decide, holder, released,
};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event};

mod desk;
#[cfg(test)]
mod tests;

pub use desk::{Closed, Desk};

use crate::clock::Clock;
use crate::leadership::{Leadership, Moment};

/// How long a clean stop waits for the server to take the Lease back.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
/// Who writes Leases, in `managedFields`.
const MANAGER: &str = "kardinal-election";

/// A Lease that replicas compete for, and one of the replicas.
#[derive(Debug, Clone)]
pub struct Office {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Labels that the Lease shall have.
    pub labels: BTreeMap<String, String>,
    /// The replica, unlike every other one that ever was.
    pub identity: String,
    /// The replica's version, for people.
    pub version: String,
}

/// A replica that wants to hold a Lease.
pub struct Candidate {
    claim: Arc<Claim>,
    /// Where its requests are made; absent: where it is asked.
    desk: Option<Desk>,
}

/// What a candidate knows of the Lease.
struct Claim {
    api: Api<Lease>,
    office: Office,
    clock: Arc<dyn Clock>,
    /// The record as it was seen last, and when it was seen for the first time.
    seen: Mutex<Option<(LeaseSpec, Moment)>>,
}

/// How one attempt ended.
enum Attempt {
    /// The Lease is ours, by a request that was sent at this moment.
    Held { since: Moment, anew: bool },
    /// Another one holds it; it is worth looking again after so long.
    Waiting(SignedDuration),
}

impl Candidate {
    /// A candidate that has not looked at the Lease yet.
    pub fn new(client: kube::Client, clock: Arc<dyn Clock>, office: Office) -> Candidate {
        let api = Api::namespaced(client, &office.namespace);
        Candidate { claim: Arc::new(Claim { api, office, clock, seen: Mutex::default() }), desk: None }
    }

    /// The same candidate, which makes its requests at the desk where its client was made.
    pub fn at(self, desk: Desk) -> Candidate {
        Candidate { desk: Some(desk), ..self }
    }

    /// Whether anybody has ever held the Lease; one that cannot be told counts as one that nobody has held.
    pub async fn exists(&self) -> bool {
        self.run(|claim| async move { claim.exists().await }).await.unwrap_or_default()
    }

    /// Waits until the Lease is ours.
    pub async fn elected(&self) -> Leadership {
        match self.run(|claim| async move { claim.elected().await }).await {
            Ok(term) => term,
            Err(error) => {
                tracing::error!(%error, "this replica cannot be elected");
                std::future::pending().await
            }
        }
    }

    /// Renews the Lease until the term is over: another one took it, or it could not be renewed in time.
    pub async fn keep(&self, term: &Leadership) {
        let own = term.clone();
        if let Err(error) = self.run(|claim| async move { claim.keep(&own).await }).await {
            tracing::error!(%error, "the Lease is not renewed");
            term.over().await;
        }
    }

    /// Ends the term and gives the Lease back, so that another replica can take it at once. Nothing may be under way.
    pub async fn release(&self, term: &Leadership) {
        let own = term.clone();
        if let Err(error) = self.run(|claim| async move { claim.release(&own).await }).await {
            tracing::warn!(%error, "the Lease is not given back; it expires by itself");
        }
        term.end();
    }

    async fn run<T, F>(&self, work: impl FnOnce(Arc<Claim>) -> F) -> Result<T, Closed>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let work = work(self.claim.clone());
        match &self.desk {
            Some(desk) => desk.run(work).await,
            None => Ok(work.await),
        }
    }
}

impl Claim {
    async fn exists(&self) -> bool {
        self.api.get_opt(&self.office.name).await.is_ok_and(|found| found.is_some())
    }

    async fn elected(&self) -> Leadership {
        let mut told = String::new();
        loop {
            let (news, wait) = match tokio::time::timeout(plain(RENEW_DEADLINE), self.attempt(true)).await {
                Ok(Ok(Attempt::Held { since, .. })) => {
                    tracing::info!(lease = %self.office.name, identity = %self.office.identity, "this replica leads");
                    return Leadership::begun(self.clock.clone(), since);
                }
                Ok(Ok(Attempt::Waiting(wait))) => {
                    (format!("on standby: `{}` leads", self.leader().unwrap_or_default()), wait)
                }
                Ok(Err(error)) => (format!("the Lease cannot be taken: {error}"), RETRY_PERIOD),
                Err(_) => ("the Lease cannot be taken: the server does not answer".to_owned(), RETRY_PERIOD),
            };
            if told != news {
                tracing::info!(lease = %self.office.name, namespace = %self.office.namespace, "{news}");
                told = news;
            }
            tokio::time::sleep(plain(wait)).await;
        }
    }

    async fn keep(&self, term: &Leadership) {
        loop {
            tokio::time::sleep(plain(RETRY_PERIOD)).await;
            let Ok(left) = term.left() else { break };
            let attempt = self.attempt(false);
            match tokio::time::timeout(left.unwrap_or(RELEASE_LIMIT), attempt).await {
                Ok(Ok(Attempt::Held { since, anew: false })) => term.renew(since),
                Ok(Ok(_)) => break,
                Ok(Err(error)) => {
                    tracing::warn!(lease = %self.office.name, %error, "the Lease is not renewed")
                }
                Err(_) => {}
            }
        }
        term.end();
        tracing::warn!(lease = %self.office.name, "this replica does not lead any more");
    }

    async fn release(&self, term: &Leadership) {
        let held = term.left().is_ok();
        term.end();
        if !held {
            return;
        }
        let given_back = async {
            let Some(mut lease) = self.api.get_opt(&self.office.name).await? else { return Ok(()) };
            let Some(spec) = &lease.spec else { return Ok(()) };
            if holder(spec) == Some(&self.office.identity) {
                lease.spec = Some(released(spec, self.clock.now()));
                self.api.replace(&self.office.name, &params(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        match tokio::time::timeout(RELEASE_LIMIT, given_back).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the Lease is not given back; it expires by itself"),
            Err(_) => tracing::warn!("the Lease is not given back; it expires by itself"),
        }
    }

    /// Who holds the Lease, as it was seen last.
    fn leader(&self) -> Option<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().and_then(|(spec, _)| holder(spec)).map(str::to_owned)
    }

    /// Looks at the Lease and takes or renews it if that is allowed. One that is not ours is taken only by those who `may_claim`.
    async fn attempt(&self, may_claim: bool) -> Result<Attempt, kube::Error> {
        let found = self.api.get_opt(&self.office.name).await?;
        let spec = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        let unchanged_for = self.observe(spec.as_ref());
        let decision = decide(spec.as_ref(), unchanged_for, &self.office.identity, self.clock.now());
        let (spec, anew) = match decision {
            Decision::Wait(wait) => return Ok(Attempt::Waiting(wait)),
            Decision::Claim(_) if !may_claim => return Ok(Attempt::Waiting(SignedDuration::ZERO)),
            Decision::Claim(spec) => (spec, true),
            Decision::Renew(spec) => (spec, false),
        };
        let exists = found.is_some();
        let mut lease = found.unwrap_or_default();
        lease.metadata.name = Some(self.office.name.clone());
        lease.metadata.labels.get_or_insert_default().extend(self.office.labels.clone());
        let version = (VERSION_ANNOTATION.to_owned(), self.office.version.clone());
        lease.metadata.annotations.get_or_insert_default().extend([version]);
        lease.spec = Some(spec.clone());
        // Others count from when they see the write, which is never before it was sent.
        let since = Moment::now(&*self.clock);
        match exists {
            // The version that was read makes a write of another replica in between a conflict.
            true => self.api.replace(&self.office.name, &params(), &lease).await?,
            false => self.api.create(&params(), &lease).await?,
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((spec, since));
        Ok(Attempt::Held { since, anew })
    }

    /// Notes the record, and tells for how long it has been the same.
    fn observe(&self, spec: Option<&LeaseSpec>) -> SignedDuration {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*seen, spec) {
            (Some((known, since)), Some(spec)) if known == spec => {
                SignedDuration::try_from(since.elapsed()).unwrap_or(SignedDuration::MAX)
            }
            (_, spec) => {
                *seen = spec.map(|spec| (spec.clone(), Moment::now(&*self.clock)));
                SignedDuration::ZERO
            }
        }
    }
}

fn params() -> PostParams {
    PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }
}

fn plain(duration: SignedDuration) -> Duration {
    Duration::try_from(duration).unwrap_or_default()
}

/// The Leases of a namespace with a label, by name: as they are first, then after every change, for ever. A watch that
/// fails is told in the log and tried again; nothing is known until it succeeds.
pub fn leases(
    client: kube::Client,
    namespace: &str,
    label: &'static str,
) -> BoxStream<'static, BTreeMap<String, Lease>> {
    let api: Api<Lease> = Api::namespaced(client, namespace);
    let namespace = namespace.to_owned();
    let events = kube::runtime::watcher(api, watcher::Config::default().labels(label));
    let events = kube::runtime::WatchStreamExt::default_backoff(events)
        .inspect_err(
            move |error| tracing::warn!(%error, %namespace, "the Leases of agents cannot be watched"),
        )
        .filter_map(async |event| event.ok());
    let state = (BTreeMap::new(), BTreeMap::new());
    let known = events.scan(state, |(known, listed), event| {
        let name = |lease: &Lease| lease.metadata.name.clone().unwrap_or_default();
        let settled = match event {
            Event::Init => {
                listed.clear();
                false
            }
            Event::InitApply(lease) => {
                listed.insert(name(&lease), lease);
                false
            }
            Event::InitDone => {
                *known = std::mem::take(listed);
                true
            }
            Event::Apply(lease) => {
                known.insert(name(&lease), lease);
                true
            }
            Event::Delete(lease) => {
                known.remove(&name(&lease));
                true
            }
        };
        std::future::ready(Some(settled.then(|| known.clone())))
    });
    known.filter_map(std::future::ready).boxed()
}
