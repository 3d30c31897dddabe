//! Turning values into JSON. A value that shares parts of itself can be far larger as JSON than in memory, so the
//! result is bounded.

use serde_json::{Map as JsonMap, Number, Value as Json};

use super::{Key, List, Map, Value};
use crate::fault::{EvalError, EvalErrorKind, Fault, argument, fault, mismatch};
use crate::time::text::{format_duration, format_time};

/// How many bytes one result may take as JSON, about.
const MAX_SIZE: usize = 8 * 1024 * 1024;
/// What a value counts for besides its text. It takes more in memory, but a typical one is written in about as much.
const VALUE_SIZE: usize = 16;

impl Value<'_> {
    /// The value as JSON: timestamps and durations become strings, an absent optional becomes `null`.
    ///
    /// Bytes, types, numbers that JSON cannot hold and maps with keys other than strings are errors.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        let mut left = MAX_SIZE;
        convert(self, &mut left).map_err(|fault| *fault)
    }
}

fn spend(left: &mut usize, size: usize) -> Result<(), Fault> {
    *left = left.checked_sub(size).ok_or_else(|| {
        fault(EvalErrorKind::Budget, format!("the result takes more than {MAX_SIZE} bytes as JSON"))
    })?;
    Ok(())
}

fn convert(value: &Value<'_>, left: &mut usize) -> Result<Json, Fault> {
    spend(left, VALUE_SIZE)?;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => match Number::from_f64(*value) {
            Some(number) => Json::Number(number),
            None => return Err(argument(format!("`{value}` cannot be written as a JSON number"))),
        },
        Value::String(text) => {
            spend(left, text.len())?;
            Json::String((**text).to_owned())
        }
        Value::Timestamp(time) => Json::String(format_time(*time)),
        Value::Duration(duration) => Json::String(format_duration(*duration)),
        Value::Optional(Some(value)) => return convert(value, left),
        Value::List(list) => return convert_list(list, left),
        Value::Map(map) => return convert_map(map, left),
        Value::Bytes(_) => {
            return Err(mismatch("bytes cannot be written as JSON; use `base64.encode` to make them text"));
        }
        Value::Opaque(value) => match value.text() {
            Some(text) => Json::String(text),
            None => return Err(mismatch(format!("a {} cannot be written as JSON", value.type_name()))),
        },
        Value::Type(ty) => {
            return Err(mismatch(format!("the type `{}` cannot be written as JSON", ty.name())));
        }
    })
}

fn convert_list(list: &List<'_>, left: &mut usize) -> Result<Json, Fault> {
    let mut out = Vec::with_capacity(list.len().min(*left / VALUE_SIZE));
    match list {
        List::Json(items) => {
            for item in *items {
                spend(left, size_of_json(item))?;
                out.push(item.clone());
            }
        }
        List::Shared(items) => {
            for item in items.iter() {
                out.push(convert(item, left)?);
            }
        }
    }
    Ok(Json::Array(out))
}

fn convert_map(map: &Map<'_>, left: &mut usize) -> Result<Json, Fault> {
    let mut out = JsonMap::new();
    match map {
        Map::Json(map) => {
            for (key, item) in *map {
                spend(left, key.len() + size_of_json(item))?;
                out.insert(key.clone(), item.clone());
            }
        }
        Map::Shared(map) => {
            for (key, item) in map.iter() {
                let Key::String(key) = key else {
                    let ty = key.clone().into_value();
                    return Err(mismatch(format!(
                        "a key of a JSON object must be a string, not {}",
                        ty.type_name()
                    )));
                };
                spend(left, key.len())?;
                out.insert((**key).to_owned(), convert(item, left)?);
            }
        }
    }
    Ok(Json::Object(out))
}

fn size_of_json(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => VALUE_SIZE,
        Json::String(text) => VALUE_SIZE + text.len(),
        Json::Array(items) => VALUE_SIZE + items.iter().map(size_of_json).sum::<usize>(),
        Json::Object(map) => {
            VALUE_SIZE + map.iter().map(|(key, item)| key.len() + size_of_json(item)).sum::<usize>()
        }
    }
}
