//! Timestamps and durations: making them and asking for their parts.

use super::{Call, Function, Library, global, no_overload};
use crate::budget::Context;
use crate::fault::Fault;
use crate::time::text::{parse_duration, parse_time};
use crate::time::zone::{Part, Zone, part_of};
use crate::time::{Duration, SECOND, Time};
use crate::value::Value;

/// A getter of timestamps, with and without a zone.
macro_rules! getter {
    ($name:literal, $part:expr, $unit:expr) => {{
        const CALL: Call = |context, args| get(context, args, $name, $part, $unit);
        Function { name: $name, receiver: true, least: 1, most: Some(2), call: CALL }
    }};
}

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("timestamp", 1, timestamp),
        global("duration", 1, duration),
        getter!("getFullYear", Part::FullYear, None),
        getter!("getMonth", Part::Month, None),
        getter!("getDate", Part::Date, None),
        getter!("getDayOfMonth", Part::DayOfMonth, None),
        getter!("getDayOfWeek", Part::DayOfWeek, None),
        getter!("getDayOfYear", Part::DayOfYear, None),
        getter!("getHours", Part::Hours, Some(3600 * SECOND)),
        getter!("getMinutes", Part::Minutes, Some(60 * SECOND)),
        getter!("getSeconds", Part::Seconds, Some(SECOND)),
        getter!("getMilliseconds", Part::Milliseconds, Some(SECOND / 1000)),
    ],
};

fn timestamp<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => Time::from_seconds(*seconds).map(Value::Timestamp),
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            parse_time(text).map(Value::Timestamp)
        }
        _ => Err(no_overload("timestamp", args)),
    }
}

fn duration<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            parse_duration(text).map(Value::Duration)
        }
        _ => Err(no_overload("duration", args)),
    }
}

/// A part of a timestamp, or a duration in whole units.
fn get<'a>(
    context: &mut Context,
    args: &[Value<'a>],
    name: &str,
    part: Part,
    unit: Option<i128>,
) -> Result<Value<'a>, Fault> {
    let part = match (args, unit) {
        ([Value::Timestamp(time)], _) => part_of(&mut context.clock, *time, &Zone::Offset(0), part),
        ([Value::Timestamp(time), Value::String(zone)], _) => {
            context.charge_bytes(zone.len())?;
            part_of(&mut context.clock, *time, &Zone::parse(zone)?, part)
        }
        ([Value::Duration(duration)], Some(unit)) => whole_units(context, *duration, unit, part),
        _ => return Err(no_overload(name, args)),
    };
    Ok(Value::Int(part))
}

/// How many whole units a duration has, rounded towards zero; of milliseconds only those within the second.
fn whole_units(context: &mut Context, duration: Duration, unit: i128, part: Part) -> i64 {
    let nanos = duration.as_nanos();
    let whole = nanos / unit;
    let (low, high) = match whole {
        0 => (1 - unit, unit),
        1.. => (whole * unit, (whole + 1) * unit),
        _ => ((whole - 1) * unit + 1, whole * unit + 1),
    };
    context.clock.note_leaving(nanos, duration.slope(), Some(low), Some(high));
    let whole = if part == Part::Milliseconds { whole % 1000 } else { whole };
    i64::try_from(whole).unwrap_or(i64::MAX)
}
