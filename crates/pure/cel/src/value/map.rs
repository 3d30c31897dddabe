//! Maps and their keys. Keys that are equal as numbers are one key, whatever their types.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Text, Value};
use crate::fault::{Fault, mismatch};

/// A map, borrowed from the input or built by the expression.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Part of the input; the values are converted when they are looked at.
    Json(&'a serde_json::Map<String, serde_json::Value>),
    /// Built by the expression.
    Shared(Arc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    /// `true` and `false`
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A string.
    String(Text<'a>),
}

impl<'a> Map<'a> {
    /// How many entries it has.
    pub fn len(&self) -> usize {
        match self {
            Map::Json(map) => map.len(),
            Map::Shared(map) => map.len(),
        }
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value under a key.
    pub fn get(&self, key: &Key<'_>) -> Option<Value<'a>> {
        match self {
            Map::Json(map) => match key {
                Key::String(text) => map.get(&**text).map(Value::from),
                _ => None,
            },
            Map::Shared(map) => lookup(map, key),
        }
    }

    /// The value under a string.
    #[inline]
    pub fn get_str(&self, key: &str) -> Option<Value<'a>> {
        match self {
            Map::Json(map) => map.get(key).map(Value::from),
            Map::Shared(map) => lookup(map, &Key::String(Text::Borrowed(key))),
        }
    }

    /// The entries, ordered by key.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Key<'a>, Value<'a>)> + '_> {
        match self {
            Map::Json(map) => Box::new(
                map.iter().map(|(key, value)| (Key::String(Text::Borrowed(key)), Value::from(value))),
            ),
            Map::Shared(map) => Box::new(map.iter().map(|(key, value)| (key.clone(), value.clone()))),
        }
    }
}

fn lookup<'a>(map: &BTreeMap<Key<'a>, Value<'a>>, key: &Key<'_>) -> Option<Value<'a>> {
    map.get(key as &dyn AsKey).cloned()
}

/// A view of a key that is independent of its lifetime, so that a map can be searched with a shorter-lived key.
trait AsKey {
    fn as_key(&self) -> KeyView<'_>;
}

/// What keys are compared by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum KeyView<'k> {
    Bool(bool),
    Number(i128),
    String(&'k str),
}

impl AsKey for Key<'_> {
    fn as_key(&self) -> KeyView<'_> {
        match self {
            Key::Bool(value) => KeyView::Bool(*value),
            Key::Int(value) => KeyView::Number(i128::from(*value)),
            Key::Uint(value) => KeyView::Number(i128::from(*value)),
            Key::String(text) => KeyView::String(text),
        }
    }
}

impl<'k, 'a: 'k> std::borrow::Borrow<dyn AsKey + 'k> for Key<'a> {
    fn borrow(&self) -> &(dyn AsKey + 'k) {
        self
    }
}

impl PartialEq for dyn AsKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for dyn AsKey + '_ {}

impl PartialOrd for dyn AsKey + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn AsKey + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().cmp(&other.as_key())
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_key().cmp(&other.as_key())
    }
}

impl<'a> Key<'a> {
    /// The key as a value.
    pub fn into_value(self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(value),
            Key::Int(value) => Value::Int(value),
            Key::Uint(value) => Value::Uint(value),
            Key::String(text) => Value::String(text),
        }
    }

    /// The key that a map literal is given.
    pub(crate) fn of(value: &Value<'a>) -> Result<Key<'a>, Fault> {
        match value {
            Value::Bool(value) => Ok(Key::Bool(*value)),
            Value::Int(value) => Ok(Key::Int(*value)),
            Value::Uint(value) => Ok(Key::Uint(*value)),
            Value::String(text) => Ok(Key::String(text.clone())),
            other => Err(mismatch(format!(
                "a map key must be a string, int, uint or bool, not {}",
                other.type_name()
            ))),
        }
    }

    /// The key that is looked up; a double finds the integer it equals, and no key at all when it equals none.
    pub(crate) fn sought(value: &Value<'a>) -> Result<Option<Key<'a>>, Fault> {
        let Value::Double(number) = value else { return Key::of(value).map(Some) };
        if number.fract() != 0.0 || !number.is_finite() {
            return Ok(None);
        }
        if *number >= -(2f64.powi(63)) && *number < 2f64.powi(63) {
            Ok(Some(Key::Int(*number as i64)))
        } else if *number >= 0.0 && *number < 2f64.powi(64) {
            Ok(Some(Key::Uint(*number as u64)))
        } else {
            Ok(None)
        }
    }
}
