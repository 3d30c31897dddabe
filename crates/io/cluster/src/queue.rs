//! A work queue keyed by object: one key is never worked on twice at the same time,
//! and a key that is added while it is worked on runs once more afterwards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::clock::Clock;

/// A deduplicating queue with exact wake-up times.
pub struct Queue<K> {
    clock: Arc<dyn Clock>,
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    waiting: BTreeSet<K>,
    running: BTreeSet<K>,
    again: BTreeSet<K>,
    /// The one pending wake-up of a key; a later request replaces it.
    wakes: Timers<K>,
    /// By when a key has to be worked on because of what has happened; nothing but work on it answers that.
    requests: Timers<K>,
}

/// At most one time for each key.
struct Timers<K> {
    of: BTreeMap<K, Timestamp>,
    due: BTreeSet<(Timestamp, K)>,
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty queue on this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Queue<K> {
        let state = State {
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            again: BTreeSet::new(),
            wakes: Timers::new(),
            requests: Timers::new(),
        };
        Queue { clock, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Asks for the key to be worked on as soon as possible.
    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// Asks for the key to be worked on by then, so that what happens until then is looked at together.
    pub fn add_by(&self, key: K, at: Timestamp) {
        self.lock().add_by(key, at);
        self.changed.notify_one();
    }

    /// Sets the key's wake-up; `None` clears it.
    pub fn wake_at(&self, key: K, at: Option<Timestamp>) {
        self.lock().wakes.set(key, at);
        self.changed.notify_one();
    }

    /// Waits for the next key. The caller works on it and then calls [`Queue::done`].
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let due = {
                let mut state = self.lock();
                state.release(self.clock.now());
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.next_due()
            };
            match due {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = self.clock.sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// The work on a key that was handed out begins only now: what was added since then is answered by it.
    pub fn begin(&self, key: &K) {
        let mut state = self.lock();
        state.again.remove(key);
        state.requests.set(key.clone(), None);
    }

    /// Ends the work on a key; if it was added meanwhile it becomes ready again.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.running.remove(key);
        if state.again.remove(key) {
            state.add(key.clone());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Drops the key's wake-up. What was added meanwhile stays: it may be about a new object of the same name.
    pub fn forget(&self, key: &K) {
        self.lock().wakes.set(key.clone(), None);
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // The state is valid after every statement, so a poisoned lock is still good.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K) {
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn add_by(&mut self, key: K, at: Timestamp) {
        let sooner = self.requests.of.get(&key).is_some_and(|known| *known <= at);
        if !sooner && !self.waiting.contains(&key) {
            self.requests.set(key, Some(at));
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        [&self.wakes, &self.requests].into_iter().filter_map(Timers::first).min()
    }

    fn release(&mut self, now: Timestamp) {
        while let Some(key) = self.wakes.pop(now).or_else(|| self.requests.pop(now)) {
            self.add(key);
        }
    }

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.requests.set(key.clone(), None);
        self.running.insert(key.clone());
        Some(key)
    }
}

impl<K: Ord + Clone> Timers<K> {
    fn new() -> Timers<K> {
        Timers { of: BTreeMap::new(), due: BTreeSet::new() }
    }

    fn set(&mut self, key: K, at: Option<Timestamp>) {
        if let Some(old) = self.of.remove(&key) {
            self.due.remove(&(old, key.clone()));
        }
        if let Some(at) = at {
            self.of.insert(key.clone(), at);
            self.due.insert((at, key));
        }
    }

    fn first(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes a key whose time has come.
    fn pop(&mut self, now: Timestamp) -> Option<K> {
        let key = self.due.first().filter(|(at, _)| *at <= now).map(|(_, key)| key.clone())?;
        self.set(key.clone(), None);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;

    /// A clock on tokio's (paused) time.
    struct Paused(tokio::time::Instant);

    impl Clock for Paused {
        fn now(&self) -> Timestamp {
            let elapsed = jiff::SignedDuration::try_from(self.0.elapsed()).unwrap();
            Timestamp::UNIX_EPOCH + elapsed
        }
        fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
            let left = std::time::Duration::try_from(instant.duration_since(self.now())).unwrap_or_default();
            tokio::time::sleep(left).boxed()
        }
    }

    fn queue() -> Queue<&'static str> {
        Queue::new(Arc::new(Paused(tokio::time::Instant::now())))
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_handed_out_once_and_in_order() {
        let queue = queue();
        for key in ["a", "b", "a"] {
            queue.add(key);
        }
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert!(queue.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_running_runs_again_after_done() {
        let queue = queue();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert!(queue.next().now_or_never().is_none(), "never twice at the same time");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_before_the_work_begins_is_answered_by_it() {
        let queue = queue();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        queue.add_by("a", Timestamp::from_second(5).unwrap());
        queue.begin(&"a");
        queue.done(&"a");
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert!(queue.next().now_or_never().is_none());
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.begin(&"a");
        queue.add("a");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a", "what is added later is not");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_up_is_exact_and_the_last_one_wins() {
        let queue = queue();
        let start = tokio::time::Instant::now();
        queue.wake_at("a", Some(Timestamp::from_second(3600).unwrap()));
        queue.wake_at("a", Some(Timestamp::from_second(1800).unwrap()));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 1800);
        queue.done(&"a");
        queue.wake_at("a", Some(Timestamp::from_second(7200).unwrap()));
        queue.wake_at("a", None);
        assert!(queue.next().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_wait_is_looked_at_together_and_never_lost() {
        let queue = queue();
        let start = tokio::time::Instant::now();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        queue.add_by("a", at(5));
        queue.add_by("a", at(9));
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed().as_secs(), 5, "the first request counts");
        queue.add_by("a", at(7));
        queue.wake_at("a", None);
        queue.done(&"a");
        assert_eq!(queue.next().await, "a", "what happened during the work is not cleared by its end");
        queue.done(&"a");
        queue.add_by("a", at(9));
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(queue.next().now_or_never().is_none());
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert!(queue.next().now_or_never().is_none(), "the work has answered the request, too");
    }
}
