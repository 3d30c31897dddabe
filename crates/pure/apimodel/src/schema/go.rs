//! Text as Go writes it, where clients and people compare our messages with those of kube-apiserver, and Go's regular
//! expressions read with Rust's engine.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use serde_json::{Number, Value};

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

/// Compiles a Go regular expression.
///
/// The two dialects agree but for a few things, which are rewritten here: Go's `\d`, `\s`, `\w` and `\b` are ASCII, a
/// `{` that starts no repetition is itself, and so is a `[`, `&`, `~` or `-` inside a class.
pub(super) fn regex(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern)).size_limit(1 << 20).dfa_size_limit(1 << 20).build().map_err(
        |error| {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
        },
    )
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    let mut class = false;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => {
                let next = rest.chars().next();
                rest = rest.get(next.map_or(0, char::len_utf8)..).unwrap_or_default();
                if next == Some('Q') {
                    let (literal, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                    out.push_str(&regex::escape(literal));
                    rest = after;
                } else {
                    escape(&mut out, next, class);
                }
            }
            '[' if class && rest.starts_with(':') => out.push('['),
            '[' if class => out.push_str("\\["),
            '[' => {
                class = true;
                out.push('[');
                // A `]` that opens the class, after an optional `^`, is a member.
                if let Some(after) = rest.strip_prefix('^') {
                    out.push('^');
                    rest = after;
                }
                if let Some(after) = rest.strip_prefix(']') {
                    out.push_str("\\]");
                    rest = after;
                }
            }
            ']' if class && !out.ends_with(':') => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '{' if !class && !is_repetition(rest) => out.push_str("\\{"),
            c => out.push(c),
        }
    }
    out
}

fn escape(out: &mut String, next: Option<char>, class: bool) {
    match next {
        Some('d') => out.push_str("[0-9]"),
        Some('D') => out.push_str("[^0-9]"),
        Some('w') => out.push_str("[0-9A-Za-z_]"),
        Some('W') => out.push_str("[^0-9A-Za-z_]"),
        Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
        Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
        Some('b') if !class => out.push_str("(?-u:\\b)"),
        Some('C') if !class => out.push('.'),
        Some(c) => {
            out.push('\\');
            out.push(c);
        }
        None => out.push('\\'),
    }
}

/// Whether what follows a `{` is `3}`, `3,}` or `3,5}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.split_once('}') else { return false };
    let (low, high) = inside.split_once(',').unwrap_or((inside, ""));
    !low.is_empty() && low.bytes().chain(high.bytes()).all(|b| b.is_ascii_digit())
}
