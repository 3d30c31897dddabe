//! What an answer's headers say about asking again. Pure: time is an argument.

use std::time::Duration;

use ::http::{HeaderMap, StatusCode};
use jiff::Timestamp;

use super::budget::Whom;

/// A wait that the host asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) whom: Whom,
    /// How long; absent: it named no time.
    pub(super) wait: Option<Duration>,
    /// The request itself was refused because of it, instead of merely being the last one allowed.
    pub(super) refused: bool,
}

/// No forge's window is longer than an hour; a header that says more is wrong.
const LONGEST: Duration = Duration::from_secs(3600);

/// The pause that an answer asks for, if any.
pub(super) fn pause(
    status: StatusCode,
    headers: &HeaderMap,
    message: &str,
    account: u64,
    now: Timestamp,
) -> Option<Pause> {
    let asked = retry_after(headers, now);
    let used_up = text(headers, "x-ratelimit-remaining").is_some_and(|remaining| remaining == "0");
    let reset = if used_up { reset(headers, now) } else { None };
    let account = Whom::Account(account);
    let lower = message.to_lowercase();
    let says_limit = lower.contains("rate limit") || lower.contains("abuse detection");
    let pause = |whom, wait: Option<Duration>, refused| {
        Some(Pause { whom, wait: wait.map(|wait| wait.min(LONGEST)), refused })
    };
    match status {
        StatusCode::TOO_MANY_REQUESTS => pause(account, asked.or(reset), true),
        StatusCode::FORBIDDEN if asked.is_some() || used_up || says_limit => {
            pause(account, asked.or(reset), true)
        }
        status if status.is_server_error() => asked.and_then(|wait| pause(Whom::Everybody, Some(wait), true)),
        status if status.is_success() => reset.and_then(|wait| pause(account, Some(wait), false)),
        _ => None,
    }
}

/// `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(until(date, now))
}

/// `X-RateLimit-Reset`, in seconds of the epoch.
fn reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let second = text(headers, "x-ratelimit-reset")?.parse::<i64>().ok()?;
    Some(until(Timestamp::from_second(second).ok()?, now))
}

fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn answer(status: u16, headers: &[(&'static str, &str)], message: &str) -> Option<Pause> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        pause(StatusCode::from_u16(status).unwrap(), &map, message, 7, NOW)
    }

    fn account(seconds: u64, refused: bool) -> Option<Pause> {
        Some(Pause { whom: Whom::Account(7), wait: Some(Duration::from_secs(seconds)), refused })
    }

    fn unnamed() -> Option<Pause> {
        Some(Pause { whom: Whom::Account(7), wait: None, refused: true })
    }

    #[test]
    fn limits_are_understood() {
        let used_up = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000090")];
        let left = [("x-ratelimit-remaining", "12"), ("x-ratelimit-reset", "1800000090")];
        let date = [("retry-after", "Fri, 15 Jan 2027 08:00:30 GMT")];
        let secondary = "You have exceeded a secondary rate limit. Please wait.";
        assert_eq!(answer(429, &[("retry-after", "30")], ""), account(30, true));
        assert_eq!(answer(429, &date, ""), account(30, true));
        assert_eq!(answer(429, &[], ""), unnamed());
        assert_eq!(answer(429, &used_up, ""), account(90, true));
        assert_eq!(answer(403, &used_up, ""), account(90, true));
        assert_eq!(answer(403, &left, secondary), unnamed());
        assert_eq!(answer(403, &[("retry-after", "5")], secondary), account(5, true));
        assert_eq!(answer(200, &used_up, ""), account(90, false));
        let everybody = Pause { whom: Whom::Everybody, wait: Some(Duration::from_secs(9)), refused: true };
        assert_eq!(answer(503, &[("retry-after", "9")], ""), Some(everybody));
    }

    #[test]
    fn a_wrong_clock_or_header_does_not_stop_us_for_long() {
        let far = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9999999999")];
        let past = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")];
        assert_eq!(answer(429, &far, ""), account(3600, true));
        assert_eq!(answer(429, &past, ""), account(0, true));
        assert_eq!(answer(429, &[("retry-after", "soon")], ""), unnamed());
    }

    #[test]
    fn ordinary_answers_ask_for_nothing() {
        assert_eq!(answer(200, &[], "rate limit"), None);
        assert_eq!(
            answer(200, &[("x-ratelimit-remaining", "12"), ("x-ratelimit-reset", "1800000090")], ""),
            None
        );
        assert_eq!(answer(403, &[("x-ratelimit-remaining", "12")], "Resource not accessible by token"), None);
        assert_eq!(answer(404, &[("retry-after", "9")], ""), None);
        assert_eq!(answer(502, &[], ""), None);
    }
}
