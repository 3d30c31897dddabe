//! What of an observed object is ours: the projection onto the shape of what was applied.
//!
//! Servers and other actors add fields; those are none of our business. Only a change inside our shape is drift.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Hash of `observed` seen through the shape of `desired`.
pub(crate) fn projection_hash(observed: &Value, desired: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    project(Some(observed), desired, &mut hasher);
    hasher.finish()
}

/// Whether `observed` has everything that `desired` asks for.
pub(crate) fn covers(observed: &Value, desired: &Value) -> bool {
    match (observed, desired) {
        (Value::Object(have), Value::Object(want)) => want.iter().all(|(key, want)| match have.get(key) {
            Some(have) => covers(have, want),
            None => is_empty(want),
        }),
        (Value::Array(have), Value::Array(want)) => {
            have.len() == want.len() && have.iter().zip(want).all(|(have, want)| covers(have, want))
        }
        (have, want) => have == want || (is_empty(have) && is_empty(want)),
    }
}

fn project(observed: Option<&Value>, desired: &Value, hasher: &mut DefaultHasher) {
    match (observed.filter(|value| !is_empty(value)), desired) {
        (None, Value::Object(want)) => want.values().for_each(|want| project(None, want, hasher)),
        (None, _) => 0u8.hash(hasher),
        (Some(Value::Object(have)), Value::Object(want)) => {
            for (key, want) in want {
                project(have.get(key), want, hasher);
            }
        }
        (Some(Value::Array(have)), Value::Array(want)) if have.len() == want.len() => {
            for (have, want) in have.iter().zip(want) {
                project(Some(have), want, hasher);
            }
        }
        (Some(have), _) => hash_value(have, hasher),
    }
}

/// Servers drop nulls and empty maps and lists, so these mean the same as a missing field.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Feeds a whole value to a hasher.
pub(crate) fn hash_value(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 1u8.hash(hasher),
        Value::Bool(bit) => (2u8, bit).hash(hasher),
        Value::Number(number) => (3u8, number.as_f64().map(f64::to_bits), number.as_i64()).hash(hasher),
        Value::String(text) => (4u8, text).hash(hasher),
        Value::Array(list) => {
            (5u8, list.len()).hash(hasher);
            list.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(map) => {
            (6u8, map.len()).hash(hasher);
            for (key, item) in map {
                key.hash(hasher);
                hash_value(item, hasher);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether the observed object covers the desired one, and whether a change of it is drift.
    fn check(desired: Value, before: Value, after: Value, covered: bool, drift: bool) {
        assert_eq!(covers(&before, &desired), covered, "{before} covers {desired}");
        let (old, new) = (projection_hash(&before, &desired), projection_hash(&after, &desired));
        assert_eq!(old != new, drift, "{before} → {after} through {desired}");
    }

    #[test]
    fn only_our_fields_count() {
        check(json!({ "a": 1 }), json!({ "a": 1 }), json!({ "a": 1, "b": 2 }), true, false);
        check(json!({ "a": 1 }), json!({ "a": 1 }), json!({ "a": 2 }), true, true);
        check(json!({ "a": 1 }), json!({ "a": 1 }), json!({}), true, true);
        check(
            json!({ "a": { "b": 1 } }),
            json!({ "a": { "b": 1, "c": 1 } }),
            json!({ "a": { "b": 1 } }),
            true,
            false,
        );
        check(json!({ "a": "1024Mi" }), json!({ "a": "1Gi" }), json!({ "a": "1Gi" }), false, false);
    }

    #[test]
    fn lists_are_compared_by_position_or_whole() {
        let desired = json!({ "l": [{ "n": "a" }, { "n": "b" }] });
        let filled = json!({ "l": [{ "n": "a", "d": 1 }, { "n": "b", "d": 2 }] });
        check(desired.clone(), filled.clone(), filled.clone(), true, false);
        let injected = json!({ "l": [{ "n": "a" }, { "n": "b" }, { "n": "sidecar" }] });
        check(desired.clone(), injected.clone(), injected.clone(), false, false);
        check(desired.clone(), injected, filled.clone(), false, true);
        check(desired, filled, json!({ "l": [{ "n": "b" }, { "n": "a" }] }), true, true);
    }

    #[test]
    fn nothing_and_empty_are_the_same() {
        for empty in [json!(null), json!({}), json!([])] {
            check(json!({ "a": empty }), json!({}), json!({ "a": empty }), true, false);
        }
        check(json!({ "a": "" }), json!({}), json!({ "a": "" }), false, true);
    }
}
