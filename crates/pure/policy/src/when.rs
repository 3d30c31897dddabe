//! Points in time as people write them, and time zones by name. The zone data is the bundled copy, never the
//! machine's.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const WEEKDAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];

/// The time zone of this name, such as `UTC` or `Europe/Berlin`.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    DATABASE.get(name).map_err(|_| {
        let shown: String = name.chars().take(64).collect();
        format!("`{shown}` is not a time zone: use a name such as `UTC` or `Europe/Berlin`")
    })
}

/// The instant that a text means: `now`, RFC 3339, a date with or without a time (`2026-04-11 15:00`), or the next such
/// day and time from now on (`Saturday 3pm`, `tomorrow 9:30`, `today`, `15:00`). What names no offset is local time of
/// the zone; a day without a time means its beginning, and an hour that the zone skips or repeats is taken as the
/// clocks show it first.
pub fn parse_when(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    let local = written_date(text).or_else(|| from_now(text, &now.to_zoned(zone.clone()).datetime()));
    let instant = local.and_then(|local| zone.to_ambiguous_timestamp(local).compatible().ok());
    instant.ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        format!("`{shown}` is not a time: write `Saturday 3pm`, `2026-04-11 15:00` or `2026-04-11T15:00:00Z`")
    })
}

/// `2026-04-11`, `2026-04-11 15:00`, `2026-04-11 3pm`
fn written_date(text: &str) -> Option<DateTime> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, clock_time(time)?),
        None => (text, Time::midnight()),
    };
    let shaped = date.len() == 10 && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    Some(date.parse::<Date>().ok().filter(|_| shaped)?.to_datetime(time))
}

/// `Saturday 3pm`, `tomorrow`, `15:00`: the first such time that is not before now.
fn from_now(text: &str, now: &DateTime) -> Option<DateTime> {
    if let Some(time) = clock_time(text) {
        let today = now.date().to_datetime(time);
        return if today >= *now { Some(today) } else { today.checked_add(1.day()).ok() };
    }
    let (day, time) = match text.split_once(char::is_whitespace) {
        Some((day, time)) => (day, clock_time(time)?),
        None => (text, Time::midnight()),
    };
    let day = day.to_ascii_lowercase();
    let days = match day.as_str() {
        "today" => 0,
        "tomorrow" => 1,
        _ => {
            let (_, weekday) =
                WEEKDAYS.iter().find(|(name, _)| *name == day || name.get(..3) == Some(day.as_str()))?;
            let ahead = i64::from(now.weekday().until(*weekday));
            let passed = ahead == 0 && now.date().to_datetime(time) < *now;
            if passed { 7 } else { ahead }
        }
    };
    now.date().checked_add(days.days()).ok().map(|date| date.to_datetime(time))
}

/// `3pm`, `3:30 pm`, `15:00`, `15:00:30`
fn clock_time(text: &str) -> Option<Time> {
    let text = text.trim().to_ascii_lowercase();
    let (digits, half) = match (text.strip_suffix("am"), text.strip_suffix("pm")) {
        (Some(digits), _) => (digits, Some(0)),
        (_, Some(digits)) => (digits, Some(12)),
        _ => (text.as_str(), None),
    };
    let mut numbers = Vec::new();
    for part in digits.trim().split(':') {
        let plain = matches!(part.len(), 1 | 2) && part.bytes().all(|byte| byte.is_ascii_digit());
        numbers.push(part.parse::<i8>().ok().filter(|_| plain)?);
    }
    let (hour, minute, second) = match (numbers.as_slice(), half) {
        ([hour], Some(_)) => (*hour, 0, 0),
        ([hour, minute], _) => (*hour, *minute, 0),
        ([hour, minute, second], _) => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(half) => hour % 12 + half,
    };
    Time::new(hour, minute, second, 0).ok()
}
