//! Lists: parts, order and duplicates.

use super::strings::reversed_text;
use super::{Library, global, method, method_between, no_overload};
use crate::budget::Context;
use crate::fault::{Fault, argument};
use crate::value::{List, Value, equals, total_order};

pub(super) const LIBRARY: Library = Library {
    types: &[],
    functions: &[
        global("lists.range", 1, range),
        method("slice", 2, slice),
        method_between("flatten", 0, 1, flatten),
        method("sort", 0, sort),
        method("distinct", 0, distinct),
        method("reverse", 0, reverse),
        method("first", 0, first),
        method("last", 0, last),
    ],
};

/// How long a list that `lists.range` makes may be.
const MAX_RANGE: i64 = 1_000_000;

fn range<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::Int(count)] if (0..=MAX_RANGE).contains(count) => {
            context.charge(count.unsigned_abs())?;
            Ok(Value::list((0..*count).map(Value::Int).collect()))
        }
        [Value::Int(count)] => {
            Err(argument(format!("`lists.range` cannot count to `{count}`, use 0 to {MAX_RANGE}")))
        }
        _ => Err(no_overload("lists.range", args)),
    }
}

fn slice<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(no_overload("slice", args));
    };
    let bounds = (usize::try_from(*start), usize::try_from(*end));
    let (Ok(from), Ok(to)) = bounds else {
        return Err(argument(format!("`slice` from `{start}` to `{end}`: positions cannot be negative")));
    };
    if from > to || to > list.len() {
        let length = list.len();
        return Err(argument(format!(
            "`slice` from `{start}` to `{end}` does not lie in a list of {length}"
        )));
    }
    if let List::Json(items) = list {
        return Ok(Value::List(List::Json(items.get(from..to).unwrap_or_default())));
    }
    context.charge_items(to - from)?;
    Ok(Value::list(list.iter().skip(from).take(to - from).collect()))
}

fn flatten<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(no_overload("flatten", args)),
    };
    if depth < 0 {
        return Err(argument(format!("`flatten` cannot go to depth `{depth}`, use 0 or more")));
    }
    let mut items = Vec::new();
    flatten_into(context, list, depth, &mut items)?;
    Ok(Value::list(items))
}

fn flatten_into<'a>(
    context: &mut Context,
    list: &List<'a>,
    depth: i64,
    items: &mut Vec<Value<'a>>,
) -> Result<(), Fault> {
    for item in list.iter() {
        context.charge(1)?;
        match item {
            Value::List(inner) if depth > 0 => flatten_into(context, &inner, depth - 1, items)?,
            other => items.push(other),
        }
    }
    Ok(())
}

fn sort<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list)] = args else { return Err(no_overload("sort", args)) };
    context.charge_items(list.len())?;
    sort_by_keys(context, list.iter().map(|item| (item.clone(), item)).collect())
}

/// The second values of the pairs, ordered by the first ones, which must all have one type that has an order.
pub(crate) fn sort_by_keys<'a>(
    context: &mut Context,
    mut pairs: Vec<(Value<'a>, Value<'a>)>,
) -> Result<Value<'a>, Fault> {
    if let Some((first, _)) = pairs.first() {
        let ty = first.type_name();
        if let Some((other, _)) = pairs.iter().find(|(key, _)| key.type_name() != ty) {
            let other = other.type_name();
            return Err(argument(format!(
                "a list of {ty} and {other} has no order; sort one type at a time"
            )));
        }
        let ordered = matches!(
            first,
            Value::Bool(_)
                | Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::Bytes(_)
                | Value::Timestamp(_)
                | Value::Duration(_)
        );
        if !ordered {
            return Err(argument(format!("values of type {ty} have no order")));
        }
    }
    // Everything is paid for beforehand: a sort that stops halfway would have to make up an order.
    let rounds = usize::BITS - pairs.len().leading_zeros();
    let bytes: usize = pairs.iter().map(|(key, _)| key_bytes(key)).fold(0, usize::saturating_add);
    context.charge_items(pairs.len().saturating_mul(rounds as usize))?;
    context.charge_bytes(bytes.saturating_mul(rounds as usize))?;
    pairs.sort_by(|(left, _), (right, _)| total_order(&mut context.clock, left, right));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn key_bytes(key: &Value<'_>) -> usize {
    match key {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

fn distinct<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list)] = args else { return Err(no_overload("distinct", args)) };
    let mut items: Vec<Value<'a>> = Vec::new();
    'each: for item in list.iter() {
        for known in &items {
            context.charge(1)?;
            if equals(context, known, &item)? {
                continue 'each;
            }
        }
        context.charge(1)?;
        items.push(item);
    }
    Ok(Value::list(items))
}

fn reverse<'a>(context: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(list)] => {
            context.charge_items(list.len())?;
            Ok(Value::list(list.iter().rev().collect()))
        }
        [Value::String(text)] => reversed_text(context, text),
        _ => Err(no_overload("reverse", args)),
    }
}

fn first<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(list)] => Ok(Value::optional(list.get(0))),
        _ => Err(no_overload("first", args)),
    }
}

fn last<'a>(_: &mut Context, args: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match args {
        [Value::List(list)] => Ok(Value::optional(list.len().checked_sub(1).and_then(|last| list.get(last)))),
        _ => Err(no_overload("last", args)),
    }
}
