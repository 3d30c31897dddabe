//! Timestamps and durations as expressions see them, and the clock that knows when a result will change.
//!
//! A time value derived from `now()` moves: besides its value at this instant it carries a slope, the nanoseconds it
//! gains per nanosecond that passes. Whoever turns a moving value into something that does not move (a comparison, a
//! getter, a conversion) tells the [`Clock`] how long the answer holds. The clock itself never looks at a real one.

pub(crate) mod civil;
pub(crate) mod text;
pub(crate) mod zone;

use crate::fault::{Fault, overflow};

/// Nanoseconds in a second.
pub(crate) const SECOND: i128 = 1_000_000_000;
/// How far ahead changes are looked for; what lies beyond is as good as never.
pub(crate) const HORIZON: i128 = 100 * 366 * 86_400 * SECOND;
/// The largest slope that is followed.
const MAX_SLOPE: i32 = 1_000_000;
/// The first second of year 1.
const MIN_SECONDS: i64 = -62_135_596_800;
/// The last second of year 9999.
const MAX_SECONDS: i64 = 253_402_300_799;

/// An instant between year 1 and year 9999, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    seconds: i64,
    nanos: u32,
    slope: i32,
}

/// A length of time of up to 292 years, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Duration {
    nanos: i64,
    slope: i32,
}

impl Time {
    /// An instant that was computed, if it is in range; the clock is told when it will not be.
    pub(crate) fn computed(clock: &mut Clock, nanos: i128, slope: i32) -> Result<Time, Fault> {
        let low = i128::from(MIN_SECONDS) * SECOND;
        let high = i128::from(MAX_SECONDS + 1) * SECOND;
        clock.note_leaving(nanos, slope, Some(low), Some(high));
        Time::from_nanos(nanos, slope)
    }

    /// The instant `nanos` nanoseconds after the beginning of 1970, if it is in range.
    pub(crate) fn from_nanos(nanos: i128, slope: i32) -> Result<Time, Fault> {
        let seconds = i64::try_from(nanos.div_euclid(SECOND)).unwrap_or(i64::MAX);
        Time::new(seconds, nanos.rem_euclid(SECOND) as u32, slope)
    }

    /// The instant so many seconds after the beginning of 1970, if it is in range.
    pub(crate) fn from_seconds(seconds: i64) -> Result<Time, Fault> {
        Time::new(seconds, 0, 0)
    }

    fn new(seconds: i64, nanos: u32, slope: i32) -> Result<Time, Fault> {
        if (MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            Ok(Time { seconds, nanos, slope })
        } else {
            Err(overflow("timestamp out of range: it must lie between year 1 and year 9999"))
        }
    }

    /// The same instant as this crate's callers hold it.
    pub fn from_timestamp(at: jiff::Timestamp) -> Time {
        let nanos = at.as_nanosecond();
        Time { seconds: nanos.div_euclid(SECOND) as i64, nanos: nanos.rem_euclid(SECOND) as u32, slope: 0 }
    }

    /// The instant for callers of this crate; what lies past their range is taken as its end.
    pub fn to_timestamp(self) -> jiff::Timestamp {
        clamp(self.as_nanos())
    }

    /// Nanoseconds since the beginning of 1970.
    pub(crate) fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanos)
    }

    /// Whole seconds since the beginning of 1970, rounded down.
    pub(crate) fn seconds(self) -> i64 {
        self.seconds
    }

    /// The nanoseconds within the second.
    pub(crate) fn subsecond(self) -> u32 {
        self.nanos
    }

    /// What it gains per nanosecond that passes.
    pub(crate) fn slope(self) -> i32 {
        self.slope
    }
}

impl Duration {
    /// A length that was computed, if it is in range; the clock is told when it will not be.
    pub(crate) fn computed(clock: &mut Clock, nanos: i128, slope: i32) -> Result<Duration, Fault> {
        clock.note_leaving(nanos, slope, Some(i128::from(i64::MIN)), Some(i128::from(i64::MAX) + 1));
        Duration::from_nanos(nanos, slope)
    }

    /// So many nanoseconds, if they are in range.
    pub(crate) fn from_nanos(nanos: i128, slope: i32) -> Result<Duration, Fault> {
        match i64::try_from(nanos) {
            Ok(nanos) => Ok(Duration { nanos, slope }),
            Err(_) => Err(overflow("duration out of range: it may span at most 292 years")),
        }
    }

    /// A length as this crate's callers hold it; what is past the range of a duration is taken as its end.
    pub fn from_signed_duration(length: jiff::SignedDuration) -> Duration {
        let end = if length.is_negative() { i64::MIN } else { i64::MAX };
        Duration { nanos: i64::try_from(length.as_nanos()).unwrap_or(end), slope: 0 }
    }

    /// The same length as this crate's callers hold it.
    pub fn to_signed_duration(self) -> jiff::SignedDuration {
        jiff::SignedDuration::from_nanos(self.nanos)
    }

    /// The length in nanoseconds.
    pub(crate) fn as_nanos(self) -> i128 {
        i128::from(self.nanos)
    }

    /// What it gains per nanosecond that passes.
    pub(crate) fn slope(self) -> i32 {
        self.slope
    }
}

/// `now()` of one evaluation, and the first instant after it at which something that was asked may answer differently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    now: i128,
    /// Nanoseconds from `now` to the earliest known change.
    next: Option<i128>,
    watching: bool,
}

impl Clock {
    /// A clock that stands at `now`; a watching one keeps the instants at which answers change.
    pub(crate) fn new(now: i128, watching: bool) -> Clock {
        Clock { now, next: None, watching }
    }

    /// The value of `now()`.
    pub(crate) fn now(&self) -> Result<Time, Fault> {
        Time::from_nanos(self.now, i32::from(self.watching))
    }

    /// The earliest change noted, in nanoseconds since the beginning of 1970.
    pub(crate) fn next_change(&self) -> Option<i128> {
        self.next.map(|after| self.now + after)
    }

    /// Notes that something changes `after` nanoseconds from now.
    pub(crate) fn note(&mut self, after: i128) {
        if after > 0 && self.next.is_none_or(|known| after < known) {
            self.next = Some(after);
        }
    }

    /// Notes when a value that moves from `value` with `slope` leaves `low..high`. A missing bound is never crossed.
    pub(crate) fn note_leaving(&mut self, value: i128, slope: i32, low: Option<i128>, high: Option<i128>) {
        let speed = i128::from(slope.unsigned_abs());
        let distance = match slope {
            0 => return,
            1.. => high.map(|high| high - value),
            _ => low.map(|low| value - low + 1),
        };
        if let Some(distance) = distance {
            self.note((distance.max(1) + speed - 1) / speed);
        }
    }

    /// Notes when the order of two moving values changes, given their difference and the difference of their slopes.
    pub(crate) fn note_order(&mut self, difference: i128, slope: i32) {
        let (low, high) = match difference {
            0 => (Some(0), Some(1)),
            1.. => (Some(1), None),
            _ => (None, Some(0)),
        };
        self.note_leaving(difference, slope, low, high);
    }

    /// Adds two slopes. A sum beyond reason is replaced by a note that everything may change at once.
    pub(crate) fn add_slopes(&mut self, left: i32, right: i32) -> i32 {
        let sum = left.saturating_add(right);
        if (-MAX_SLOPE..=MAX_SLOPE).contains(&sum) {
            return sum;
        }
        self.note(1);
        1
    }
}

/// The nearest instant that callers of this crate can hold.
pub(crate) fn clamp(nanos: i128) -> jiff::Timestamp {
    let limit = if nanos < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    jiff::Timestamp::from_nanosecond(nanos).unwrap_or(limit)
}
