//! Time zones by name or offset, and what a timestamp looks like in them. The zone data is the bundled copy, never the
//! machine's, so that every machine gives the same answer.

use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::civil::{Civil, DAY, civil_from_seconds, days_from_civil};
use super::{Clock, SECOND, Time, clamp};
use crate::budget::excerpt;
use crate::fault::{Fault, argument};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Where local time is asked for.
pub(crate) enum Zone {
    /// So many seconds east of Greenwich, always.
    Offset(i64),
    /// A zone whose offset changes over the years.
    Named(TimeZone),
}

/// A part of a local date or time that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    FullYear,
    Month,
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl Zone {
    /// Reads `UTC`, an IANA name such as `Europe/Vienna`, or an offset such as `+02:00`.
    pub(crate) fn parse(text: &str) -> Result<Zone, Fault> {
        if text.is_empty() || text == "UTC" {
            return Ok(Zone::Offset(0));
        }
        if text.contains(':') {
            return parse_offset(text).map(Zone::Offset).ok_or_else(|| unknown_zone(text));
        }
        DATABASE.get(text).map(Zone::Named).map_err(|_| unknown_zone(text))
    }

    /// Seconds to add to get local time at `seconds` after 1970.
    fn offset_at(&self, seconds: i64) -> i64 {
        match self {
            Zone::Offset(offset) => *offset,
            Zone::Named(zone) => i64::from(zone.to_offset(clamp(i128::from(seconds) * SECOND)).seconds()),
        }
    }

    /// The instants between which the offset at `seconds` is known to hold.
    fn steady_range(&self, seconds: i64) -> (Option<i128>, Option<i128>) {
        let Zone::Named(zone) = self else { return (None, None) };
        let at = clamp(i128::from(seconds) * SECOND);
        let before = at.checked_add(jiff::SignedDuration::from_nanos(1)).unwrap_or(at);
        let low = zone.preceding(before).next().map(|change| change.timestamp().as_nanosecond());
        let high = zone.following(at).next().map(|change| change.timestamp().as_nanosecond());
        (low, high)
    }
}

fn unknown_zone(text: &str) -> Fault {
    let name = excerpt(text);
    argument(format!(
        "`{name}` is not a time zone; use a name such as `Europe/Vienna` or an offset such as `+02:00`"
    ))
}

fn parse_offset(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, text.get(1..)?),
        b'+' => (1, text.get(1..)?),
        _ => (1, text),
    };
    let (hours, minutes) = digits.split_once(':')?;
    let number = |text: &str| -> Option<i64> {
        let plain = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// One part of the local date or time, telling the clock how long the answer holds when the timestamp moves.
pub(crate) fn part_of(clock: &mut Clock, time: Time, zone: &Zone, part: Part) -> i64 {
    let offset = zone.offset_at(time.seconds());
    let local = time.seconds() + offset;
    let civil = civil_from_seconds(local);
    if time.slope() != 0 {
        let (low, high) = unit_around(part, local, civil, time.subsecond());
        let shift = i128::from(offset) * SECOND;
        let (steady_low, steady_high) = zone.steady_range(time.seconds());
        let low = steady_low.map_or(low - shift, |steady| steady.max(low - shift));
        let high = steady_high.map_or(high - shift, |steady| steady.min(high - shift));
        clock.note_leaving(time.as_nanos(), time.slope(), Some(low), Some(high));
    }
    value_of(part, local, civil, time.subsecond())
}

fn value_of(part: Part, local: i64, civil: Civil, subsecond: u32) -> i64 {
    let days = local.div_euclid(DAY);
    match part {
        Part::FullYear => civil.year,
        Part::Month => civil.month - 1,
        Part::Date => civil.day,
        Part::DayOfMonth => civil.day - 1,
        // 1970-01-01 was a Thursday.
        Part::DayOfWeek => (days + 4).rem_euclid(7),
        Part::DayOfYear => days - days_from_civil(civil.year, 1, 1),
        Part::Hours => civil.second_of_day / 3600,
        Part::Minutes => civil.second_of_day / 60 % 60,
        Part::Seconds => civil.second_of_day % 60,
        Part::Milliseconds => i64::from(subsecond / 1_000_000),
    }
}

/// The local nanoseconds between which the part keeps its value.
fn unit_around(part: Part, local: i64, civil: Civil, subsecond: u32) -> (i128, i128) {
    let whole = |seconds: i64| {
        let low = local - local.rem_euclid(seconds);
        (i128::from(low) * SECOND, i128::from(low + seconds) * SECOND)
    };
    let between = |low: i64, high: i64| (i128::from(low * DAY) * SECOND, i128::from(high * DAY) * SECOND);
    match part {
        Part::FullYear => between(days_from_civil(civil.year, 1, 1), days_from_civil(civil.year + 1, 1, 1)),
        Part::Month => {
            let first = days_from_civil(civil.year, civil.month, 1);
            between(first, days_from_civil(civil.year, civil.month + 1, 1))
        }
        Part::Date | Part::DayOfMonth | Part::DayOfWeek | Part::DayOfYear => whole(DAY),
        Part::Hours => whole(3600),
        Part::Minutes => whole(60),
        Part::Seconds => whole(1),
        Part::Milliseconds => {
            let low = i128::from(local) * SECOND + i128::from(subsecond / 1_000_000) * 1_000_000;
            (low, low + 1_000_000)
        }
    }
}
