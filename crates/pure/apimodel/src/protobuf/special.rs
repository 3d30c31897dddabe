//! Messages whose JSON form is not an object of their fields. Null stands for a value that JSON leaves out.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::wire::{Reader, Wire};
use super::{Fault, text};

/// The first second of year 1, before which RFC 3339 has no way to write a time.
const YEAR_ONE: i64 = -62_135_596_800;

/// A message with a form of its own in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// JSON as text, of any kind.
    Json,
}

impl Special {
    /// The special form of the message of that name, if it has one.
    pub(super) fn named(message: &str) -> Option<Special> {
        Some(match message {
            "meta/v1.Time" => Special::Time,
            "meta/v1.MicroTime" => Special::MicroTime,
            "meta/v1.Duration" => Special::Duration,
            "resource.Quantity" => Special::Quantity,
            "intstr.IntOrString" => Special::IntOrString,
            "meta/v1.FieldsV1" | "runtime.RawExtension" | "apiextensions/v1.JSON" => Special::Json,
            _ => return None,
        })
    }

    /// Reads the message.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Value, Fault> {
        // None of them has more than three fields.
        let (mut first, mut second, mut third) = (None, None, None);
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next()? {
            match number {
                1 => first = Some(wire),
                2 => second = Some(wire),
                3 => third = Some(wire),
                _ => {}
            }
        }
        let number = |wire: Option<Wire<'_>>| wire.map_or(Ok(0), |wire| wire.varint().map(u64::cast_signed));
        match self {
            // The zero time is written as nothing at all, 1970 as a zero.
            Special::Time | Special::MicroTime if bytes.is_empty() => Ok(Value::Null),
            Special::Time => time(number(first)?, None),
            Special::MicroTime => time(number(first)?, Some(number(second)?)),
            Special::Duration => Ok(Value::String(duration(number(first)?))),
            Special::Quantity => match first.map_or(Ok(""), text)? {
                "" => Ok(Value::String("0".to_owned())),
                quantity => Ok(Value::String(quantity.to_owned())),
            },
            Special::IntOrString => match number(first)? {
                0 => Ok(second.map_or(Ok(0), Wire::int32)?.into()),
                1 => Ok(third.map_or(Ok(""), text)?.into()),
                _ => Err(Fault::new("the type must be 0 for a number or 1 for text")),
            },
            Special::Json => match first.map_or(Ok(&[][..]), Wire::block)? {
                [] => Ok(Value::Null),
                json => {
                    serde_json::from_slice(json).map_err(|_| Fault::new("the embedded JSON is not valid"))
                }
            },
        }
    }
}

/// Whole seconds, or always six digits after the point.
fn time(seconds: i64, nanoseconds: Option<i64>) -> Result<Value, Fault> {
    let wrong =
        || Fault::new("the time must be in the years 1 to 9999 with less than a second of nanoseconds");
    let fraction = match nanoseconds {
        None => 0,
        Some(nanoseconds @ 0..1_000_000_000) => i32::try_from(nanoseconds).map_err(|_| wrong())?,
        Some(_) => return Err(wrong()),
    };
    if seconds < YEAR_ONE {
        return Err(wrong());
    }
    let time = Timestamp::new(seconds, fraction).map_err(|_| wrong())?;
    Ok(Value::String(match nanoseconds {
        None => time.to_string(),
        Some(_) => format!("{time:.6}"),
    }))
}

/// A length of time as Go writes it: `1h0m0.5s`, `1.5ms`.
pub(super) fn duration(nanoseconds: i64) -> String {
    let size = nanoseconds.unsigned_abs();
    let mut text = if nanoseconds < 0 { "-".to_owned() } else { String::new() };
    match size {
        0 => text.push_str("0s"),
        1..1_000 => text.push_str(&format!("{size}ns")),
        1_000..1_000_000 => text.push_str(&decimal(size, 1_000, 3, "µs")),
        1_000_000..1_000_000_000 => text.push_str(&decimal(size, 1_000_000, 6, "ms")),
        _ => {
            let minutes = size / 60_000_000_000;
            // Writing to a string cannot fail.
            if minutes >= 60 {
                let _ = write!(text, "{}h", minutes / 60);
            }
            if minutes > 0 {
                let _ = write!(text, "{}m", minutes % 60);
            }
            text.push_str(&decimal(size % 60_000_000_000, 1_000_000_000, 9, "s"));
        }
    }
    text
}

/// `size` in units of `unit` nanoseconds, without zeros at the end.
fn decimal(size: u64, unit: u64, digits: usize, name: &str) -> String {
    let fraction = format!("{:0digits$}", size % unit);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{name}", size / unit),
        fraction => format!("{}.{fraction}{name}", size / unit),
    }
}
