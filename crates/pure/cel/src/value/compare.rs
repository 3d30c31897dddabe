//! Equality and order of values. Comparing moving time values tells the clock how long the answer holds.

use std::cmp::Ordering;

use super::{Key, List, Map, Value};
use crate::budget::Context;
use crate::fault::{Fault, mismatch};
use crate::time::Clock;

/// Whether two values are equal. Values of different types are not, except for numbers that are equal as numbers.
/// It fails only when the comparison costs too much.
#[inline]
pub(crate) fn equals(context: &mut Context, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Value::String(left), Value::String(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            context.charge_bytes(left.len())?;
            **left == **right
        }
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Null, Value::Null) => true,
        (Value::Int(left), Value::Int(right)) => left == right,
        _ => return equals_slowly(context, left, right),
    })
}

fn equals_slowly(context: &mut Context, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    Ok(match (left, right) {
        (Value::Bytes(left), Value::Bytes(right)) => {
            context.charge_bytes(left.len())?;
            left == right
        }
        (Value::Type(left), Value::Type(right)) => left == right,
        (Value::Opaque(left), Value::Opaque(right)) => left.equals(&**right),
        (Value::List(left), Value::List(right)) => return lists_equal(context, left, right),
        (Value::Map(left), Value::Map(right)) => return maps_equal(context, left, right),
        (Value::Optional(left), Value::Optional(right)) => match (left, right) {
            (None, None) => true,
            (Some(left), Some(right)) => return equals(context, left, right),
            _ => false,
        },
        (Value::Timestamp(_), Value::Timestamp(_)) | (Value::Duration(_), Value::Duration(_)) => {
            order_of_times(&mut context.clock, left, right) == Some(Ordering::Equal)
        }
        _ => order_of_numbers(left, right).is_some_and(|order| order == Some(Ordering::Equal)),
    })
}

fn lists_equal(context: &mut Context, left: &List<'_>, right: &List<'_>) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (left, right) in left.iter().zip(right.iter()) {
        context.charge(1)?;
        if !equals(context, &left, &right)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps_equal(context: &mut Context, left: &Map<'_>, right: &Map<'_>) -> Result<bool, Fault> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, left) in left.iter() {
        context.charge(1)?;
        match right.get(&key) {
            Some(right) if equals(context, &left, &right)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// How two values are ordered; nothing when one of them is not a number. Types without an order are an error.
#[inline]
pub(crate) fn compare(
    context: &mut Context,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Result<Option<Ordering>, Fault> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Ok(Some(left.cmp(right))),
        (Value::String(left), Value::String(right)) => {
            context.charge_bytes(left.len().min(right.len()))?;
            Ok(Some((**left).cmp(&**right)))
        }
        (Value::Bytes(left), Value::Bytes(right)) => {
            context.charge_bytes(left.len().min(right.len()))?;
            Ok(Some(left.cmp(right)))
        }
        (Value::Bool(left), Value::Bool(right)) => Ok(Some(left.cmp(right))),
        (Value::Timestamp(_), Value::Timestamp(_)) | (Value::Duration(_), Value::Duration(_)) => {
            Ok(order_of_times(&mut context.clock, left, right))
        }
        _ => order_of_numbers(left, right)
            .ok_or_else(|| mismatch(format!("{} and {} have no order", left.type_name(), right.type_name()))),
    }
}

/// The order of two values of one type for sorting, in which not-a-number comes last. Values of types that have no
/// order are taken as equal.
pub(crate) fn total_order(clock: &mut Clock, left: &Value<'_>, right: &Value<'_>) -> Ordering {
    match (left, right) {
        (Value::Double(left), Value::Double(right)) => {
            left.partial_cmp(right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
        }
        (Value::String(left), Value::String(right)) => (**left).cmp(&**right),
        (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Int(left), Value::Int(right)) => left.cmp(right),
        (Value::Uint(left), Value::Uint(right)) => left.cmp(right),
        _ => order_of_times(clock, left, right).unwrap_or(Ordering::Equal),
    }
}

fn order_of_times(clock: &mut Clock, left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let (difference, slope) = match (left, right) {
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            (left.as_nanos() - right.as_nanos(), clock.add_slopes(left.slope(), -right.slope()))
        }
        (Value::Duration(left), Value::Duration(right)) => {
            (left.as_nanos() - right.as_nanos(), clock.add_slopes(left.slope(), -right.slope()))
        }
        _ => return None,
    };
    clock.note_order(difference, slope);
    Some(difference.cmp(&0))
}

/// The order of two numbers of any types: nothing when one value is no number, `Some(None)` when one is not-a-number.
fn order_of_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Uint(left), Value::Uint(right)) => Some(left.cmp(right)),
        (Value::Double(left), Value::Double(right)) => left.partial_cmp(right),
        (Value::Int(left), Value::Uint(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Uint(left), Value::Int(right)) => Some(i128::from(*left).cmp(&i128::from(*right))),
        (Value::Int(left), Value::Double(right)) => order_of_int_and_double(i128::from(*left), *right),
        (Value::Uint(left), Value::Double(right)) => order_of_int_and_double(i128::from(*left), *right),
        (Value::Double(left), Value::Int(right)) => {
            order_of_int_and_double(i128::from(*right), *left).map(Ordering::reverse)
        }
        (Value::Double(left), Value::Uint(right)) => {
            order_of_int_and_double(i128::from(*right), *left).map(Ordering::reverse)
        }
        _ => return None,
    })
}

/// The integer is rounded to a double first, which is what the language demands of integers that doubles cannot hold.
fn order_of_int_and_double(int: i128, double: f64) -> Option<Ordering> {
    (int as f64).partial_cmp(&double)
}

/// Whether two values are the same in every respect that a reader of the result can see: types matter, and
/// not-a-number is the same as itself.
pub(crate) fn identical(context: &mut Context, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Fault> {
    context.charge(1)?;
    Ok(match (left, right) {
        (Value::Double(left), Value::Double(right)) => left.to_bits() == right.to_bits(),
        (Value::Optional(Some(left)), Value::Optional(Some(right))) => {
            return identical(context, left, right);
        }
        (Value::List(left), Value::List(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right.iter()) {
                if !identical(context, &left, &right)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for ((left_key, left), (right_key, right)) in left.iter().zip(right.iter()) {
                let keys = identical_keys(&left_key, &right_key);
                if !keys || !identical(context, &left, &right)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => left.type_name() == right.type_name() && equals(context, left, right)?,
    })
}

fn identical_keys(left: &Key<'_>, right: &Key<'_>) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right) && left == right
}

/// Whether the value holds a time that moves with `now()`, so that it differs at every instant.
pub(crate) fn is_moving(context: &mut Context, value: &Value<'_>) -> Result<bool, Fault> {
    match value {
        Value::Timestamp(time) => Ok(time.slope() != 0),
        Value::Duration(duration) => Ok(duration.slope() != 0),
        Value::Optional(Some(value)) => is_moving(context, value),
        Value::List(List::Shared(items)) => {
            for item in items.iter() {
                context.charge(1)?;
                if is_moving(context, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(Map::Shared(map)) => {
            for item in map.values() {
                context.charge(1)?;
                if is_moving(context, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}
