//! The operators that evaluate all of their operands.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Machine;
use crate::ast::BinaryOp;
use crate::budget::{Context, excerpt};
use crate::fault::{EvalErrorKind, Fault, fault, mismatch, overflow};
use crate::lower::Node;
use crate::time::{Duration, Time};
use crate::value::{Key, List, Text, Value, compare, equals};

impl<'a> Machine<'_, 'a> {
    pub(super) fn negate(&mut self, operand: &Node) -> Result<Value<'a>, Fault> {
        match &*self.operand(operand)? {
            Value::Int(value) => value.checked_neg().map(Value::Int).ok_or_else(out_of_int),
            Value::Double(value) => Ok(Value::Double(-value)),
            other => Err(mismatch(format!("`-` takes an int or a double, not {}", other.type_name()))),
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, left: &Node, right: &Node) -> Result<Value<'a>, Fault> {
        let left = self.operand(left)?;
        let right = self.operand(right)?;
        let context = &mut self.context;
        match op {
            BinaryOp::Eq => equals(context, &left, &right).map(Value::Bool),
            BinaryOp::Ne => equals(context, &left, &right).map(|equal| Value::Bool(!equal)),
            BinaryOp::Lt => ordered(context, op, &left, &right, Ordering::is_lt),
            BinaryOp::Le => ordered(context, op, &left, &right, Ordering::is_le),
            BinaryOp::Gt => ordered(context, op, &left, &right, Ordering::is_gt),
            BinaryOp::Ge => ordered(context, op, &left, &right, Ordering::is_ge),
            BinaryOp::In => contains(context, &left, &right).map(Value::Bool),
            BinaryOp::Add => add(context, left.into_value(), &right),
            BinaryOp::Sub => subtract(context, &left, &right),
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => multiply(op, &left, &right),
        }
    }
}

#[inline]
fn ordered<'a>(
    context: &mut Context,
    op: BinaryOp,
    left: &Value<'a>,
    right: &Value<'a>,
    holds: fn(Ordering) -> bool,
) -> Result<Value<'a>, Fault> {
    match compare(context, left, right) {
        Ok(order) => Ok(Value::Bool(order.is_some_and(holds))),
        Err(fault) if fault.kind == EvalErrorKind::Type => Err(unsupported(op, left, right)),
        Err(fault) => Err(fault),
    }
}

fn contains(context: &mut Context, item: &Value<'_>, container: &Value<'_>) -> Result<bool, Fault> {
    match container {
        Value::List(list) => {
            for candidate in list.iter() {
                context.charge(1)?;
                if equals(context, item, &candidate)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        // A value that can be no key is in no map.
        Value::Map(map) => match Key::sought(item) {
            Ok(Some(key)) => Ok(map.get(&key).is_some()),
            Ok(None) | Err(_) => Ok(false),
        },
        _ => Err(unsupported(BinaryOp::In, item, container)),
    }
}

fn add<'a>(context: &mut Context, left: Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Fault> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            left.checked_add(*right).map(Value::Int).ok_or_else(out_of_int)
        }
        (Value::Uint(left), Value::Uint(right)) => {
            left.checked_add(*right).map(Value::Uint).ok_or_else(out_of_uint)
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left + right)),
        (Value::String(left), Value::String(right)) => concatenate(context, &left, right),
        (Value::Bytes(left), Value::Bytes(right)) => {
            context.charge_bytes(left.len() + right.len())?;
            Ok(Value::Bytes(Arc::from([&*left, &**right].concat())))
        }
        (Value::List(left), Value::List(right)) => append(context, left, right),
        (Value::Timestamp(time), Value::Duration(duration)) => {
            shift(context, time, *duration, 1).map(Value::Timestamp)
        }
        (Value::Duration(duration), Value::Timestamp(time)) => {
            shift(context, *time, duration, 1).map(Value::Timestamp)
        }
        (Value::Duration(left), Value::Duration(right)) => {
            let slope = context.clock.add_slopes(left.slope(), right.slope());
            Duration::computed(&mut context.clock, left.as_nanos() + right.as_nanos(), slope)
                .map(Value::Duration)
        }
        (left, right) => Err(unsupported(BinaryOp::Add, &left, right)),
    }
}

fn concatenate<'a>(context: &mut Context, left: &Text<'a>, right: &Text<'a>) -> Result<Value<'a>, Fault> {
    if left.is_empty() {
        return Ok(Value::String(right.clone()));
    }
    if right.is_empty() {
        return Ok(Value::String(left.clone()));
    }
    context.charge_bytes(left.len() + right.len())?;
    let mut text = String::with_capacity(left.len() + right.len());
    text.push_str(left);
    text.push_str(right);
    Ok(Value::text(text))
}

fn append<'a>(context: &mut Context, left: List<'a>, right: &List<'a>) -> Result<Value<'a>, Fault> {
    context.charge_items(left.len() + right.len())?;
    let mut items = Vec::with_capacity(left.len() + right.len());
    items.extend(left.iter());
    items.extend(right.iter());
    Ok(Value::list(items))
}

fn shift(context: &mut Context, time: Time, duration: Duration, sign: i32) -> Result<Time, Fault> {
    let slope = context.clock.add_slopes(time.slope(), sign * duration.slope());
    Time::computed(&mut context.clock, time.as_nanos() + i128::from(sign) * duration.as_nanos(), slope)
}

fn subtract<'a>(context: &mut Context, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Fault> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => {
            left.checked_sub(*right).map(Value::Int).ok_or_else(out_of_int)
        }
        (Value::Uint(left), Value::Uint(right)) => {
            left.checked_sub(*right).map(Value::Uint).ok_or_else(out_of_uint)
        }
        (Value::Double(left), Value::Double(right)) => Ok(Value::Double(left - right)),
        (Value::Timestamp(time), Value::Duration(duration)) => {
            shift(context, *time, *duration, -1).map(Value::Timestamp)
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => {
            let slope = context.clock.add_slopes(left.slope(), -right.slope());
            Duration::computed(&mut context.clock, left.as_nanos() - right.as_nanos(), slope)
                .map(Value::Duration)
        }
        (Value::Duration(left), Value::Duration(right)) => {
            let slope = context.clock.add_slopes(left.slope(), -right.slope());
            Duration::computed(&mut context.clock, left.as_nanos() - right.as_nanos(), slope)
                .map(Value::Duration)
        }
        _ => Err(unsupported(BinaryOp::Sub, left, right)),
    }
}

fn multiply<'a>(op: BinaryOp, left: &Value<'a>, right: &Value<'a>) -> Result<Value<'a>, Fault> {
    match (op, left, right) {
        (BinaryOp::Mul, Value::Int(left), Value::Int(right)) => {
            left.checked_mul(*right).map(Value::Int).ok_or_else(out_of_int)
        }
        (BinaryOp::Mul, Value::Uint(left), Value::Uint(right)) => {
            left.checked_mul(*right).map(Value::Uint).ok_or_else(out_of_uint)
        }
        (BinaryOp::Mul, Value::Double(left), Value::Double(right)) => Ok(Value::Double(left * right)),
        (BinaryOp::Div, Value::Double(left), Value::Double(right)) => Ok(Value::Double(left / right)),
        (BinaryOp::Div | BinaryOp::Rem, Value::Int(_), Value::Int(0))
        | (BinaryOp::Div | BinaryOp::Rem, Value::Uint(_), Value::Uint(0)) => {
            let what = if op == BinaryOp::Div { "division" } else { "modulus" };
            Err(fault(EvalErrorKind::DivideByZero, format!("{what} by zero")))
        }
        (BinaryOp::Div, Value::Int(left), Value::Int(right)) => {
            left.checked_div(*right).map(Value::Int).ok_or_else(out_of_int)
        }
        (BinaryOp::Div, Value::Uint(left), Value::Uint(right)) => {
            left.checked_div(*right).map(Value::Uint).ok_or_else(out_of_uint)
        }
        (BinaryOp::Rem, Value::Int(left), Value::Int(right)) => {
            left.checked_rem(*right).map(Value::Int).ok_or_else(out_of_int)
        }
        (BinaryOp::Rem, Value::Uint(left), Value::Uint(right)) => {
            left.checked_rem(*right).map(Value::Uint).ok_or_else(out_of_uint)
        }
        _ => Err(unsupported(op, left, right)),
    }
}

#[cold]
fn out_of_int() -> Fault {
    overflow("integer overflow: the result does not fit into 64 bits")
}

#[cold]
fn out_of_uint() -> Fault {
    overflow("unsigned integer overflow: the result does not fit into 64 bits")
}

#[cold]
fn unsupported(op: BinaryOp, left: &Value<'_>, right: &Value<'_>) -> Fault {
    let advice = match (left, right) {
        (Value::Int(_), Value::Double(_)) | (Value::Double(_), Value::Int(_)) => {
            "; convert one of them with `int()` or `double()`"
        }
        (Value::Int(_), Value::Uint(_)) | (Value::Uint(_), Value::Int(_)) => {
            "; convert one of them with `int()` or `uint()`"
        }
        (Value::String(_), Value::Timestamp(_)) | (Value::Timestamp(_), Value::String(_)) => {
            "; convert the string with `timestamp()`"
        }
        (Value::String(_), Value::Duration(_)) | (Value::Duration(_), Value::String(_)) => {
            "; convert the string with `duration()`"
        }
        _ => "",
    };
    let (left, right) = (left.type_name(), right.type_name());
    mismatch(format!("`{}` does not work on {left} and {right}{advice}", op.symbol()))
}

/// A value in a message: scalars as they are written, everything else by its type.
pub(super) fn short(value: &Value<'_>) -> String {
    match value {
        Value::Null => "`null`".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Int(value) => format!("`{value}`"),
        Value::Uint(value) => format!("`{value}u`"),
        Value::Double(value) => format!("`{value}`"),
        Value::String(text) => format!("`{}`", excerpt(text)),
        other => other.type_name().to_owned(),
    }
}
