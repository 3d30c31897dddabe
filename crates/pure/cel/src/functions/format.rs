//! `"…%s…".format([…])`: text with the values of a list written into it.

use std::fmt::Write as _;

use super::no_overload;
use crate::budget::Context;
use crate::fault::{Fault, argument};
use crate::time::text::{format_duration, format_time};
use crate::value::{List, Value};

/// How many digits after the point can be asked for.
const MAX_PRECISION: usize = 100;
/// The digits after the point when none are asked for.
const DEFAULT_PRECISION: usize = 6;

pub(super) fn format<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(template), Value::List(values)] = args else {
        return Err(no_overload("format", args));
    };
    context.charge_bytes(template.len())?;
    let mut out = String::new();
    let mut rest: &str = template;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision_of(after)?;
        let Some(verb) = after.chars().next() else {
            return Err(argument("the format ends after `%`; write `%%` for a percent sign"));
        };
        let value = values.get(next).ok_or_else(|| {
            argument(format!("the format needs value {}, but the list has {}", next + 1, values.len()))
        })?;
        next += 1;
        let length = out.len();
        write_value(context, &mut out, verb, precision, &value)?;
        context.charge_bytes(out.len() - length)?;
        rest = after.get(verb.len_utf8()..).unwrap_or("");
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

fn precision_of(text: &str) -> Result<(Option<usize>, &str), Fault> {
    let Some(rest) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    match digits.parse() {
        Ok(precision) if precision <= MAX_PRECISION => Ok((Some(precision), rest)),
        _ => Err(argument(format!("`%.{digits}`: the precision must be 0 to {MAX_PRECISION}"))),
    }
}

fn write_value(
    context: &mut Context,
    out: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
) -> Result<(), Fault> {
    let precision = precision.unwrap_or(DEFAULT_PRECISION);
    match verb {
        's' => write_text(context, out, value),
        'd' => match value {
            Value::Int(value) => push(out, format_args!("{value}")),
            Value::Uint(value) => push(out, format_args!("{value}")),
            Value::Double(value) if !value.is_finite() => push(out, format_args!("{}", plain(*value))),
            other => Err(wrong_verb(verb, "integers", other)),
        },
        'f' => match number(value) {
            Some(value) if !value.is_finite() => push(out, format_args!("{}", plain(value))),
            Some(value) => push(out, format_args!("{value:.precision$}")),
            None => Err(wrong_verb(verb, "numbers", value)),
        },
        'e' => match number(value) {
            Some(value) if !value.is_finite() => push(out, format_args!("{}", plain(value))),
            Some(value) => push(out, format_args!("{}", scientific(value, precision))),
            None => Err(wrong_verb(verb, "numbers", value)),
        },
        'b' => match value {
            Value::Int(value) => signed(out, *value, format_args!("{:b}", value.unsigned_abs())),
            Value::Uint(value) => push(out, format_args!("{value:b}")),
            Value::Bool(value) => push(out, format_args!("{}", u8::from(*value))),
            other => Err(wrong_verb(verb, "integers and bools", other)),
        },
        'o' => match value {
            Value::Int(value) => signed(out, *value, format_args!("{:o}", value.unsigned_abs())),
            Value::Uint(value) => push(out, format_args!("{value:o}")),
            other => Err(wrong_verb(verb, "integers", other)),
        },
        'x' => write_hex(context, out, value, false),
        'X' => write_hex(context, out, value, true),
        other => Err(argument(format!("`%{other}` is no format; use s, d, f, e, b, o, x or X"))),
    }
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) -> Result<(), Fault> {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(text);
    Ok(())
}

fn signed(out: &mut String, value: i64, digits: std::fmt::Arguments<'_>) -> Result<(), Fault> {
    if value < 0 {
        out.push('-');
    }
    push(out, digits)
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

/// A number in plain notation, with names for those that have no digits.
fn plain(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else {
        format!("{value}")
    }
}

fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn write_hex(context: &mut Context, out: &mut String, value: &Value<'_>, upper: bool) -> Result<(), Fault> {
    let bytes: &[u8] = match value {
        Value::Int(value) if upper => return signed(out, *value, format_args!("{:X}", value.unsigned_abs())),
        Value::Int(value) => return signed(out, *value, format_args!("{:x}", value.unsigned_abs())),
        Value::Uint(value) if upper => return push(out, format_args!("{value:X}")),
        Value::Uint(value) => return push(out, format_args!("{value:x}")),
        Value::String(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        other => return Err(wrong_verb(if upper { 'X' } else { 'x' }, "integers, strings and bytes", other)),
    };
    context.charge_bytes(bytes.len() * 2)?;
    for byte in bytes {
        let _ = if upper { write!(out, "{byte:02X}") } else { write!(out, "{byte:02x}") };
    }
    Ok(())
}

fn write_text(context: &mut Context, out: &mut String, value: &Value<'_>) -> Result<(), Fault> {
    context.charge(1)?;
    match value {
        Value::Null => push(out, format_args!("null")),
        Value::Bool(value) => push(out, format_args!("{value}")),
        Value::Int(value) => push(out, format_args!("{value}")),
        Value::Uint(value) => push(out, format_args!("{value}")),
        Value::Double(value) => push(out, format_args!("{}", plain(*value))),
        Value::String(text) => {
            context.charge_bytes(text.len())?;
            out.push_str(text);
            Ok(())
        }
        Value::Bytes(bytes) => {
            context.charge_bytes(bytes.len())?;
            out.push_str(&String::from_utf8_lossy(bytes));
            Ok(())
        }
        Value::Timestamp(time) => {
            context.clock.note_leaving(0, time.slope(), Some(0), Some(1));
            push(out, format_args!("{}", format_time(*time)))
        }
        Value::Duration(duration) => {
            context.clock.note_leaving(0, duration.slope(), Some(0), Some(1));
            push(out, format_args!("{}", format_duration(*duration)))
        }
        Value::Type(ty) => push(out, format_args!("{}", ty.name())),
        Value::Opaque(opaque) => match opaque.text() {
            Some(text) => push(out, format_args!("{text}")),
            None => Err(wrong_verb('s', "values that have a text", value)),
        },
        Value::List(list) => write_list(context, out, list),
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in map.iter() {
                let mut entry = String::new();
                write_text(context, &mut entry, &key.into_value())?;
                entry.push_str(": ");
                write_text(context, &mut entry, &value)?;
                entries.push(entry);
            }
            entries.sort();
            push(out, format_args!("{{{}}}", entries.join(", ")))
        }
        Value::Optional(_) => Err(wrong_verb('s', "plain values", value)),
    }
}

fn write_list(context: &mut Context, out: &mut String, list: &List<'_>) -> Result<(), Fault> {
    out.push('[');
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write_text(context, out, &item)?;
    }
    out.push(']');
    Ok(())
}

#[cold]
fn wrong_verb(verb: char, takes: &str, value: &Value<'_>) -> Fault {
    argument(format!("`%{verb}` writes {takes}, not {}", value.type_name()))
}
