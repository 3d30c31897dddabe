//! User text inside a Graph, kept from being evaluated there.

use serde_json::{Map, Value};

/// A spec as JSON in which nothing that a user wrote is taken for an expression of the Graph.
pub(super) fn escaped(spec: &impl serde::Serialize) -> Map<String, Value> {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    escape(&mut value);
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn escape(value: &mut Value) {
    match value {
        Value::String(text) => {
            if text.contains("${") {
                *text = escape_text(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(fields) => fields.values_mut().for_each(escape),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Each `${`, together with the dollar signs before it, becomes an expression whose value is that text. Unlike `$${`
/// this also holds for braces that are never closed.
fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 8);
    let mut dollars = 0_usize;
    for c in text.chars() {
        match c {
            '$' => dollars += 1,
            '{' if dollars > 0 => {
                escaped.push_str(&format!("${{\"{}{{\"}}", "$".repeat(dollars)));
                dollars = 0;
            }
            _ => {
                escaped.push_str(&"$".repeat(dollars));
                dollars = 0;
                escaped.push(c);
            }
        }
    }
    escaped.push_str(&"$".repeat(dollars));
    escaped
}
