//! How values are written, and what a reader takes them for.

use serde_json::Value;

use crate::tree::Style;

/// Writes a string in the style it had before, or else without quotes where no reader can mistake it.
pub(crate) fn write(text: &str, style: Style, flow: bool) -> String {
    match style {
        Style::Single if text.chars().all(|c| !c.is_control() && !is_break(c)) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Style::Empty | Style::Plain | Style::Block if is_plain(text, flow) => text.to_owned(),
        _ => double_quoted(text),
    }
}

/// A string in `"`, the same in YAML and in JSON.
pub(crate) fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || is_break(c) || c == '\u{feff}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)))
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn is_break(c: char) -> bool {
    matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// A string that needs no quotes, by a list of what is surely harmless.
fn is_plain(text: &str, flow: bool) -> bool {
    let harmless = |c: char| {
        c.is_alphanumeric()
            || matches!(c, '.' | '_' | '/' | '-' | '+' | '@' | '(' | ')' | '=' | '$' | '~')
            || (!flow && matches!(c, ':' | ' ' | ','))
    };
    text.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '/' | '.'))
        && text.chars().all(harmless)
        && !text.ends_with([':', ' '])
        && !text.contains(": ")
        && text.contains(char::is_alphanumeric)
        && !is_typed(text)
}

/// Some reader, of YAML 1.1 or 1.2, takes this plain text for something other than a string.
pub(crate) fn is_typed(text: &str) -> bool {
    const WORDS: [&str; 14] =
        ["", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "<<"];
    let lower = text.to_lowercase();
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    WORDS.contains(&unsigned)
        || unsigned == "="
        || is_number(unsigned)
        || is_date(unsigned)
        || is_sexagesimal(unsigned)
}

/// A number of any base, with `_` between digits, a fraction or an exponent. The text is in lower case.
fn is_number(text: &str) -> bool {
    let digits =
        |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c == '_' || c.is_digit(radix));
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            return digits(rest, radix);
        }
    }
    let (mantissa, exponent) = text.split_once('e').map_or((text, None), |(m, e)| (m, Some(e)));
    if let Some(exponent) = exponent {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !digits(exponent, 10) {
            return false;
        }
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let part = |text: &str| text.chars().all(|c| c == '_' || c.is_ascii_digit());
    part(whole) && part(fraction) && mantissa.contains(|c: char| c.is_ascii_digit())
}

/// `2024-01-31`, alone or with a time behind it.
fn is_date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let digits = |part: Option<&str>, most: usize| {
        part.is_some_and(|part| (1..=most).contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit()))
    };
    let (year, month) = (digits(parts.next(), 4), digits(parts.next(), 2));
    let day = parts.next().and_then(|rest| rest.split(['t', ' ', '\t']).next());
    year && month && digits(day, 2)
}

/// `1:30`: ninety to a reader of YAML 1.1.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | '_'))
}

/// What a plain scalar means by the core schema of YAML 1.2.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

fn number(text: &str) -> Option<Value> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix) {
            let digits = rest.chars().all(|c| c.is_digit(radix));
            return u64::from_str_radix(rest, radix).ok().filter(|_| digits).map(Value::from);
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
        && unsigned.contains(|c: char| c.is_ascii_digit());
    if !numeric {
        return None;
    }
    if let Ok(integer) = text.parse::<i64>() {
        return Some(Value::from(integer));
    }
    if let Ok(integer) = text.parse::<u64>() {
        return Some(Value::from(integer));
    }
    let float = text.parse::<f64>().ok()?;
    serde_json::Number::from_f64(float).map(Value::Number)
}
