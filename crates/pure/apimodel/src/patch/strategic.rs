//! Strategic merge patch: a merge patch that knows which lists merge by key.
//!
//! The schema of a built-in kind says for every field whether a patch merges or replaces it and by which key the
//! elements of a list are told apart; directives in the patch (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`) say the rest.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::PatchError;
use crate::fields::PathElement;
use crate::schema::Schema;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind. Custom resources have no strategies, so the caller
/// refuses the format for them.
pub fn strategic_merge_patch(schema: &Schema, live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else { return malformed("a strategic merge patch must be an object") };
    let Value::Object(live) = live else { return malformed("only objects can be patched") };
    merge_maps(live.clone(), patch, Some(schema)).map(Value::Object)
}

fn malformed<T>(message: impl Into<String>) -> Result<T, PatchError> {
    Err(PatchError::Malformed(message.into()))
}

/// How a field takes a patch.
struct Strategy<'a> {
    replace: bool,
    merge: bool,
    key: Option<&'a str>,
    field: Option<&'a Schema>,
}

fn strategy<'a>(schema: Option<&'a Schema>, name: &str) -> Strategy<'a> {
    let field = schema.and_then(|schema| schema.field(name));
    let words = field.and_then(|field| field.patch_strategy.as_deref()).unwrap_or_default();
    Strategy {
        replace: words.split(',').any(|word| word == "replace"),
        merge: words.split(',').any(|word| word == "merge"),
        key: field.and_then(|field| field.patch_merge_key.as_deref()),
        field,
    }
}

fn merge_maps(mut original: Object, patch: &Object, schema: Option<&Schema>) -> Result<Object, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(plain_fields(patch)),
            Some("delete") => Ok(Object::new()),
            _ => malformed(format!("`$patch` of an object must be `replace` or `delete`, not {directive}")),
        };
    }
    retain_keys(&mut original, patch)?;
    let ordered = merge_ordered_lists(&mut original, patch, schema)?;
    for (key, value) in patch {
        let is_order = key.strip_prefix(SET_ORDER).is_some_and(|rest| rest.starts_with('/'));
        if key == RETAIN_KEYS || is_order || ordered.contains(&key.as_str()) {
            continue;
        }
        let (name, deletes) = match key.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => match rest.strip_prefix('/') {
                Some(name) => (name, true),
                None => return malformed(format!("`{key}` must be `{DELETE_FROM_LIST}/<field>`")),
            },
            None => (key.as_str(), false),
        };
        if value.is_null() {
            original.remove(name);
            continue;
        }
        let merged = merge_field(original.remove(name), name, value, schema, deletes)?;
        if let Some(merged) = merged {
            original.insert(name.to_owned(), merged);
        }
    }
    Ok(original)
}

fn merge_field(
    original: Option<Value>,
    name: &str,
    patch: &Value,
    schema: Option<&Schema>,
    deletes: bool,
) -> Result<Option<Value>, PatchError> {
    let strategy = strategy(schema, name);
    match (original, patch) {
        (Some(Value::Object(original)), Value::Object(patch)) if !deletes => {
            if strategy.replace {
                return Ok(Some(Value::Object(plain_fields(patch))));
            }
            merge_maps(original, patch, strategy.field).map(Value::Object).map(Some)
        }
        (Some(Value::Array(original)), Value::Array(patch)) => {
            if deletes {
                return Ok(Some(Value::Array(delete_scalars(original, patch))));
            }
            if !strategy.merge {
                return Ok(Some(Value::Array(plain_items(patch))));
            }
            merge_lists(name, original, patch, &strategy).map(Value::Array).map(Some)
        }
        (original, _) if deletes => Ok(original),
        (_, patch) => Ok(plain(patch)),
    }
}

/// A value taken from a patch as it is, without directives and nulls; `None` if a directive stands for it.
fn plain(value: &Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(plain_fields(map))),
        Value::Array(items) => Some(Value::Array(plain_items(items))),
        other => Some(other.clone()),
    }
}

fn plain_fields(map: &Object) -> Object {
    let is_directive = |name: &str| {
        name == DIRECTIVE
            || name == RETAIN_KEYS
            || name.starts_with(SET_ORDER)
            || name.starts_with(DELETE_FROM_LIST)
    };
    map.iter()
        .filter(|(name, value)| !value.is_null() && !is_directive(name))
        .filter_map(|(name, value)| plain(value).map(|value| (name.clone(), value)))
        .collect()
}

fn plain_items(items: &[Value]) -> Vec<Value> {
    items.iter().filter_map(plain).collect()
}

/// `$retainKeys`: drops the fields of the original that the list does not name.
fn retain_keys(original: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(list) = directive else {
        return malformed("`$retainKeys` must be a list of field names");
    };
    let names: BTreeSet<&str> = list.iter().filter_map(Value::as_str).collect();
    for (name, value) in patch {
        let directive =
            name == RETAIN_KEYS || name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
        if !directive && !value.is_null() && !names.contains(name.as_str()) {
            return malformed(format!("`$retainKeys` must name every field of the patch, but not `{name}`"));
        }
    }
    original.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// Merges the lists that the patch gives an order for, and answers their names.
fn merge_ordered_lists<'p>(
    original: &mut Object,
    patch: &'p Object,
    schema: Option<&Schema>,
) -> Result<Vec<&'p str>, PatchError> {
    let mut done = Vec::new();
    for (directive, order) in patch {
        let Some(rest) = directive.strip_prefix(SET_ORDER) else { continue };
        let Some(name) = rest.strip_prefix('/') else {
            return malformed(format!("`{directive}` must be `{SET_ORDER}/<field>`"));
        };
        let Value::Array(order) = order else { return malformed(format!("`{directive}` must be a list")) };
        let patched = match patch.get(name) {
            None => None,
            Some(Value::Array(list)) => Some(list),
            // Removing the field or changing its type leaves nothing to order.
            Some(_) => continue,
        };
        let live = match original.get(name) {
            None => Vec::new(),
            Some(Value::Array(list)) => list.clone(),
            Some(_) => return malformed(format!("`{directive}` orders a field that is not a list")),
        };
        let strategy = strategy(schema, name);
        check_order(directive, patched.map_or(&[][..], |list| list), order, strategy.key)?;
        let merged = match patched {
            None if !original.contains_key(name) => continue,
            None => live.clone(),
            Some(list) if live.is_empty() => plain_items(list),
            Some(list) if strategy.merge => merge_lists(name, live.clone(), list, &strategy)?,
            Some(list) => plain_items(list),
        };
        let server_order = match patched {
            Some(list) if strategy.merge => order_after_deletions(&live, list, strategy.key),
            _ => live,
        };
        let ordered = arrange(name, merged, order, &server_order, strategy.key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
        done.push(name);
    }
    Ok(done)
}

/// The server's order once the patch has deleted elements: upstream, the elements that the patch adds move into the
/// places that its deletions freed, and clients see the order that follows from it.
fn order_after_deletions(live: &[Value], patch: &[Value], key: Option<&str>) -> Vec<Value> {
    let Some(key) = key else { return live.to_vec() };
    let value = |item: &Value| item.get(key).map(|value| PathElement::Value(value.clone()));
    let directive = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str).map(str::to_owned);
    if patch.iter().any(|item| directive(item).as_deref() == Some("replace")) {
        return live.to_vec();
    }
    let deleted: BTreeSet<_> =
        patch.iter().filter(|item| directive(item).is_some()).filter_map(value).collect();
    let mut order: Vec<Value> = live
        .iter()
        .filter(|item| value(item).is_none_or(|value| !deleted.contains(&value)))
        .cloned()
        .collect();
    let kept: BTreeSet<_> = order.iter().filter_map(value).collect();
    let added = patch.iter().filter(|item| directive(item).is_none());
    order.extend(added.filter(|item| value(item).is_some_and(|value| !kept.contains(&value))).cloned());
    order.truncate(live.len());
    order
}

/// The elements of the patch must be among the ordered ones, in the same order.
fn check_order(
    directive: &str,
    patch: &[Value],
    order: &[Value],
    key: Option<&str>,
) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        let wanted = identity(directive, item, key)?;
        let mut found = false;
        for other in order.by_ref() {
            if identity(directive, other, key)? == wanted {
                found = true;
                break;
            }
        }
        if !found {
            return malformed(format!("the order of the list in the patch does not match `{directive}`"));
        }
    }
    Ok(())
}

/// What tells list elements apart: the merge key's value, or the element itself in a list of scalars.
fn identity(name: &str, item: &Value, key: Option<&str>) -> Result<PathElement, PatchError> {
    match (item, key) {
        (Value::Object(map), Some(key)) => match map.get(key) {
            Some(value) => Ok(PathElement::Value(value.clone())),
            None => malformed(format!("an element of `{name}` lacks its merge key `{key}`")),
        },
        (Value::Object(_), None) => {
            malformed(format!("`{name}` has no merge key, so its elements cannot be merged"))
        }
        (Value::Array(_), _) => malformed(format!("`{name}` is a list of lists, which cannot be merged")),
        (scalar, _) => Ok(PathElement::Value(scalar.clone())),
    }
}

fn delete_scalars(original: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    let gone: BTreeSet<PathElement> = patch.iter().cloned().map(PathElement::Value).collect();
    original.into_iter().filter(|value| !gone.contains(&PathElement::Value(value.clone()))).collect()
}

fn merge_lists(
    name: &str,
    original: Vec<Value>,
    patch: &[Value],
    strategy: &Strategy<'_>,
) -> Result<Vec<Value>, PatchError> {
    let objects = original.iter().chain(patch).filter(|item| item.is_object()).count();
    if objects == 0 {
        let mut merged: Vec<Value> = Vec::new();
        let mut seen = BTreeSet::new();
        for item in original.iter().chain(patch) {
            if seen.insert(identity(name, item, None)?) {
                merged.push(item.clone());
            }
        }
        return arrange(name, merged, patch, &original, None);
    }
    if objects < original.len() + patch.len() {
        return malformed(format!("the elements of `{name}` must all be objects"));
    }
    let Some(key) = strategy.key else {
        return malformed(format!("`{name}` has no merge key, so its elements cannot be merged"));
    };
    let (live, patch) = special_elements(name, original, patch, key)?;
    let mut merged = live.clone();
    let mut places: BTreeMap<PathElement, usize> = BTreeMap::new();
    for (place, item) in merged.iter().enumerate() {
        places.entry(identity(name, item, Some(key))?).or_insert(place);
    }
    let items = strategy.field.and_then(|field| field.items.as_deref());
    for item in &patch {
        let Value::Object(fields) = item else { continue };
        let identity = identity(name, item, Some(key))?;
        match places.get(&identity).and_then(|place| merged.get_mut(*place)) {
            Some(slot) => {
                let Value::Object(before) = slot.take() else { continue };
                *slot = Value::Object(merge_maps(before, fields, items)?);
            }
            None => {
                places.insert(identity, merged.len());
                merged.push(Value::Object(plain_fields(fields)));
            }
        }
    }
    arrange(name, merged, &patch, &live, Some(key))
}

/// Carries out the elements that hold a `$patch` directive: the original without what they delete, and the rest of
/// the patch.
fn special_elements(
    name: &str,
    original: Vec<Value>,
    patch: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut deleted: BTreeSet<PathElement> = BTreeSet::new();
    let mut replace = false;
    for item in patch {
        match item.get(DIRECTIVE).map(Value::as_str) {
            None => rest.push(item.clone()),
            Some(Some("delete")) => {
                deleted.insert(identity(name, item, Some(key))?);
            }
            Some(Some("replace")) => replace = true,
            Some(Some("merge")) => return malformed("merging lists cannot be specified in the patch"),
            Some(_) => {
                return malformed(format!("`$patch` in `{name}` must be `delete` or `replace`"));
            }
        }
    }
    if replace {
        return Ok((plain_items(&rest), Vec::new()));
    }
    if deleted.is_empty() {
        return Ok((original, rest));
    }
    let keep = |item: &Value| match item.get(key) {
        Some(value) => !deleted.contains(&PathElement::Value(value.clone())),
        None => true,
    };
    Ok((original.into_iter().filter(keep).collect(), rest))
}

/// Puts the patch's elements into the patch's order and the others into the server's, then interleaves both by the
/// server's order.
fn arrange(
    name: &str,
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let ranks = |list: &[Value]| -> Result<BTreeMap<PathElement, usize>, PatchError> {
        let mut out = BTreeMap::new();
        for (rank, item) in list.iter().enumerate() {
            out.entry(identity(name, item, key)?).or_insert(rank);
        }
        Ok(out)
    };
    let (patch_ranks, server_ranks) = (ranks(patch_order)?, ranks(server_order)?);
    let mut from_patch = Vec::new();
    let mut server_only = Vec::new();
    for item in merged {
        let identity = identity(name, &item, key)?;
        let server = server_ranks.get(&identity).copied();
        match patch_ranks.get(&identity) {
            Some(rank) => from_patch.push((*rank, server, item)),
            None => server_only.push((server.unwrap_or(usize::MAX), server, item)),
        }
    }
    from_patch.sort_by_key(|(rank, ..)| *rank);
    server_only.sort_by_key(|(rank, ..)| *rank);
    let mut out = Vec::with_capacity(from_patch.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    let mut right = from_patch.into_iter().peekable();
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some((_, l, _)), Some((_, r, _))) => matches!((l, r), (Some(l), Some(r)) if l < r),
        };
        let next = if take_left { left.next() } else { right.next() };
        out.extend(next.map(|(_, _, item)| item));
    }
    Ok(out)
}
