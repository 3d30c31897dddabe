//! Lists taken as sets.

use super::{Library, global, no_overload};
use crate::budget::Context;
use crate::fault::Fault;
use crate::value::{List, Value, equals};

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("sets.contains", 2, contains),
        global("sets.equivalent", 2, equivalent),
        global("sets.intersects", 2, intersects),
    ],
};

fn contains<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(list), Value::List(part)] => holds_all(context, list, part).map(Value::Bool),
        _ => Err(no_overload("sets.contains", args)),
    }
}

fn equivalent<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(left), Value::List(right)] => {
            Ok(Value::Bool(holds_all(context, left, right)? && holds_all(context, right, left)?))
        }
        _ => Err(no_overload("sets.equivalent", args)),
    }
}

fn intersects<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(left), Value::List(right)] = args else {
        return Err(no_overload("sets.intersects", args));
    };
    for item in left.iter() {
        if holds(context, right, &item)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn holds_all(context: &mut Context, list: &List<'_>, part: &List<'_>) -> Result<bool, Fault> {
    for item in part.iter() {
        if !holds(context, list, &item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(context: &mut Context, list: &List<'_>, item: &Value<'_>) -> Result<bool, Fault> {
    for candidate in list.iter() {
        context.charge(1)?;
        if equals(context, &candidate, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
