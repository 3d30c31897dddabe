//! From an object to the set of its fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{Atom, ListShape, MapShape, TypeRef};
use super::{PathElement, Set};
use crate::schema::Schema;

/// The fields that an object of this schema sets: what its applier owns.
///
/// A struct field counts through its members, a map key or list element also by itself, and an atomic value as one.
pub fn field_set(schema: &Schema, object: &Value) -> Set {
    extract_set(TypeRef::root(schema), object)
}

/// The same for a type that is already resolved.
pub(crate) fn extract_set(ty: TypeRef<'_>, object: &Value) -> Set {
    extract(ty, object).1
}

/// Whether the place itself belongs to the set, and the members below it.
fn extract(ty: TypeRef<'_>, value: &Value) -> (bool, Set) {
    // What the schema does not have is still somebody's field: it counts as if the schema were silent.
    let ty = if matches!(ty, TypeRef::Undeclared) { TypeRef::Deduced } else { ty };
    match ty.atom(value) {
        Atom::Map(shape) if shape.atomic => (true, Set::new()),
        Atom::List(shape) if !shape.associative => (true, Set::new()),
        Atom::Scalar(_) | Atom::Nothing => (true, Set::new()),
        Atom::Map(shape) => match value {
            Value::Object(map) => (false, extract_map(shape, map)),
            other => (!other.is_null(), Set::new()),
        },
        Atom::List(shape) => match value {
            Value::Array(items) => extract_list(shape, items),
            other => (!other.is_null(), Set::new()),
        },
    }
}

fn extract_map(shape: MapShape<'_>, map: &Map<String, Value>) -> Set {
    let mut set = Set::new();
    for (name, value) in map {
        let (leaf, children) = extract(shape.field(name), value);
        let hollow = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let member = leaf || hollow || !shape.is_named(name);
        set.push(PathElement::field(name), member, children);
    }
    set
}

fn extract_list(shape: ListShape<'_>, items: &[Value]) -> (bool, Set) {
    let mut found: BTreeMap<PathElement, (usize, &Value)> = BTreeMap::new();
    for item in items {
        // A list whose elements cannot be told apart is owned as a whole.
        let Ok(element) = shape.identify(item) else { return (true, Set::new()) };
        found.entry(element).or_insert((0, item)).0 += 1;
    }
    let mut set = Set::new();
    for (element, (count, item)) in found {
        // Duplicates are owned together, under the identity they share.
        let children = if count > 1 { Set::new() } else { extract(shape.element(), item).1 };
        set.push(element, true, children);
    }
    (false, set)
}

/// The set with every struct field that has members below it as a member too.
///
/// Removal works on members, and a struct field is none by itself: without this an emptied struct would stay behind.
pub(crate) fn with_named_fields(ty: TypeRef<'_>, set: &Set) -> Set {
    let mut out = Set::new();
    for entry in &set.entries {
        let mut member = entry.member;
        let below = match &entry.element {
            PathElement::Field(name) => match ty.map() {
                Some(shape) => {
                    member |= !entry.children.is_empty() && shape.is_named(name);
                    shape.field(name)
                }
                None => TypeRef::Undeclared,
            },
            PathElement::Key(_) => ty.list().map_or(TypeRef::Undeclared, |shape| shape.element()),
            PathElement::Value(_) | PathElement::Index(_) => TypeRef::Undeclared,
        };
        out.push(entry.element.clone(), member, with_named_fields(below, &entry.children));
    }
    out
}
