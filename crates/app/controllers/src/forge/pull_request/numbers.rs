//! Who may give a number, and what this process remembers of those that it has given.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;

use crate::reconcile::driver::Key;
use crate::reconcile::objects::lock;
use crate::reconcile::pass::Turn;

/// The numbers of one repository.
pub(crate) struct Numbers {
    /// Which one.
    pub(super) repository: Key,
    turn: Arc<Semaphore>,
    /// The highest one that this process gave. Where the repository is not on disk, and a status was written without an
    /// answer, nobody else knows of it.
    highest: AtomicU64,
}

impl Numbers {
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

/// A number that a pull request was given.
#[derive(Clone)]
pub(crate) struct Given {
    /// The uid of the pull request.
    pub(super) to: String,
    /// The number.
    pub(super) number: u64,
}

/// The numbers of all repositories that have pull requests.
#[derive(Default)]
pub(super) struct Repositories {
    of: Mutex<BTreeMap<Key, Weak<Numbers>>>,
}

impl Repositories {
    /// Those of one repository; they are the same as long as one of its pull requests is remembered.
    pub(super) fn of(&self, repository: Key) -> Arc<Numbers> {
        let mut all = lock(&self.of);
        if let Some(numbers) = all.get(&repository).and_then(Weak::upgrade) {
            return numbers;
        }
        all.retain(|_, numbers| numbers.strong_count() > 0);
        let (turn, highest) = (Arc::new(Semaphore::new(1)), AtomicU64::default());
        let numbers = Arc::new(Numbers { repository: repository.clone(), turn, highest });
        all.insert(repository, Arc::downgrade(&numbers));
        numbers
    }
}
