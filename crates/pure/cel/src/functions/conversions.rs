//! Conversions between scalar types. Converting a moving timestamp tells the clock how long the result holds.

use super::{Library, global, no_overload};
use crate::budget::{Context, excerpt};
use crate::fault::{Fault, argument, overflow};
use crate::time::text::{format_duration, format_time};
use crate::time::{SECOND, Time};
use crate::value::Value;

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("bool", 1, to_bool),
        global("int", 1, to_int),
        global("uint", 1, to_uint),
        global("double", 1, to_double),
        global("string", 1, to_text),
        global("bytes", 1, to_bytes),
    ],
};

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

fn to_bool<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(*value)),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            other => Err(argument(format!("`{}` is not a bool; use `true` or `false`", excerpt(other)))),
        },
        _ => Err(no_overload("bool", args)),
    }
}

fn to_int<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(*value)),
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| out_of_range("int")),
        [Value::Double(value)] => {
            if *value > -TWO_TO_63 && *value < TWO_TO_63 {
                Ok(Value::Int(*value as i64))
            } else {
                Err(out_of_range("int"))
            }
        }
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            text.parse().map(Value::Int).map_err(|_| not_a("an int", text))
        }
        [Value::Timestamp(time)] => Ok(Value::Int(whole_seconds(context, *time))),
        _ => Err(no_overload("int", args)),
    }
}

fn whole_seconds(context: &mut Context, time: Time) -> i64 {
    let low = i128::from(time.seconds()) * SECOND;
    context.clock.note_leaving(time.as_nanos(), time.slope(), Some(low), Some(low + SECOND));
    time.seconds()
}

fn to_uint<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| out_of_range("uint")),
        [Value::Double(value)] => {
            if *value >= 0.0 && *value < TWO_TO_64 {
                Ok(Value::Uint(*value as u64))
            } else {
                Err(out_of_range("uint"))
            }
        }
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            text.parse().map(Value::Uint).map_err(|_| not_a("a uint", text))
        }
        _ => Err(no_overload("uint", args)),
    }
}

fn to_double<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            text.parse().map(Value::Double).map_err(|_| not_a("a double", text))
        }
        _ => Err(no_overload("double", args)),
    }
}

fn to_text<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    Ok(match args {
        [value @ Value::String(_)] => value.clone(),
        [Value::Bool(value)] => Value::text(if *value { "true" } else { "false" }),
        [Value::Int(value)] => Value::text(value.to_string()),
        [Value::Uint(value)] => Value::text(value.to_string()),
        [Value::Double(value)] => Value::text(double_to_text(*value)),
        [Value::Bytes(bytes)] => {
            context.charge_bytes(bytes.len())?;
            match std::str::from_utf8(bytes) {
                Ok(text) => Value::text(text),
                Err(_) => return Err(argument("the bytes are not valid UTF-8, so they are no string")),
            }
        }
        [Value::Timestamp(time)] => {
            let nanos = time.as_nanos();
            context.clock.note_leaving(nanos, time.slope(), Some(nanos), Some(nanos + 1));
            Value::text(format_time(*time))
        }
        [Value::Duration(duration)] => {
            let nanos = duration.as_nanos();
            context.clock.note_leaving(nanos, duration.slope(), Some(nanos), Some(nanos + 1));
            Value::text(format_duration(*duration))
        }
        [Value::Opaque(value)] => match value.text() {
            Some(text) => Value::text(text),
            None => return Err(no_overload("string", args)),
        },
        _ => return Err(no_overload("string", args)),
    })
}

fn to_bytes<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(no_overload("bytes", args)),
    }
}

/// The shortest text that reads back as the same number: plain between a ten-thousandth and a million, and with an
/// exponent outside of that, as other implementations of the language print it.
pub(crate) fn double_to_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cold]
fn out_of_range(ty: &str) -> Fault {
    overflow(format!("the number is out of the range of {ty}"))
}

#[cold]
fn not_a(what: &str, text: &str) -> Fault {
    argument(format!("`{}` is not {what}", excerpt(text)))
}
