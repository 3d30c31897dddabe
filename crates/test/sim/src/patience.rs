//! A clock that loses its patience when it is asked again and again without time going by: in virtual time whoever
//! is busy for nothing is busy for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use futures::future::BoxFuture;
use jiff::Timestamp;
use kardinal_cluster::Clock;
use kardinal_testkit::clock::VirtualClock;
use tokio::sync::Notify;

/// So often the clock may be asked at one and the same time.
const PATIENCE: u64 = 200_000;

/// The clock of the controllers.
#[derive(Clone)]
pub(crate) struct PatientClock {
    clock: VirtualClock,
    asked: Arc<Asked>,
}

#[derive(Default)]
struct Asked {
    at: AtomicI64,
    times: AtomicU64,
    enough: Notify,
}

impl PatientClock {
    pub(crate) fn new(clock: VirtualClock) -> PatientClock {
        PatientClock { clock, asked: Arc::default() }
    }

    /// Returns when the clock has lost its patience.
    pub(crate) async fn enough(&self) {
        self.asked.enough.notified().await;
    }
}

impl Clock for PatientClock {
    fn now(&self) -> Timestamp {
        let now = Clock::now(&self.clock);
        let at = now.as_millisecond();
        if self.asked.at.swap(at, Ordering::Relaxed) != at {
            self.asked.times.store(0, Ordering::Relaxed);
        }
        if self.asked.times.fetch_add(1, Ordering::Relaxed) == PATIENCE {
            self.asked.enough.notify_one();
        }
        now
    }

    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(instant)
    }
}
