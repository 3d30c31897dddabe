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
    /// How often in a row the host has limited an account without naming a time.
    strikes: HashMap<u64, u32>,
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
            strikes: HashMap::new(),
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

    /// The host has limited an account and named no time: how long it is left alone, longer each time in a row.
    pub(super) fn limited(&mut self, account: u64) -> Duration {
        let strikes = self.strikes.entry(account).or_default();
        *strikes = strikes.saturating_add(1);
        backoff(*strikes, account)
    }

    /// The host has answered an account.
    pub(super) fn answered(&mut self, account: u64) {
        self.strikes.remove(&account);
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

/// From one second, doubled each time, to five minutes; up to half as much again is added, so that those who were
/// limited together do not come back together.
fn backoff(strike: u32, account: u64) -> Duration {
    const LONGEST: u64 = 300_000;
    let whole = 1000u64.checked_shl(strike.saturating_sub(1).min(20)).unwrap_or(LONGEST).min(LONGEST);
    let mut hash = account ^ u64::from(strike).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    let extra = (whole / 2).max(1);
    Duration::from_millis((whole + hash % extra).min(LONGEST))
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
    fn rate_limits_back_off_from_1_s_to_5_min_with_jitter() {
        let mut budget = Budget::new(10, 10, Instant::now());
        let waits: Vec<Duration> = (0..12).map(|_| budget.limited(7)).collect();
        for (strike, wait) in waits.iter().enumerate() {
            let least = Duration::from_secs(300.min(1 << strike));
            assert!(*wait >= least && *wait <= (least * 3 / 2).min(300 * SECOND), "{strike}: {wait:?}");
        }
        assert_eq!(waits[11], 300 * SECOND);
        assert_ne!(budget.limited(8), waits[0], "accounts do not come back together");
        budget.answered(7);
        assert_eq!(budget.limited(7), waits[0], "an answer ends it");
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
