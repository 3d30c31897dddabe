//! Clocks for scenarios.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::Clock;
use tokio::sync::watch;

/// Follows tokio's time from a fixed start; under a paused runtime it is virtual.
#[derive(Clone, Copy)]
pub struct VirtualClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl VirtualClock {
    /// Shows `start` now.
    pub fn starting_at(start: Timestamp) -> VirtualClock {
        VirtualClock { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.start + SignedDuration::try_from(self.origin.elapsed()).unwrap_or_default()
    }

    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
        let left = Duration::try_from(instant.duration_since(self.now())).unwrap_or_default();
        // Tokio's timer counts milliseconds; waking a hair early would only mean another pass.
        Box::pin(tokio::time::sleep(left + Duration::from_millis(1)))
    }
}

impl kardinal_apiserver::Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Clock::now(self)
    }
}

/// The machine's clock, moved ahead by as much as the scenario says.
#[derive(Clone)]
pub struct ShiftedClock {
    shift: watch::Sender<SignedDuration>,
}

impl ShiftedClock {
    /// Shows the machine's time.
    pub fn new() -> ShiftedClock {
        ShiftedClock { shift: watch::Sender::new(SignedDuration::ZERO) }
    }

    /// Moves the clock ahead; whoever sleeps looks again.
    pub fn advance(&self, by: SignedDuration) {
        self.shift.send_modify(|shift| *shift += by);
    }
}

impl Default for ShiftedClock {
    fn default() -> ShiftedClock {
        ShiftedClock::new()
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + *self.shift.borrow()
    }

    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        let mut shift = self.shift.subscribe();
        Box::pin(async move {
            loop {
                let left = Duration::try_from(instant.duration_since(clock.now())).unwrap_or_default();
                if left.is_zero() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    _ = shift.changed() => {}
                }
            }
        })
    }
}
