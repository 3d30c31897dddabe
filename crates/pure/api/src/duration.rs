//! Durations as people write them in manifests: `90s`, `5m`, `1h30m`, the notation of Go.
//!
//! The text is kept as written, so that an object that is read and written back does not change.

use std::borrow::Cow;
use std::fmt;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What [`GoDuration::parse`] accepts, as the regular expression that the schemas carry.
const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";
/// Longer than any duration that fits the type.
const MAX_LENGTH: usize = 64;

/// The units, longest name first where one is the start of another.
const UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A duration in Go notation, for example `5m` or `1h30m`.
///
/// Any text can be held, because objects that were stored before a schema existed must still be readable;
/// [`GoDuration::parse`] says whether it means anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GoDuration(String);

/// The text of a duration field is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a duration: write a number and a unit (ns, us, ms, s, m, h), such as `5m` or `1h30m`"
)]
pub struct InvalidDuration {
    /// What was written.
    pub text: String,
}

impl GoDuration {
    /// Keeps the text as it is.
    pub fn new(text: impl Into<String>) -> GoDuration {
        GoDuration(text.into())
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The duration that the text stands for. Signs and bare numbers are refused, as the schemas refuse them.
    pub fn parse(&self) -> Result<SignedDuration, InvalidDuration> {
        parse(&self.0).ok_or_else(|| InvalidDuration { text: self.0.clone() })
    }
}

fn parse(text: &str) -> Option<SignedDuration> {
    if text.is_empty() || text.len() > MAX_LENGTH {
        return None;
    }
    let mut rest = text;
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest)?;
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => split_digits(after)?,
            None => ("", after),
        };
        let (unit, after) =
            UNITS.iter().find_map(|(name, unit)| after.strip_prefix(name).map(|after| (*unit, after)))?;
        total = total.checked_add(whole.parse::<i128>().ok()?.checked_mul(unit)?)?;
        total = total.checked_add(fraction_of(fraction, unit)?)?;
        rest = after;
    }
    let seconds = i64::try_from(total.checked_div(1_000_000_000)?).ok()?;
    let nanoseconds = i32::try_from(total.checked_rem(1_000_000_000)?).ok()?;
    Some(SignedDuration::new(seconds, nanoseconds))
}

/// The nanoseconds in `0.<digits>` of a unit, cut off below one nanosecond.
fn fraction_of(digits: &str, unit: i128) -> Option<i128> {
    let mut place = unit;
    let mut total: i128 = 0;
    let mut value: i128 = 0;
    let mut scale: i128 = 1;
    for digit in digits.bytes() {
        if place == 0 {
            break;
        }
        place /= 10;
        scale = scale.checked_mul(10)?;
        value = value.checked_mul(10)?.checked_add(i128::from(digit.checked_sub(b'0')?))?;
        total = value.checked_mul(unit)?.checked_div(scale)?;
    }
    Some(total)
}

fn split_digits(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SignedDuration> for GoDuration {
    /// The shortest form in whole units; negative durations become `0s`, for no manifest may hold one.
    fn from(duration: SignedDuration) -> GoDuration {
        let total = duration.as_nanos().max(0);
        if total == 0 {
            return GoDuration("0s".to_owned());
        }
        let mut text = String::new();
        let mut rest = total;
        for (name, unit) in [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)]
            .into_iter()
            .chain([("ms", 1_000_000), ("us", 1_000), ("ns", 1)])
        {
            let count = rest / unit;
            rest %= unit;
            if count > 0 {
                text.push_str(&format!("{count}{name}"));
            }
        }
        GoDuration(text)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN, "maxLength": MAX_LENGTH })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `nanoseconds` is `None` where the text must be refused.
    fn check(text: &str, nanoseconds: Option<i128>) {
        assert_eq!(GoDuration::new(text).parse().ok().map(|d| d.as_nanos()), nanoseconds, "{text}");
    }

    #[test]
    fn go_notation_is_read() {
        check("0s", Some(0));
        check("5m", Some(300_000_000_000));
        check("4m12s", Some(252_000_000_000));
        check("1h30m", Some(5_400_000_000_000));
        check("1.5h", Some(5_400_000_000_000));
        check("0.1s", Some(100_000_000));
        check("1.0000000004s", Some(1_000_000_000));
        check("250ms", Some(250_000_000));
        check("3us", Some(3_000));
        check("3µs", Some(3_000));
        check("7ns", Some(7));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "5", "m", "-5m", "+5m", "5 m", "5m ", "1.h", ".5h", "5d", "five", "5mm", "1e3s"] {
            check(text, None);
        }
        check(&"9".repeat(60), None);
        check(&format!("{}h", "9".repeat(40)), None);
        check(&"1s".repeat(40), None);
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_read_back(nanoseconds in 0_i64..i64::MAX) {
            let duration = SignedDuration::from_nanos(nanoseconds);
            prop_assert_eq!(GoDuration::from(duration).parse(), Ok(duration));
        }
    }
}
