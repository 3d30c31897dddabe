//! Objects as rules see them: typed by the schema, with property names that are CEL identifiers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kardinal_cel::{Env, Key, Limits, List, Map, MapScope, Program, Text, Time, Value as Cel};
use serde_json::Value;

use crate::schema::{Additional, Schema, SchemaType};

/// Words that CEL reserves; a property of that name is `__name__` in a rule.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name under which rules reach a property, or nothing if they cannot.
fn escape(name: &str) -> Option<String> {
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let first = name.chars().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("__") { 2 } else { c.len_utf8() };
        match c {
            '_' if length == 2 => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Some(out)
}

/// Whether values of this schema differ from their JSON in a rule. Components of built-in kinds are left as they are.
pub(in crate::schema) fn needs_view(schema: &Schema) -> bool {
    let below = |node: &crate::schema::SchemaRef| node.owned().is_some_and(|schema| schema.needs_view);
    schema.ty == Some(SchemaType::Number)
        || matches!(schema.format.as_deref(), Some("date-time" | "date" | "duration" | "byte"))
        || schema.properties.iter().any(|(name, node)| escape(name).as_deref() != Some(name) || below(node))
        || schema.items.as_ref().is_some_and(below)
        || matches!(&schema.additional, Additional::Schema(node) if below(node))
}

/// The value as a rule sees it. Without a reason to differ it is the borrowed JSON.
pub(super) fn view<'v>(schema: &Schema, value: &'v Value) -> Cel<'v> {
    if !schema.needs_view {
        return Cel::from(value);
    }
    match value {
        Value::Number(number) if schema.ty == Some(SchemaType::Number) => {
            Cel::Double(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::String(text) => typed_text(schema, text).unwrap_or_else(|| Cel::from(value)),
        Value::Array(list) => match schema.items.as_ref().and_then(|items| items.owned()) {
            Some(items) => {
                Cel::List(List::Shared(Arc::new(list.iter().map(|item| view(items, item)).collect())))
            }
            None => Cel::from(value),
        },
        Value::Object(map) => {
            let entries: BTreeMap<Key<'v>, Cel<'v>> =
                map.iter().map(|(name, value)| (key(schema, name), child(schema, name, value))).collect();
            Cel::Map(Map::Shared(Arc::new(entries)))
        }
        _ => Cel::from(value),
    }
}

fn key<'v>(schema: &Schema, name: &'v str) -> Key<'v> {
    let escaped = schema.properties.contains_key(name).then(|| escape(name)).flatten();
    Key::String(match escaped {
        Some(escaped) if escaped != name => Text::Shared(escaped.into()),
        _ => Text::Borrowed(name),
    })
}

fn child<'v>(schema: &Schema, name: &str, value: &'v Value) -> Cel<'v> {
    let node = match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => property.owned(),
        (None, Additional::Schema(additional)) => additional.owned(),
        (None, _) => None,
    };
    node.map_or_else(|| Cel::from(value), |node| view(node, value))
}

/// Times, durations and bytes, which JSON writes as text. Text that is none stays text.
fn typed_text<'v>(schema: &Schema, text: &str) -> Option<Cel<'v>> {
    match schema.format.as_deref()? {
        "date-time" => text.parse().ok().map(|at| Cel::Timestamp(Time::from_timestamp(at))),
        "date" => {
            let midnight: Timestamp = format!("{text}T00:00:00Z").parse().ok()?;
            Some(Cel::Timestamp(Time::from_timestamp(midnight)))
        }
        "duration" => duration(text),
        "byte" => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(bytes.into())),
        _ => None,
    }
}

/// The engine reads durations itself, so that both read them alike.
fn duration<'v>(text: &str) -> Option<Cel<'v>> {
    static READ: LazyLock<Option<Program>> =
        LazyLock::new(|| Env::standard().declare("text").compile("duration(text)").ok());
    let variables = BTreeMap::from([("text".to_owned(), Value::from(text))]);
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    match READ.as_ref()?.evaluate(&scope, &Limits::default()).ok()? {
        Cel::Duration(duration) => Some(Cel::Duration(duration)),
        _ => None,
    }
}
