//! Time as an argument: controllers ask this clock and no other.

use futures::future::BoxFuture;
use jiff::Timestamp;

/// The clock that every controller is given.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// Returns once `now()` has reached `instant`.
    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()>;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn sleep_until(&self, instant: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The wall clock may be set back while we sleep, so the goal is checked again on waking.
            loop {
                let left = instant.duration_since(Timestamp::now());
                let Ok(left) = std::time::Duration::try_from(left) else { return };
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        })
    }
}
