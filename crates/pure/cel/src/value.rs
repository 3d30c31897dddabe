//! The values of expressions. JSON stays borrowed: looking at a field or an element copies nothing and allocates
//! nothing. What an expression builds itself is shared, so that every value is cheap to clone.
//!
//! This module holds data; what operators and functions do with it is in `eval` and `functions`.

mod compare;
mod json;
mod map;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use compare::{compare, equals, identical, is_moving, total_order};
pub use map::{Key, Map};

use crate::time::{Duration, Time};

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string.
    String(Text<'a>),
    /// A string of bytes.
    Bytes(Arc<[u8]>),
    /// A list.
    List(List<'a>),
    /// A map.
    Map(Map<'a>),
    /// An instant.
    Timestamp(Time),
    /// A length of time.
    Duration(Duration),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// The type of a value.
    Type(Type),
    /// A value of a type that a library brings along.
    Opaque(Arc<dyn Opaque>),
}

/// What the language has to know of a value whose type comes from a function library.
pub trait Opaque: fmt::Debug + Send + Sync {
    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// Whether it equals another such value.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// The value as `string()` and JSON show it, if they can.
    fn text(&self) -> Option<String>;

    /// The value as what it is, for the library that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A string, borrowed from the input or built by the expression.
#[derive(Clone)]
pub enum Text<'a> {
    /// Part of the input.
    Borrowed(&'a str),
    /// Built by the expression, or a literal of it.
    Shared(Arc<str>),
}

/// A list, borrowed from the input or built by the expression.
#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Part of the input; the elements become values when they are looked at.
    Json(&'a [serde_json::Value]),
    /// Built by the expression.
    Shared(Arc<Vec<Value<'a>>>),
}

/// The type of a value, under the name that CEL gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Type(pub(crate) &'static str);

impl Type {
    /// The name, such as `int` or `google.protobuf.Timestamp`.
    pub fn name(self) -> &'static str {
        self.0
    }
}

/// The names that stand for types in every expression; libraries add theirs.
pub(crate) const TYPE_NAMES: [&str; 13] = [
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "type",
    "uint",
];

impl<'a> Value<'a> {
    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Opaque(value) => value.type_name(),
        }
    }

    /// The truth value, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is an optional without a value.
    pub fn is_none(&self) -> bool {
        matches!(self, Value::Optional(None))
    }

    /// A string that the expression built.
    pub(crate) fn text(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    /// A list that the expression built.
    pub(crate) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Shared(Arc::new(items)))
    }

    /// An optional with a value.
    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// An optional with or without a value.
    pub(crate) fn optional(value: Option<Value<'a>>) -> Value<'a> {
        Value::Optional(value.map(Arc::new))
    }
}

impl<'a> From<&'a serde_json::Value> for Value<'a> {
    #[inline]
    fn from(json: &'a serde_json::Value) -> Value<'a> {
        match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => {
                if let Some(int) = number.as_i64() {
                    Value::Int(int)
                } else if let Some(uint) = number.as_u64() {
                    Value::Uint(uint)
                } else {
                    Value::Double(number.as_f64().unwrap_or(f64::NAN))
                }
            }
            serde_json::Value::String(text) => Value::String(Text::Borrowed(text)),
            serde_json::Value::Array(items) => Value::List(List::Json(items)),
            serde_json::Value::Object(map) => Value::Map(Map::Json(map)),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, out)
    }
}

impl<'a> List<'a> {
    /// How many elements it has.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            List::Json(items) => items.len(),
            List::Shared(items) => items.len(),
        }
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            List::Json(items) => items.get(index).map(Value::from),
            List::Shared(items) => items.get(index).cloned(),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or(Value::Null))
    }
}
