//! Who gives the pull requests of a repository their numbers: one at a time, and never the same one twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;

use crate::reconcile::driver::Key;
use crate::reconcile::objects::lock;
use crate::reconcile::pass::Turn;

/// Who gives numbers in one repository.
pub(crate) struct Issuer {
    /// Which one.
    pub(super) repository: Key,
    turn: Arc<Semaphore>,
    /// The highest one that this process gave. Where the repository is not on disk, and a status was written without an
    /// answer, nobody else knows of it.
    highest: AtomicU64,
}

impl Issuer {
    /// Waits until nobody else works on a pull request of the repository.
    pub(super) async fn turn(&self) -> Turn {
        self.turn.clone().acquire_owned().await.ok()
    }

    /// One was given.
    pub(super) fn give(&self, number: u64) {
        self.highest.fetch_max(number, Ordering::Relaxed);
    }

    /// The highest one that this process gave.
    pub(super) fn highest(&self) -> Option<u64> {
        Some(self.highest.load(Ordering::Relaxed)).filter(|highest| *highest > 0)
    }
}

/// Those of all repositories that have pull requests.
#[derive(Default)]
pub(super) struct Issuers {
    of: Mutex<BTreeMap<Key, Weak<Issuer>>>,
}

impl Issuers {
    /// That of one repository; it is the same as long as one of its pull requests is remembered.
    pub(super) fn of(&self, repository: Key) -> Arc<Issuer> {
        let mut all = lock(&self.of);
        if let Some(issuer) = all.get(&repository).and_then(Weak::upgrade) {
            return issuer;
        }
        all.retain(|_, issuer| issuer.strong_count() > 0);
        let (turn, highest) = (Arc::new(Semaphore::new(1)), AtomicU64::default());
        let issuer = Arc::new(Issuer { repository: repository.clone(), turn, highest });
        all.insert(repository, Arc::downgrade(&issuer));
        issuer
    }
}
