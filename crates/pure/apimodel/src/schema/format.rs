//! The string formats that Kubernetes checks; formats it does not know are ignored, as it does.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use regex::Regex;

/// Whether the text has the named format.
pub(super) fn is_valid(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => duration_seconds(text).is_some(),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "byte" => is_base64(text),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(format, text),
        "hexcolor" => is_hex_color(text),
        "k8s-short-name" => is_short_name(text),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(is_short_name),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$").ok()
    });
    let shaped = SHAPE.as_ref().is_none_or(|shape| shape.is_match(text));
    shaped && text.parse::<jiff::Timestamp>().is_ok()
}

/// The seconds of a duration as Go and Kubernetes write it: `1h30m`, `1.5s`, `300ms`, or in words such as `2 days`.
pub(super) fn duration_seconds(text: &str) -> Option<f64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut total = 0.0;
    let mut parts = 0;
    rest = rest.trim_start();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?.trim_start();
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        total += amount * unit_seconds(rest.get(..letters)?)?;
        rest = rest.get(letters..)?.trim_start();
        parts += 1;
    }
    (parts > 0).then_some(if negative { -total } else { total })
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nano" => 1e-9,
        "us" | "µs" | "μs" | "micro" => 1e-6,
        "ms" | "milli" => 1e-3,
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "wk" | "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

fn is_email(text: &str) -> bool {
    let address = text.rsplit_once('<').and_then(|(_, a)| a.strip_suffix('>')).unwrap_or(text).trim();
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let blank = |part: &str| part.is_empty() || part.chars().any(char::is_whitespace);
    !blank(local)
        && !blank(domain)
        && !domain.starts_with('.')
        && !domain.ends_with('.')
        && !local.contains('@')
}

fn is_hostname(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    !text.is_empty() && text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Ok(bits) = bits.parse::<u8>() else { return false };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_mac(text: &str) -> bool {
    let groups: Vec<&str> = text.split([':', '-']).collect();
    let hex = |part: &&str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    matches!(groups.len(), 6 | 8 | 20) && groups.iter().all(hex)
}

fn is_uri(text: &str) -> bool {
    // Go's `url.ParseRequestURI`: an absolute URI or an absolute path.
    if text.is_empty() || text.chars().any(char::is_control) {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && !rest.is_empty()
}

fn is_base64(text: &str) -> bool {
    STANDARD.decode(text).is_ok() || URL_SAFE.decode(text).is_ok()
}

fn is_uuid(format: &str, text: &str) -> bool {
    let plain: String = text.chars().filter(|c| *c != '-').collect();
    let dashed = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    let version = plain.as_bytes().get(12).copied();
    plain.len() == 32
        && (dashed || text.len() == 32)
        && plain.chars().all(|c| c.is_ascii_hexdigit())
        && match format {
            "uuid3" => version == Some(b'3'),
            "uuid4" => version == Some(b'4'),
            "uuid5" => version == Some(b'5'),
            _ => true,
        }
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_short_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
