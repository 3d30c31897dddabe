//! OpenAPI v2, for clients that know no v3. It cannot say everything, so what it cannot say is left out.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{ApiKind, META, SCALE, paths};
use crate::builtin;

const REFERENCE: &str = "#/components/schemas/";

/// The document at `/openapi/v2`, as JSON, for all served kinds.
pub fn v2_document(kinds: &[ApiKind<'_>]) -> Vec<u8> {
    let mut definitions = Map::new();
    let mut todo: Vec<String> =
        ["DeleteOptions", "Status", "Patch"].iter().map(|name| format!("{META}{name}")).collect();
    let mut all_paths = Map::new();
    for kind in kinds {
        paths::add(kind, paths::Dialect::V2, &mut all_paths);
        if let Some(schema) = kind.schema {
            for (name, json) in [
                (kind.component(), kind.published(schema, REFERENCE)),
                (kind.list_component(), kind.published_list(REFERENCE)),
            ] {
                definitions.insert(name, downgrade(json, &mut todo));
            }
        } else {
            todo.push(kind.component());
            todo.push(kind.list_component());
        }
        if kind.scale {
            todo.push(SCALE.to_owned());
        }
    }
    let mut seen = BTreeSet::new();
    while let Some(name) = todo.pop() {
        if definitions.contains_key(&name) || !seen.insert(name.clone()) {
            continue;
        }
        let text = builtin::component(&name).map(|component| component.text);
        if let Some(json) = text.and_then(|text| serde_json::from_str(text).ok()) {
            definitions.insert(name, downgrade(json, &mut todo));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": all_paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"description": "Bearer Token authentication", "in": "header", "name": "authorization", "type": "apiKey"}},
        "security": [{"BearerToken": []}],
    })
    .to_string()
    .into_bytes()
}

/// Rewrites a v3 schema for v2: references, and what v2 does not have.
fn downgrade(schema: Value, references: &mut Vec<String>) -> Value {
    let Value::Object(mut map) = schema else { return schema };
    let single = match map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([only]) => only.get("$ref").cloned(),
        _ => None,
    };
    if let Some(target) = single.or_else(|| map.get("$ref").filter(|r| r.is_string()).cloned()) {
        let name = target.as_str().and_then(|t| t.strip_prefix(REFERENCE)).unwrap_or_default().to_owned();
        map.insert("$ref".to_owned(), Value::from(format!("#/definitions/{name}")));
        references.push(name);
        map.remove("allOf");
    }
    let either = map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    if either || (map.contains_key("oneOf") && !map.contains_key("type")) {
        // A number or a string, which v2 calls a string with a format.
        map.insert("type".to_owned(), Value::from("string"));
        if either {
            map.insert("format".to_owned(), Value::from("int-or-string"));
        }
    }
    // A value that may be null has no type that v2 could name.
    if map.remove("nullable") == Some(Value::Bool(true)) {
        for name in ["type", "items", "properties", "additionalProperties"] {
            map.remove(name);
        }
    }
    for name in ["allOf", "anyOf", "oneOf", "not", "default"] {
        map.remove(name);
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        let old = std::mem::take(properties);
        properties.extend(old.into_iter().map(|(name, schema)| (name, downgrade(schema, references))));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = map.remove(name) {
            map.insert(name.to_owned(), downgrade(schema, references));
        }
    }
    Value::Object(map)
}
