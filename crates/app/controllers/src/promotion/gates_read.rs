//! The templates of gates, read past their watch: one that was there before a Bundle must not be missed, and the watch of
//! gates may be behind that of Bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::TryFutureExt as _;
use futures::future::try_join_all;
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate};
use kardinal_cluster::PerNamespace;
use kardinal_promotion::bundle::{GATE_TEMPLATE_LABEL, pipeline_name, searched};

use super::context::PromotionContext;
use crate::reconcile::driver::Key;
use crate::reconcile::objects;

impl PromotionContext {
    /// Reads the templates of gates that count for a Bundle past their watch. After that the watch can only bring later
    /// ones, so once is enough for each namespace: says whether this was the time.
    pub(crate) async fn read_gates(&self, key: &Key, bundle: &Bundle) -> Result<bool, Arc<kube::Error>> {
        let uid = bundle.metadata.uid.as_deref().unwrap_or_default();
        let mut namespaces = self.searched(&key.0, bundle);
        self.gates_read.known().leave(key, uid, &mut namespaces);
        if namespaces.is_empty() {
            return Ok(false);
        }
        let (kind, templates) = (objects::gvk::<PolicyGate>(), format!("!{GATE_TEMPLATE_LABEL}"));
        let reads = namespaces.iter().map(|namespace| {
            let read = self.watches.look_again(&kind, namespace, &templates);
            self.gates_read.shared(namespace, read.map_err(Arc::new))
        });
        try_join_all(reads).await?;
        self.gates_read.known().note(key, uid, namespaces);
        Ok(true)
    }

    /// Where the templates are that count for a Bundle: with the organisation, with the Bundle, and where its Pipeline
    /// says.
    fn searched(&self, namespace: &str, bundle: &Bundle) -> BTreeSet<String> {
        let view = self.watches.view([&objects::gvk::<Pipeline>()]);
        let pipeline =
            pipeline_name(bundle).and_then(|name| objects::get::<Pipeline>(&view, namespace, name));
        let searched = searched(pipeline.as_ref(), namespace, &self.policy_namespaces);
        searched.map(str::to_owned).collect()
    }

    /// The Bundle is gone.
    pub(crate) fn forget_gates(&self, key: &Key) {
        self.gates_read.known().bundles.remove(key);
    }
}

/// What was read, and the reads that are under way. A failure is shared like everything else, so it is one that can be.
pub(crate) struct GatesRead<E = Arc<kube::Error>> {
    known: Mutex<Known>,
    reads: PerNamespace<Reads<E>>,
}

/// The reads of one namespace, which are made one after the other and numbered from 1.
struct Reads<E> {
    /// The newest that has begun.
    begun: AtomicU64,
    /// The newest that has ended, and how. Whoever reads holds it.
    ended: tokio::sync::Mutex<(u64, Result<(), E>)>,
}

impl<E> Default for GatesRead<E> {
    fn default() -> GatesRead<E> {
        GatesRead { known: Mutex::default(), reads: PerNamespace::default() }
    }
}

impl<E: Clone> GatesRead<E> {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a read, unless one of the same namespace has begun since this was called: that one brings the same, or
    /// fails for the same reason. Otherwise all who wait for a server that does not answer would wait for it in turn.
    async fn shared(&self, namespace: &str, read: impl Future<Output = Result<(), E>>) -> Result<(), E> {
        let none = || Reads { begun: AtomicU64::new(0), ended: tokio::sync::Mutex::new((0, Ok(()))) };
        let reads = self.reads.get(namespace, none);
        let before = reads.begun.load(Ordering::SeqCst);
        let mut ended = reads.ended.lock().await;
        if ended.0 > before {
            return ended.1.clone();
        }
        let own = reads.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let brought = read.await;
        *ended = (own, brought.clone());
        brought
    }
}

/// The Bundles whose gates were read past their watch: their uids, and in which namespaces. Where no controller of Bundles
/// runs nobody says which of them are gone, so there is a bound: what is forgotten costs one more read.
#[derive(Default)]
struct Known {
    bundles: BTreeMap<Key, (String, BTreeSet<String>)>,
}

impl Known {
    /// How many are known at the same time.
    const BOUND: usize = 4096;

    /// Leaves only those namespaces where the gates were not read for a Bundle yet.
    fn leave(&self, key: &Key, uid: &str, namespaces: &mut BTreeSet<String>) {
        if let Some((_, read)) = self.bundles.get(key).filter(|(of, _)| of == uid) {
            namespaces.retain(|namespace| !read.contains(namespace));
        }
    }

    fn note(&mut self, key: &Key, uid: &str, namespaces: BTreeSet<String>) {
        if self.bundles.len() >= Known::BOUND {
            self.bundles.clear();
        }
        let (of, read) = self.bundles.entry(key.clone()).or_default();
        if of != uid {
            (*of, *read) = (uid.to_owned(), BTreeSet::new());
        }
        read.extend(namespaces);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_bundles_that_are_gone_has_a_bound() {
        let mut read = Known::default();
        let asked = || BTreeSet::from(["team".to_owned(), "policies".to_owned()]);
        let left = |read: &Known, key: &Key, uid: &str| {
            let mut namespaces = asked();
            read.leave(key, uid, &mut namespaces);
            namespaces.len()
        };
        for number in 0..3 * Known::BOUND {
            let key = ("team".to_owned(), format!("bundle-{number}"));
            assert_eq!(left(&read, &key, "a"), 2);
            read.note(&key, "a", BTreeSet::from(["team".to_owned()]));
            assert_eq!(left(&read, &key, "a"), 1, "the rest is still to be read");
            read.note(&key, "a", asked());
            assert_eq!((left(&read, &key, "a"), left(&read, &key, "another")), (0, 2));
            assert!(read.bundles.len() <= Known::BOUND);
        }
    }

    #[tokio::test]
    async fn those_who_come_while_a_read_is_under_way_share_the_next_one() {
        let reads = GatesRead::default();
        let count = AtomicU64::new(0);
        let (open, gate) = tokio::sync::watch::channel(false);
        let read = || async {
            count.fetch_add(1, Ordering::SeqCst);
            gate.clone().wait_for(|open| *open).await.map(drop).map_err(|_| ())
        };
        let first = reads.shared("team", read());
        // These come after the first has begun, so what it brings may be too old for them.
        let later = async {
            tokio::task::yield_now().await;
            let all = futures::future::join_all((0..5).map(|_| reads.shared("team", read())));
            let opening = async { open.send(true).map_err(|_| ()) };
            let (all, opened) = futures::future::join(all, opening).await;
            all.into_iter().chain([opened]).collect::<Result<Vec<()>, ()>>()
        };
        let (first, later) = futures::future::join(first, later).await;
        assert!(first.is_ok() && later.is_ok());
        assert_eq!(count.load(Ordering::SeqCst), 2);
        reads.shared("elsewhere", read()).await.unwrap();
        reads.shared("team", read()).await.unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 4, "nobody has read since");
    }

    #[tokio::test]
    async fn a_read_that_failed_brings_nothing_to_others() {
        let reads = GatesRead::default();
        let failed = reads.shared("team", async { Err("no answer") });
        let next = reads.shared("team", async { Err("no answer either") });
        let (failed, next) = futures::future::join(failed, next).await;
        assert_eq!((failed, next), (Err("no answer"), Err("no answer either")));
    }

    #[tokio::test]
    async fn those_who_wait_for_a_read_that_fails_learn_it_together() {
        let reads = GatesRead::default();
        let count = AtomicU64::new(0);
        let (open, gate) = tokio::sync::watch::channel(false);
        let read = || async {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = gate.clone().wait_for(|open| *open).await;
            Err("no answer")
        };
        let first = reads.shared("team", read());
        let later = async {
            tokio::task::yield_now().await;
            let all = futures::future::join_all((0..50).map(|_| reads.shared("team", read())));
            let opening = async { open.send(true) };
            futures::future::join(all, opening).await.0
        };
        let (first, later) = futures::future::join(first, later).await;
        assert!(first.is_err() && later.iter().all(Result::is_err));
        assert_eq!(count.load(Ordering::SeqCst), 2, "one for the first and one for all others");
    }
}
