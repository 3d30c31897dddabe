//! Arithmetic beyond the operators.

use std::cmp::Ordering;

use super::{Call, Function, Library, global, no_overload};
use crate::budget::Context;
use crate::fault::{Fault, argument, mismatch, overflow};
use crate::value::{Value, compare};

const fn at_least_one(name: &'static str, call: Call) -> Function {
    Function { name, receiver: false, least: 1, most: None, call }
}

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        at_least_one("math.greatest", greatest),
        at_least_one("math.least", least),
        global("math.ceil", 1, |_, args| rounded("math.ceil", args, f64::ceil)),
        global("math.floor", 1, |_, args| rounded("math.floor", args, f64::floor)),
        global("math.round", 1, |_, args| rounded("math.round", args, f64::round)),
        global("math.trunc", 1, |_, args| rounded("math.trunc", args, f64::trunc)),
        global("math.abs", 1, abs),
        global("math.sign", 1, sign),
        global("math.sqrt", 1, sqrt),
        global("math.isNaN", 1, |_, args| question("math.isNaN", args, f64::is_nan)),
        global("math.isInf", 1, |_, args| question("math.isInf", args, f64::is_infinite)),
        global("math.isFinite", 1, |_, args| question("math.isFinite", args, f64::is_finite)),
        global("math.bitAnd", 2, |_, args| bits("math.bitAnd", args, |left, right| left & right)),
        global("math.bitOr", 2, |_, args| bits("math.bitOr", args, |left, right| left | right)),
        global("math.bitXor", 2, |_, args| bits("math.bitXor", args, |left, right| left ^ right)),
        global("math.bitNot", 1, not),
        global("math.bitShiftLeft", 2, |_, args| {
            shift("math.bitShiftLeft", args, |value, by| value.checked_shl(by).unwrap_or(0))
        }),
        global("math.bitShiftRight", 2, |_, args| {
            shift("math.bitShiftRight", args, |value, by| value.checked_shr(by).unwrap_or(0))
        }),
    ],
};

fn greatest<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    extreme(context, "math.greatest", args, Ordering::Greater)
}

fn least<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    extreme(context, "math.least", args, Ordering::Less)
}

/// The first of the largest or smallest numbers among the arguments, or in the list that is the only argument.
fn extreme<'a>(
    context: &mut Context,
    name: &str,
    args: &[Value<'a>],
    wanted: Ordering,
) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(list)] => best(context, name, list.iter(), wanted),
        _ => best(context, name, args.iter().cloned(), wanted),
    }
}

fn best<'a>(
    context: &mut Context,
    name: &str,
    values: impl Iterator<Item = Value<'a>>,
    wanted: Ordering,
) -> Result<Value<'a>, Fault> {
    let mut best: Option<Value<'a>> = None;
    for value in values {
        context.charge(1)?;
        if !matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_)) {
            return Err(mismatch(format!("`{name}` takes numbers, not {}", value.type_name())));
        }
        let better = match &best {
            Some(best) => compare(context, &value, best)? == Some(wanted),
            None => true,
        };
        if better {
            best = Some(value);
        }
    }
    best.ok_or_else(|| argument(format!("`{name}` needs at least one number")))
}

fn rounded<'a>(name: &str, args: &[Value<'a>], round: fn(f64) -> f64) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(round(*value))),
        _ => Err(no_overload(name, args)),
    }
}

fn question<'a>(name: &str, args: &[Value<'a>], holds: fn(f64) -> bool) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Double(value)] => Ok(Value::Bool(holds(*value))),
        _ => Err(no_overload(name, args)),
    }
}

fn abs<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(value)] => value
            .checked_abs()
            .map(Value::Int)
            .ok_or_else(|| overflow("the absolute value does not fit into an int")),
        [Value::Uint(value)] => Ok(Value::Uint(*value)),
        [Value::Double(value)] => Ok(Value::Double(value.abs())),
        _ => Err(no_overload("math.abs", args)),
    }
}

fn sign<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(value.signum())),
        [Value::Uint(value)] => Ok(Value::Uint((*value).min(1))),
        [Value::Double(value)] => {
            let sign = if value.is_nan() || *value == 0.0 { *value } else { value.signum() };
            Ok(Value::Double(sign))
        }
        _ => Err(no_overload("math.sign", args)),
    }
}

fn sqrt<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(value)] => Ok(Value::Double((*value as f64).sqrt())),
        [Value::Uint(value)] => Ok(Value::Double((*value as f64).sqrt())),
        [Value::Double(value)] => Ok(Value::Double(value.sqrt())),
        _ => Err(no_overload("math.sqrt", args)),
    }
}

fn bits<'a>(name: &str, args: &[Value<'a>], combine: fn(u64, u64) -> u64) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(left), Value::Int(right)] => {
            Ok(Value::Int(combine(left.cast_unsigned(), right.cast_unsigned()).cast_signed()))
        }
        [Value::Uint(left), Value::Uint(right)] => Ok(Value::Uint(combine(*left, *right))),
        _ => Err(no_overload(name, args)),
    }
}

fn not<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(value)] => Ok(Value::Int(!value)),
        [Value::Uint(value)] => Ok(Value::Uint(!value)),
        _ => Err(no_overload("math.bitNot", args)),
    }
}

/// Shifts the bits of a number, a signed one taken as unsigned.
fn shift<'a>(name: &str, args: &[Value<'a>], shifted: fn(u64, u32) -> u64) -> Result<Value<'a>, Fault> {
    let distance = |by: &i64| {
        let by = u64::try_from(*by)
            .map_err(|_| argument(format!("`{name}` cannot shift by `{by}`, use 0 or more")))?;
        Ok::<u32, Fault>(u32::try_from(by).unwrap_or(u32::MAX))
    };
    match args {
        [Value::Int(value), Value::Int(by)] => {
            Ok(Value::Int(shifted(value.cast_unsigned(), distance(by)?).cast_signed()))
        }
        [Value::Uint(value), Value::Int(by)] => Ok(Value::Uint(shifted(*value, distance(by)?))),
        _ => Err(no_overload(name, args)),
    }
}
