//! The one door to the time of day.
//!
//! Nothing else in this crate asks for the current time, except certificates, whose validity is judged by the
//! peers' real clocks.

use jiff::Timestamp;

/// Where timestamps on objects come from.
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// The computer's own clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that follows tokio's time from a fixed start: under a paused runtime it moves with virtual time.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `start` now and then moves with tokio's clock.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> TokioClock {
        TokioClock { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed =
            jiff::SignedDuration::try_from(self.origin.elapsed()).unwrap_or(jiff::SignedDuration::MAX);
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}
