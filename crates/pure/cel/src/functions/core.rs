//! The functions of the language itself: sizes, types and questions about strings.

use super::{Library, global, method, no_overload};
use crate::budget::Context;
use crate::fault::Fault;
use crate::value::{Type, Value};

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("size", 1, size),
        method("size", 0, size),
        global("type", 1, type_of),
        global("dyn", 1, dynamic),
        method("contains", 1, contains),
        method("startsWith", 1, starts_with),
        method("endsWith", 1, ends_with),
        global("matches", 2, matches),
        method("matches", 1, matches),
    ],
};

fn size<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let size = match args {
        [Value::String(text)] => {
            context.charge_bytes(text.len())?;
            text.chars().count()
        }
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(no_overload("size", args)),
    };
    Ok(Value::Int(size as i64))
}

fn type_of<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [value] => Ok(Value::Type(Type(value.type_name()))),
        _ => Err(no_overload("type", args)),
    }
}

fn dynamic<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    args.first().cloned().ok_or_else(|| no_overload("dyn", args))
}

fn contains<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text), Value::String(part)] => {
            context.charge_bytes(text.len() + part.len())?;
            Ok(Value::Bool(text.contains(&**part)))
        }
        _ => Err(no_overload("contains", args)),
    }
}

fn starts_with<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text), Value::String(part)] => {
            context.charge_bytes(part.len())?;
            Ok(Value::Bool(text.starts_with(&**part)))
        }
        _ => Err(no_overload("startsWith", args)),
    }
}

fn ends_with<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text), Value::String(part)] => {
            context.charge_bytes(part.len())?;
            Ok(Value::Bool(text.ends_with(&**part)))
        }
        _ => Err(no_overload("endsWith", args)),
    }
}

fn matches<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::String(text), Value::String(pattern)] => {
            let compiled = context.pattern(pattern)?;
            context.charge_match(text, pattern)?;
            Ok(Value::Bool(compiled.is_match(text)))
        }
        _ => Err(no_overload("matches", args)),
    }
}
