//! Fields and elements: `a.b`, `a.?b`, `has(a.b)`, `a[b]`, `a[?b]`.

use super::Machine;
use super::operators::short;
use crate::fault::{Fault, mismatch, missing};
use crate::lower::{Access, Index, Select};
use crate::value::{Key, List, Map, Value};

impl<'a> Machine<'_, 'a> {
    #[inline]
    pub(super) fn select(&mut self, select: &Select) -> Result<Value<'a>, Fault> {
        let operand = self.operand(&select.operand)?;
        if let (Value::Map(map), Access::Read) = (&*operand, select.access) {
            return map.get_str(&select.field).ok_or_else(|| no_key(&select.field));
        }
        field(&operand, &select.field, select.access)
    }

    pub(super) fn index(&mut self, index: &Index) -> Result<Value<'a>, Fault> {
        let operand = self.operand(&index.operand)?;
        let key = self.operand(&index.index)?;
        if let (Value::Map(map), Value::String(text), false) = (&*operand, &*key, index.optional) {
            return map.get_str(text).ok_or_else(|| no_key(text));
        }
        match (&*operand, index.optional) {
            (Value::Optional(None), _) => Ok(Value::Optional(None)),
            // An index into an optional gives an optional, but it does not forgive what is not there unless it is
            // the kind of thing that could have been there.
            (Value::Optional(Some(value)), _) => element(value, &key).map(Value::optional),
            (value, true) => match element(value, &key) {
                Ok(found) => Ok(Value::optional(found)),
                Err(_) if matches!(value, Value::Null) => Ok(Value::Optional(None)),
                Err(fault) => Err(fault),
            },
            (value, false) => element(value, &key)?.ok_or_else(|| match value {
                Value::List(list) => {
                    missing(format!("index {} is out of range of a list of {}", short(&key), list.len()))
                }
                _ => missing(format!("no such key {}", short(&key))),
            }),
        }
    }
}

fn no_key(field: &str) -> Fault {
    missing(format!("no such key `{field}`"))
}

fn field<'a>(operand: &Value<'a>, name: &str, access: Access) -> Result<Value<'a>, Fault> {
    match (operand, access) {
        (Value::Map(map), Access::Read) => map.get_str(name).ok_or_else(|| no_key(name)),
        (Value::Map(map), Access::Optional) => Ok(Value::optional(map.get_str(name))),
        (Value::Map(map), Access::Test) => Ok(Value::Bool(has(map, name))),
        (Value::Optional(None), Access::Test) => Ok(Value::Bool(false)),
        (Value::Optional(None), _) => Ok(Value::Optional(None)),
        (Value::Optional(Some(value)), Access::Test) => field(value, name, Access::Test),
        (Value::Optional(Some(value)), access) => match (&**value, access) {
            (Value::Map(map), _) => Ok(Value::optional(map.get_str(name))),
            (Value::Optional(_), _) => field(value, name, access),
            (other, Access::Optional) => field(other, name, access),
            (other, _) => Err(no_field(other, name)),
        },
        // Null is how JSON says that something is not there.
        (Value::Null, Access::Test) => Ok(Value::Bool(false)),
        (Value::Null, Access::Optional) => Ok(Value::Optional(None)),
        (other, _) => Err(no_field(other, name)),
    }
}

fn has(map: &Map<'_>, name: &str) -> bool {
    match map {
        Map::Json(map) => map.contains_key(name),
        Map::Shared(_) => map.get_str(name).is_some(),
    }
}

fn no_field(value: &Value<'_>, name: &str) -> Fault {
    match value {
        Value::Null => missing(format!("null has no field `{name}`")),
        other => mismatch(format!("{} has no fields, so no `{name}`", other.type_name())),
    }
}

/// The element under a key or index; nothing when it is not there.
fn element<'a>(operand: &Value<'a>, key: &Value<'_>) -> Result<Option<Value<'a>>, Fault> {
    match operand {
        Value::List(list) => Ok(position(list, key)?.and_then(|position| list.get(position))),
        Value::Map(map) => Ok(Key::sought(key)?.and_then(|key| map.get(&key))),
        Value::Null => Err(missing("null has no elements")),
        other => Err(mismatch(format!("{} has no elements", other.type_name()))),
    }
}

fn position(list: &List<'_>, index: &Value<'_>) -> Result<Option<usize>, Fault> {
    let position = match index {
        Value::Int(index) => usize::try_from(*index).ok(),
        Value::Uint(index) => usize::try_from(*index).ok(),
        Value::Double(index) if index.fract() == 0.0 => {
            (*index >= 0.0 && *index < 9e15).then_some(*index as usize)
        }
        other => {
            return Err(mismatch(format!("the index of a list must be an int, not {}", short(other))));
        }
    };
    Ok(position.filter(|position| *position < list.len()))
}
