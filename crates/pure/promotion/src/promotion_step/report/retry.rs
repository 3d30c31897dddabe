//! How long to wait before something is tried again.

use jiff::SignedDuration;

use crate::promotion_step::{Retry, Snapshot};

/// The longest pause between two tries of somebody who cannot be reached, in seconds.
const LONGEST_PAUSE: i64 = 8;
/// The longest pause that another side may ask for.
const LONGEST_RETRY_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// The longest pause after a rate limit that names no time, in milliseconds.
const LONGEST_BACKOFF: i64 = 300_000;
/// No window of a rate limit is longer.
const LONGEST_WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// How long to wait. Somebody who cannot be reached is tried again soon, so that everything goes on right after the
/// return; somebody who limits us is left alone for longer and longer.
pub(super) fn wait(snapshot: &Snapshot<'_>, retry: Retry, attempt: u32) -> SignedDuration {
    match retry {
        Retry::Soon => pause(attempt),
        Retry::After(asked) => asked.clamp(pause(1), LONGEST_RETRY_AFTER),
        Retry::Limited(Some(asked)) => asked.clamp(pause(1), LONGEST_WINDOW),
        Retry::Limited(None) | Retry::Later => backoff(attempt, uid(snapshot)),
    }
}

pub(super) fn uid<'a>(snapshot: &Snapshot<'a>) -> &'a str {
    snapshot.step.metadata.uid.as_deref().unwrap_or_default()
}

/// From one second, doubled each time, to five minutes. Up to half as much again is added, by the step and the
/// attempt, so that those who were limited together do not come back together.
pub(super) fn backoff(attempt: u32, seed: &str) -> SignedDuration {
    let whole = 1000i64.checked_shl(attempt.saturating_sub(1).min(20)).unwrap_or(LONGEST_BACKOFF);
    let whole = whole.min(LONGEST_BACKOFF);
    let start = 0xcbf2_9ce4_8422_2325u64 ^ u64::from(attempt);
    let hash = seed.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let share = i64::try_from((hash >> 32) % 500).unwrap_or(0);
    SignedDuration::from_millis((whole + whole * share / 1000).min(LONGEST_BACKOFF))
}

/// 1, 2, 4 and then 8 seconds.
pub(super) fn pause(attempt: u32) -> SignedDuration {
    let seconds = 1i64.checked_shl(attempt.saturating_sub(1)).unwrap_or(LONGEST_PAUSE);
    SignedDuration::from_secs(seconds.clamp(1, LONGEST_PAUSE))
}
