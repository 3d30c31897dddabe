//! Text as Go writes it, where clients and people compare our messages with those of kube-apiserver; and Go's regular
//! expressions, run by Rust's engine.

mod regexp;

use std::fmt::Write as _;

use serde_json::{Number, Value};

pub(super) use self::regexp::regex;

/// A string in Go's `%q`.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => drop(write!(out, "\\x{:02x}", c as u32)),
            c if c.is_control() => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// How much of a bad value an error repeats, in characters.
const SHOWN: usize = 1024;

/// A bad value as a field error shows it: strings quoted, everything else as JSON, the end cut off when it is long.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => match text.char_indices().nth(SHOWN) {
            Some((end, _)) => {
                format!("{}… ({} bytes)", quote(text.get(..end).unwrap_or_default()), text.len())
            }
            None => quote(text),
        },
        Value::Number(n) => number(n),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()),
                None => text,
            }
        }
    }
}

/// A number in Go's `%v`.
pub(super) fn number(n: &Number) -> String {
    if n.is_f64() { float(n.as_f64().unwrap_or_default()) } else { n.to_string() }
}

/// A floating point number in Go's `%v`: with an exponent from a million on and below a ten-thousandth.
pub(super) fn float(f: f64) -> String {
    let text = format!("{f:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return f.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
