//! The reference page of all kinds, made from the same schemas that the API server enforces.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use crate::crds::crds;

const HEADER: &str =
    "# Kinds\n\nGenerated from the types by `make crds`; edit those. `kubectl explain` shows the same.\n";

/// The page as Markdown: for each kind its names, its rules and every field of `spec` and `status`.
pub fn kinds_markdown() -> String {
    crds().iter().fold(HEADER.to_owned(), |mut page, crd| {
        page.push_str(&kind_markdown(crd));
        page
    })
}

fn kind_markdown(crd: &CustomResourceDefinition) -> String {
    let names = &crd.spec.names;
    let version = crd.spec.versions.first();
    let schema = version
        .and_then(|version| version.schema.as_ref())
        .and_then(|schema| serde_json::to_value(&schema.open_api_v3_schema).ok())
        .unwrap_or_default();
    let version = version.map_or("", |version| version.name.as_str());
    let short = names.short_names.clone().unwrap_or_default().join("`, `");
    let mut text = format!("\n## {}\n\n{}\n\n", names.kind, description(&schema));
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "`{}/{version}`, `{}`, short `{short}`.", crd.spec.group, names.plural);
    for part in ["spec", "status"] {
        if let Some(part_schema) = schema.get("properties").and_then(|properties| properties.get(part)) {
            text.push_str("\n| field | type | default | |\n|---|---|---|---|\n");
            rows(&mut text, part, part_schema);
        }
    }
    text
}

/// A row for each field below this one, in the order of the names. Recursion ends because schemas are finite.
fn rows(text: &mut String, path: &str, schema: &Value) {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = format!("{path}.{name}");
        let needed = if required.contains(&name.as_str()) { ", required" } else { "" };
        let default = field.get("default").map(|default| format!("`{default}`")).unwrap_or_default();
        let (suffix, inner) = inner(field);
        let _ = writeln!(
            text,
            "| `{path}{suffix}` | {}{needed} | {default} | {} |",
            type_name(field),
            description(field).replace('|', "\\|")
        );
        rows(text, &format!("{path}{suffix}"), inner);
    }
}

/// What the elements of a list or the values of a map look like; the field itself otherwise.
fn inner(field: &Value) -> (&'static str, &Value) {
    match (field.get("items"), field.get("additionalProperties")) {
        (Some(items), _) => ("[]", items),
        (_, Some(values)) => ("{}", values),
        _ => ("", field),
    }
}

fn type_name(field: &Value) -> String {
    let (suffix, inner) = inner(field);
    let ty = inner.get("type").and_then(Value::as_str).unwrap_or("anything");
    let named = inner.get("enum").and_then(Value::as_array).map(|values| {
        values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(" ")
    });
    let format = inner.get("format").and_then(Value::as_str).filter(|format| *format == "date-time");
    let name = named.unwrap_or_else(|| if format.is_some() { "time".to_owned() } else { ty.to_owned() });
    match suffix {
        "[]" => format!("list of {name}"),
        "{}" => format!("map of {name}"),
        _ => name,
    }
}

fn description(schema: &Value) -> String {
    let text = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
