//! Reading and writing timestamps (RFC 3339) and durations (the notation of Go). Nothing here looks at a clock.

use std::fmt::Write as _;

use super::civil::{DAY, civil_from_seconds, days_from_civil, days_in_month};
use super::{Duration, SECOND, Time};
use crate::budget::excerpt;
use crate::fault::{Fault, argument, overflow};

/// Reads `2026-01-31T12:00:00.5Z` or the same with an offset such as `+02:00`.
pub(crate) fn parse_time(text: &str) -> Result<Time, Fault> {
    let nanos = time_nanos(text).ok_or_else(|| {
        argument(format!("`{}` is not a timestamp; write it like `2026-01-31T12:00:00Z`", excerpt(text)))
    })?;
    Time::from_nanos(nanos, 0)
}

fn time_nanos(text: &str) -> Option<i128> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    symbol(&mut rest, "-")?;
    let month = digits(&mut rest, 2)?;
    symbol(&mut rest, "-")?;
    let day = digits(&mut rest, 2)?;
    symbol(&mut rest, "T")?;
    let hour = digits(&mut rest, 2)?;
    symbol(&mut rest, ":")?;
    let minute = digits(&mut rest, 2)?;
    symbol(&mut rest, ":")?;
    let second = digits(&mut rest, 2)?;
    let nanos = if symbol(&mut rest, ".").is_some() { fraction(&mut rest)? } else { 0 };
    let offset = offset_seconds(rest)?;
    let in_range = (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
    if !in_range || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let seconds = days_from_civil(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(i128::from(seconds) * SECOND + i128::from(nanos))
}

fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    if head.bytes().all(|byte| byte.is_ascii_digit()) { head.parse().ok() } else { None }
}

fn symbol(rest: &mut &str, expected: &str) -> Option<()> {
    *rest = rest.strip_prefix(expected)?;
    Some(())
}

/// The digits after a decimal point as nanoseconds; digits past the ninth are dropped.
fn fraction(rest: &mut &str) -> Option<i64> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (head, tail) = rest.split_at_checked(end)?;
    *rest = tail;
    if head.is_empty() {
        return None;
    }
    let mut nanos = 0;
    for place in 0..9 {
        let digit = head.as_bytes().get(place).map_or(0, |byte| i64::from(byte - b'0'));
        nanos = nanos * 10 + digit;
    }
    Some(nanos)
}

fn offset_seconds(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let mut rest = text;
    let sign = if symbol(&mut rest, "+").is_some() {
        1
    } else {
        symbol(&mut rest, "-")?;
        -1
    };
    let hours = digits(&mut rest, 2)?;
    symbol(&mut rest, ":")?;
    let minutes = digits(&mut rest, 2)?;
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Writes a timestamp in UTC, with as many digits after the second as it needs.
pub(crate) fn format_time(time: Time) -> String {
    let civil = civil_from_seconds(time.seconds());
    let (hour, minute, second) =
        (civil.second_of_day / 3600, civil.second_of_day / 60 % 60, civil.second_of_day % 60);
    let mut out =
        format!("{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}", civil.year, civil.month, civil.day);
    push_fraction(&mut out, time.subsecond());
    out.push('Z');
    out
}

fn push_fraction(out: &mut String, nanos: u32) {
    if nanos > 0 {
        let digits = format!("{nanos:09}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// Writes a duration in seconds: `90s`, `-0.5s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let mut out = String::new();
    if nanos < 0 {
        out.push('-');
    }
    let size = nanos.unsigned_abs();
    let _ = write!(out, "{}", size / SECOND.unsigned_abs());
    push_fraction(&mut out, (size % SECOND.unsigned_abs()) as u32);
    out.push('s');
    out
}

/// Reads a duration in the notation of Go: `1h30m`, `-1.5s`, `250ms`, `0`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, Fault> {
    let malformed = || {
        argument(format!("`{}` is not a duration; write it like `1h30m`, `45s` or `250ms`", excerpt(text)))
    };
    let (sign, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (-1, text.get(1..).unwrap_or("")),
        Some(b'+') => (1, text.get(1..).unwrap_or("")),
        _ => (1, text),
    };
    if rest == "0" {
        return Duration::from_nanos(0, 0);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (nanos, tail) = duration_term(rest).ok_or_else(malformed)?;
        total = total.checked_add(nanos).ok_or_else(|| overflow("duration out of range"))?;
        rest = tail;
    }
    Duration::from_nanos(sign * total, 0)
}

/// One number with its unit, in nanoseconds, and what follows it.
fn duration_term(text: &str) -> Option<(i128, &str)> {
    let mut rest = text;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let (whole, tail) = rest.split_at_checked(end)?;
    rest = tail;
    let mut fraction = "";
    if let Some(tail) = rest.strip_prefix('.') {
        let end = tail.find(|c: char| !c.is_ascii_digit())?;
        (fraction, rest) = tail.split_at_checked(end)?;
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
    let (unit, tail) = rest.split_at_checked(end)?;
    let unit: i128 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    };
    // Nineteen digits are past the range of a duration in any unit, so what is longer is only told to be too large.
    let whole: i128 = match whole.trim_start_matches('0') {
        "" => 0,
        long if long.len() > 19 => i128::from(u64::MAX),
        short => short.parse().ok()?,
    };
    let mut nanos = whole * unit;
    let mut place = unit;
    for digit in fraction.bytes() {
        // Below a tenth of a nanosecond nothing is left to add.
        let part = i128::from(digit - b'0') * place / 10;
        nanos += part;
        place /= 10;
        if place == 0 {
            break;
        }
    }
    Some((nanos, tail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Option<String> {
        parse_time(text).ok().map(format_time)
    }

    fn duration(text: &str) -> Option<String> {
        parse_duration(text).ok().map(format_duration)
    }

    #[test]
    fn timestamps() {
        for (text, expected) in [
            ("2026-01-31T12:00:00Z", Some("2026-01-31T12:00:00Z")),
            ("2026-01-31T12:00:00.120Z", Some("2026-01-31T12:00:00.12Z")),
            ("2026-01-31T12:00:00.1234567891Z", Some("2026-01-31T12:00:00.123456789Z")),
            ("2026-01-31T12:00:00+02:30", Some("2026-01-31T09:30:00Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("0001-01-01T00:00:00+00:01", None),
            ("9999-12-31T23:59:59.999999999Z", Some("9999-12-31T23:59:59.999999999Z")),
            ("2024-02-29T00:00:00Z", Some("2024-02-29T00:00:00Z")),
            ("2026-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-31T24:00:00Z", None),
            ("2026-01-31T12:00:60Z", None),
            ("2026-01-31T12:00:00", None),
            ("2026-01-31T12:00:00.Z", None),
            ("2026-01-31T12:00:00+2:00", None),
            ("2026-01-31 12:00:00Z", None),
            ("+026-01-31T12:00:00Z", None),
            ("2026-01-31T12:00:00Zé", None),
            ("", None),
        ] {
            assert_eq!(time(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("0", Some("0s")),
            ("-0", Some("0s")),
            ("1h30m", Some("5400s")),
            ("1.5h", Some("5400s")),
            ("-1.5s", Some("-1.5s")),
            ("+10ms", Some("0.01s")),
            (".5s", Some("0.5s")),
            ("5.s", Some("5s")),
            ("1us2ns", Some("0.000001002s")),
            ("1µs", Some("0.000001s")),
            ("0.0000000009s", Some("0s")),
            ("9223372036s", Some("9223372036s")),
            ("9223372037s", None),
            ("99999999999999999999999h", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1d", None),
            ("1h ", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(duration(text).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_written_reads_back(nanos in any::<i64>(), seconds in -62_135_596_800_i64..253_402_300_800, part in 0_i128..SECOND) {
            let length = Duration::from_nanos(i128::from(nanos), 0).unwrap();
            prop_assert_eq!(parse_duration(&format_duration(length)).unwrap().as_nanos(), i128::from(nanos));
            let instant = Time::from_nanos(i128::from(seconds) * SECOND + part, 0).unwrap();
            prop_assert_eq!(parse_time(&format_time(instant)).unwrap().as_nanos(), instant.as_nanos());
        }

        #[test]
        fn no_text_is_too_strange(text in "[0-9TZ:.+\\-hmsnuµd ]{0,40}") {
            let _ = (parse_time(&text), parse_duration(&text));
        }
    }
}
