//! Merging and removing by schema: the operations on whole values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::fields::{Atom, ListShape, MapShape, PathElement, Set, TypeRef};

/// The live value with the applied one merged into it.
pub(super) fn merge(ty: TypeRef<'_>, live: &Value, applied: &Value) -> Result<Value, String> {
    let ty = if matches!(ty, TypeRef::Undeclared) { TypeRef::Deduced } else { ty };
    match ty.atom(applied) {
        Atom::Map(shape) if !shape.atomic => match (live, applied) {
            (Value::Object(live), Value::Object(applied)) => merge_maps(shape, live, applied),
            // Null says nothing about the parts, so those that are there stay.
            (Value::Object(parts), Value::Null) if !parts.is_empty() => Ok(live.clone()),
            _ => Ok(applied.clone()),
        },
        Atom::List(shape) if shape.associative => match (live, applied) {
            (Value::Array(live), Value::Array(applied)) => merge_lists(shape, live, applied),
            (Value::Array(parts), Value::Null) if !parts.is_empty() => Ok(live.clone()),
            _ => Ok(applied.clone()),
        },
        _ => Ok(applied.clone()),
    }
}

fn merge_maps(
    shape: MapShape<'_>,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Result<Value, String> {
    let mut out = live.clone();
    for (name, value) in applied {
        let merged = match live.get(name) {
            Some(live) => merge(shape.field(name), live, value)?,
            None => value.clone(),
        };
        out.insert(name.clone(), merged);
    }
    Ok(Value::Object(out))
}

/// The elements of a list by identity; `None` marks an identity that occurs more than once.
struct Index<'a> {
    elements: Vec<PathElement>,
    items: BTreeMap<PathElement, Option<&'a Value>>,
}

fn index<'a>(shape: ListShape<'_>, list: &'a [Value]) -> Result<Index<'a>, String> {
    let mut elements = Vec::with_capacity(list.len());
    let mut items = BTreeMap::new();
    for item in list {
        let element = shape.identify(item)?;
        items.entry(element.clone()).and_modify(|seen| *seen = None).or_insert(Some(item));
        elements.push(element);
    }
    Ok(Index { elements, items })
}

/// Merges two lists whose elements have an identity.
///
/// Elements that both have stand in the applied order, and elements that only one has stay next to their neighbours.
fn merge_lists(shape: ListShape<'_>, live: &[Value], applied: &[Value]) -> Result<Value, String> {
    let right = index(shape, applied)?;
    // A live list without identities cannot be merged with, so it is replaced.
    let Ok(left) = index(shape, live) else { return Ok(Value::Array(applied.to_vec())) };
    let mut shared = right.elements.iter().filter(|element| left.items.contains_key(*element));
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.elements.len() || r < right.elements.len() {
        let (left_element, right_element) = (left.elements.get(l), right.elements.get(r));
        if let (Some(element), Some(other)) = (left_element, right_element) {
            if element == other {
                merged.insert(element);
                out.push(merge_items(shape, &left, &right, element)?);
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if right.items.contains_key(element) && next_shared.is_some_and(|next| next != element) {
                // It will come when the applied order reaches it.
                l += 1;
                continue;
            }
        }
        if let Some(element) = left_element {
            if !right.items.contains_key(element) {
                out.extend(live.get(l).cloned());
                l += 1;
                continue;
            }
            if merged.contains(element) {
                l += 1;
            }
        }
        if let Some(element) = right_element {
            merged.insert(element);
            out.push(merge_items(shape, &left, &right, element)?);
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    Ok(Value::Array(out))
}

fn merge_items(
    shape: ListShape<'_>,
    left: &Index<'_>,
    right: &Index<'_>,
    element: &PathElement,
) -> Result<Value, String> {
    let Some(Some(applied)) = right.items.get(element) else {
        return Err(format!("duplicate entries for key {element}"));
    };
    match left.items.get(element) {
        Some(Some(live)) => merge(shape.element(), live, applied),
        // Live duplicates cannot be merged with, so the applied element takes their place.
        _ => Ok((*applied).clone()),
    }
}

/// The value without the members of a set. What is emptied by it becomes null.
pub(super) fn remove(ty: TypeRef<'_>, value: &Value, gone: &Set) -> Value {
    let ty = if matches!(ty, TypeRef::Undeclared) { TypeRef::Deduced } else { ty };
    match (ty.atom(value), value) {
        (Atom::Map(shape), Value::Object(map)) if !shape.atomic => {
            let mut out = Map::new();
            for (name, item) in map {
                match gone.step(&PathElement::field(name)) {
                    Some((true, _)) => {}
                    Some((false, below)) => {
                        out.insert(name.clone(), remove(shape.field(name), item, below));
                    }
                    None => {
                        out.insert(name.clone(), item.clone());
                    }
                }
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        (Atom::List(shape), Value::Array(items)) if shape.associative => {
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                let step = shape.identify(item).ok().and_then(|element| gone.step(&element));
                match step {
                    Some((true, _)) => {}
                    Some((false, below)) => out.push(remove(shape.element(), item, below)),
                    None => out.push(item.clone()),
                }
            }
            if out.is_empty() { Value::Null } else { Value::Array(out) }
        }
        (Atom::Scalar(_), _) => value.clone(),
        _ => Value::Null,
    }
}

/// Drops the null fields that a schema does not allow, as decoding and defaulting do: null there means absent.
pub(super) fn drop_nulls(ty: TypeRef<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let Some(shape) = ty.map() else { return };
            map.retain(|name, item| {
                let field = shape.field(name);
                if item.is_null() {
                    return match field {
                        TypeRef::Node(schema, _) => schema.nullable || schema.is_untyped(),
                        _ => true,
                    };
                }
                drop_nulls(field, item);
                true
            });
        }
        Value::Array(items) => {
            let Some(shape) = ty.list() else { return };
            for item in items {
                drop_nulls(shape.element(), item);
            }
        }
        _ => {}
    }
}
