//! How often a host may be asked: a bucket of tokens, and the waits that it asked for. Pure: time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What one host allows.
#[derive(Debug)]
pub(super) struct Budget {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    counted_at: Instant,
    /// Asked for by the host for everybody.
    closed_until: Option<Instant>,
    /// Asked for by the host for one account.
    accounts: HashMap<u64, Instant>,
}

/// Whether to ask now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Ask.
    Go,
    /// Not before this has passed.
    Wait(Duration),
}

/// Whom a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// Everybody who asks this host.
    Everybody,
    /// One account.
    Account(u64),
}

impl Budget {
    pub(super) fn new(capacity: u32, per_second: u32, now: Instant) -> Budget {
        let capacity = f64::from(capacity);
        let per_second = f64::from(per_second.max(1));
        Budget {
            capacity,
            per_second,
            tokens: capacity,
            counted_at: now,
            closed_until: None,
            accounts: HashMap::new(),
        }
    }

    /// Takes one token for this account, or says how long to wait; nothing is taken then.
    pub(super) fn take(&mut self, account: u64, now: Instant) -> Ruling {
        self.accounts.retain(|_, until| *until > now);
        let closed = self.closed_until.into_iter().chain(self.accounts.get(&account).copied()).max();
        if let Some(until) = closed.filter(|until| *until > now) {
            return Ruling::Wait(until - now);
        }
        let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.capacity);
        self.counted_at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ruling::Go;
        }
        Ruling::Wait(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second))
    }

    /// The host asked for a pause. A longer one that it asked for earlier stays.
    pub(super) fn pause(&mut self, whom: Whom, wait: Duration, now: Instant) {
        let until = now + wait;
        match whom {
            Whom::Everybody => self.closed_until = self.closed_until.max(Some(until)),
            Whom::Account(account) => {
                let known = self.accounts.entry(account).or_insert(until);
                *known = (*known).max(until);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let start = Instant::now();
        let mut budget = Budget::new(3, 2, start);
        for _ in 0..3 {
            assert_eq!(budget.take(1, start), Ruling::Go);
        }
        let Ruling::Wait(wait) = budget.take(1, start) else { panic!("the bucket is empty") };
        assert_eq!(wait, Duration::from_millis(500));
        assert_eq!(budget.take(1, start + wait), Ruling::Go);
        let Ruling::Wait(_) = budget.take(1, start + wait) else { panic!("empty again") };
        // After a long rest the bucket is full, not fuller.
        let later = start + 3600 * SECOND;
        for _ in 0..3 {
            assert_eq!(budget.take(1, later), Ruling::Go);
        }
        assert_ne!(budget.take(1, later), Ruling::Go);
    }

    #[test]
    fn a_limited_account_does_not_stop_the_others() {
        let start = Instant::now();
        let mut budget = Budget::new(10, 10, start);
        budget.pause(Whom::Account(1), 60 * SECOND, start);
        budget.pause(Whom::Account(1), 5 * SECOND, start);
        assert_eq!(budget.take(1, start + 10 * SECOND), Ruling::Wait(50 * SECOND), "the longer wait counts");
        assert_eq!(budget.take(2, start + 10 * SECOND), Ruling::Go);
        assert_eq!(budget.take(1, start + 60 * SECOND), Ruling::Go);
    }

    #[test]
    fn a_closed_host_stops_everybody() {
        let start = Instant::now();
        let mut budget = Budget::new(10, 10, start);
        budget.pause(Whom::Everybody, 2 * SECOND, start);
        assert_eq!(budget.take(1, start + SECOND), Ruling::Wait(SECOND));
        assert_eq!(budget.take(2, start + SECOND), Ruling::Wait(SECOND));
        assert_eq!(budget.take(2, start + 2 * SECOND), Ruling::Go);
    }
}
