//! Adjusts recorded sets to a schema that changed since they were written.
//!
//! A list or map that became atomic is owned as a whole by everybody who owned a part of it.

use super::shape::TypeRef;
use super::{Entry, PathElement, Set};

/// The set under the present schema.
pub(crate) fn reconcile(ty: TypeRef<'_>, set: Set) -> Set {
    let entries = set.entries.into_iter().map(|entry| reconcile_entry(ty, entry)).collect();
    Set { entries }
}

fn reconcile_entry(ty: TypeRef<'_>, mut entry: Entry) -> Entry {
    if entry.children.is_empty() {
        return entry;
    }
    let below = match &entry.element {
        PathElement::Field(name) => match ty.map() {
            Some(shape) if shape.is_free_form() => return entry,
            Some(shape) => shape.field(name),
            None => return entry,
        },
        _ => match ty.list() {
            Some(shape) => shape.element(),
            None => return entry,
        },
    };
    if became_atomic(below, &entry.children) {
        return Entry { element: entry.element, member: true, children: Set::new() };
    }
    entry.children = reconcile(below, entry.children);
    entry
}

/// Whether members below a place belong to a value that is now atomic.
fn became_atomic(ty: TypeRef<'_>, children: &Set) -> bool {
    let fields = children.entries.first().is_some_and(|entry| matches!(entry.element, PathElement::Field(_)));
    if fields {
        ty.map().is_some_and(|shape| shape.atomic && !shape.is_free_form())
    } else {
        matches!(ty, TypeRef::Node(..)) && ty.list().is_some_and(|shape| !shape.associative)
    }
}
