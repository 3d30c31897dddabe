//! Defaulting: what a missing field becomes, and what a `null` means.

use serde_json::{Map, Value};

use super::{Additional, Schema};

/// Fills in the defaults of the schema, in place.
///
/// As in Kubernetes, a `null` in a field that is not nullable counts as missing: it takes the default, or is dropped
/// when there is none. Defaults of nested fields apply only where their parent is present (or was itself defaulted).
pub fn apply_defaults(schema: &Schema, object: &mut Value) {
    match object {
        Value::Object(map) => fill(schema, map),
        Value::Array(list) => {
            let Some(items) = &schema.items else { return };
            for item in list {
                if item.is_null()
                    && !items.nullable
                    && let Some(default) = &items.default
                {
                    *item = default.clone();
                }
                apply_defaults(items, item);
            }
        }
        _ => {}
    }
}

fn fill(schema: &Schema, map: &mut Map<String, Value>) {
    map.retain(|name, value| !value.is_null() || keeps_null(schema, name));
    for (name, property) in &schema.properties {
        let Some(default) = &property.default else { continue };
        let missing = match map.get(name) {
            None => true,
            Some(value) => value.is_null() && !property.nullable,
        };
        if missing {
            map.insert(name.clone(), default.clone());
        }
    }
    for (name, value) in map.iter_mut() {
        if let Some(property) = schema.properties.get(name) {
            apply_defaults(property, value);
        } else if let Additional::Schema(additional) = &schema.additional {
            if value.is_null()
                && !additional.nullable
                && let Some(default) = &additional.default
            {
                *value = default.clone();
            }
            apply_defaults(additional, value);
        }
    }
}

/// Whether a `null` stands for itself or will be replaced by a default.
fn keeps_null(schema: &Schema, name: &str) -> bool {
    let field = match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => property,
        (None, Additional::Schema(additional)) => additional,
        (None, _) => return true,
    };
    field.nullable || field.default.is_some() || field.is_untyped()
}
