//! Strings by code points. Parts of borrowed strings stay borrowed.

use std::fmt::Write as _;
use std::ops::Range;

use super::format::format;
use super::{Library, global, method, method_between, no_overload};
use crate::budget::Context;
use crate::fault::{Fault, argument, mismatch};
use crate::value::{Text, Value};

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        method("charAt", 1, char_at),
        method_between("indexOf", 1, 2, index_of),
        method_between("lastIndexOf", 1, 2, last_index_of),
        method("lowerAscii", 0, lower_ascii),
        method("upperAscii", 0, upper_ascii),
        method_between("replace", 2, 3, replace),
        method_between("split", 1, 2, split),
        method_between("substring", 1, 2, substring),
        method("trim", 0, trim),
        method_between("join", 0, 1, join),
        method("format", 1, format),
        global("strings.quote", 1, quote),
    ],
};

/// A part of a text; only parts of texts that the expression built are copied.
fn part<'a>(text: &Text<'a>, range: Range<usize>) -> Text<'a> {
    match text {
        Text::Borrowed(text) => Text::Borrowed(text.get(range).unwrap_or("")),
        Text::Shared(text) => Text::Shared(text.get(range).unwrap_or("").into()),
    }
}

/// The byte offset of a code point; the one past the last is the length.
fn offset_of(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let mut offsets = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
    offsets.nth(index)
}

fn checked_offset(name: &str, text: &str, index: i64) -> Result<usize, Fault> {
    offset_of(text, index).ok_or_else(|| {
        let length = text.chars().count();
        argument(format!("`{name}`: position `{index}` is out of range of a string of {length} characters"))
    })
}

fn char_at<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(no_overload("charAt", args)) };
    context.charge_bytes(text.len())?;
    let start = checked_offset("charAt", text, *index)?;
    let length = text.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
    Ok(Value::String(part(text, start..start + length)))
}

fn count_before(text: &str, end: usize) -> Value<'static> {
    Value::Int(text.get(..end).unwrap_or("").chars().count() as i64)
}

fn index_of<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, sought, from) = match args {
        [Value::String(text), Value::String(sought)] => (text, sought, 0),
        [Value::String(text), Value::String(sought), Value::Int(from)] => (text, sought, *from),
        _ => return Err(no_overload("indexOf", args)),
    };
    context.charge_bytes(text.len() + sought.len())?;
    let start = checked_offset("indexOf", text, from)?;
    Ok(match text.get(start..).and_then(|rest| rest.find(&**sought)) {
        Some(found) => count_before(text, start + found),
        None => Value::Int(-1),
    })
}

fn last_index_of<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, sought, start) = match args {
        [Value::String(text), Value::String(sought)] => (text, sought, text.len()),
        [Value::String(text), Value::String(sought), Value::Int(from)] => {
            context.charge_bytes(text.len())?;
            (text, sought, checked_offset("lastIndexOf", text, *from)?)
        }
        _ => return Err(no_overload("lastIndexOf", args)),
    };
    context.charge_bytes(text.len() + sought.len())?;
    // A match that begins at the start position may reach past it by its own length.
    let end = text.floor_char_boundary((start + sought.len()).min(text.len()));
    Ok(match text.get(..end).and_then(|head| head.rfind(&**sought)) {
        Some(found) => count_before(text, found),
        None => Value::Int(-1),
    })
}

fn lower_ascii<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text)] = args else { return Err(no_overload("lowerAscii", args)) };
    context.charge_bytes(text.len())?;
    Ok(Value::text(text.to_ascii_lowercase()))
}

fn upper_ascii<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text)] = args else { return Err(no_overload("upperAscii", args)) };
    context.charge_bytes(text.len())?;
    Ok(Value::text(text.to_ascii_uppercase()))
}

fn replace<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, *limit)
        }
        _ => return Err(no_overload("replace", args)),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    context.charge_bytes(text.len() + old.len())?;
    let count = text.matches(&**old).take(limit).count();
    if count == 0 {
        return Ok(Value::String(text.clone()));
    }
    context.charge_bytes(count.saturating_mul(new.len()))?;
    Ok(Value::text(text.replacen(&**old, new, count)))
}

fn split<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(no_overload("split", args)),
    };
    context.charge_bytes(text.len() + separator.len())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut items = Vec::new();
    let mut start = 0;
    while items.len() + 1 < limit {
        let rest = text.get(start..).unwrap_or("");
        // An empty separator splits between characters.
        let (found, skipped) = match rest.chars().next() {
            Some(first) if separator.is_empty() => {
                let length = first.len_utf8();
                (Some(length).filter(|length| *length < rest.len()), 0)
            }
            _ => (rest.find(&**separator).filter(|_| !separator.is_empty()), separator.len()),
        };
        let Some(found) = found else { break };
        context.charge(1)?;
        items.push(Value::String(part(text, start..start + found)));
        start += found + skipped;
    }
    let nothing = separator.is_empty() && text.is_empty();
    if limit > 0 && !nothing {
        items.push(Value::String(part(text, start..text.len())));
    }
    Ok(Value::list(items))
}

fn substring<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload("substring", args)),
    };
    context.charge_bytes(text.len())?;
    let from = checked_offset("substring", text, start)?;
    let to = match end {
        Some(end) => checked_offset("substring", text, end)?,
        None => text.len(),
    };
    if from > to {
        let end = end.unwrap_or(0);
        return Err(argument(format!(
            "`substring` from `{start}` to `{end}`: the end lies before the start"
        )));
    }
    Ok(Value::String(part(text, from..to)))
}

fn trim<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text)] = args else { return Err(no_overload("trim", args)) };
    context.charge_bytes(text.len())?;
    let start = text.len() - text.trim_start().len();
    Ok(Value::String(part(text, start..start + text.trim().len())))
}

/// The code points of a string in reverse order.
pub(super) fn reversed_text<'a>(context: &mut Context, text: &Text<'a>) -> Result<Value<'a>, Fault> {
    context.charge_bytes(text.len())?;
    Ok(Value::text(text.chars().rev().collect::<String>()))
}

fn join<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(no_overload("join", args)),
    };
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        let Value::String(text) = &item else {
            return Err(mismatch(format!(
                "`join` takes a list of strings, but item {index} is {}",
                item.type_name()
            )));
        };
        context.charge(1)?;
        context.charge_bytes(text.len() + separator.len())?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::text(out))
}

fn quote<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text)] = args else { return Err(no_overload("strings.quote", args)) };
    context.charge_bytes(text.len().saturating_mul(2))?;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => {
                let _ = out.write_char(other);
            }
        }
    }
    out.push('"');
    Ok(Value::text(out))
}
