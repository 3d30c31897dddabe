//! Values that may be absent. `or` and `orValue` are here for their names; the evaluator runs them lazily.

use super::{Library, global, method, no_overload};
use crate::budget::Context;
use crate::fault::{Fault, missing};
use crate::value::{Value, equals};

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("optional.of", 1, of),
        global("optional.none", 0, none),
        global("optional.ofNonZeroValue", 1, of_non_zero),
        global("optional.unwrap", 1, unwrap),
        method("unwrapOpt", 0, unwrap),
        method("hasValue", 0, has_value),
        method("value", 0, value),
        method("or", 1, or),
        method("orValue", 1, or_value),
    ],
};

fn of<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    args.first().cloned().map(Value::some).ok_or_else(|| no_overload("optional.of", args))
}

fn none<'a>(_: &mut Context, _: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    Ok(Value::Optional(None))
}

fn of_non_zero<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let Some(value) = args.first() else { return Err(no_overload("optional.ofNonZeroValue", args)) };
    let zero = match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Duration(_) => {
            let nothing = crate::time::Duration::from_nanos(0, 0)?;
            equals(context, value, &Value::Duration(nothing))?
        }
        Value::Timestamp(_) | Value::Optional(Some(_)) | Value::Type(_) | Value::Opaque(_) => false,
    };
    Ok(Value::optional((!zero).then(|| value.clone())))
}

/// The values of those optionals in a list that have one.
fn unwrap<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list)] = args else { return Err(no_overload("unwrapOpt", args)) };
    context.charge_items(list.len())?;
    let mut values = Vec::new();
    for item in list.iter() {
        match item {
            Value::Optional(None) => {}
            Value::Optional(Some(value)) => values.push((*value).clone()),
            other => return Err(no_overload("unwrapOpt", &[other])),
        }
    }
    Ok(Value::list(values))
}

fn has_value<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(no_overload("hasValue", args)),
    }
}

fn value<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Optional(Some(value))] => Ok((**value).clone()),
        [Value::Optional(None)] => Err(missing("`value` of an optional that has none")),
        _ => Err(no_overload("value", args)),
    }
}

fn or<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Optional(None), other @ Value::Optional(_)] => Ok(other.clone()),
        [value @ Value::Optional(Some(_)), _] => Ok(value.clone()),
        _ => Err(no_overload("or", args)),
    }
}

fn or_value<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Optional(None), other] => Ok(other.clone()),
        [Value::Optional(Some(value)), _] => Ok((**value).clone()),
        _ => Err(no_overload("orValue", args)),
    }
}
