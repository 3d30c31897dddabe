//! Compares two objects field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{Atom, ListShape, MapShape, TypeRef};
use super::{PathElement, Set, values_equal};
use crate::schema::{Schema, SchemaType};

/// What changed from one object to another. No path is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) removed: Set,
    pub(crate) modified: Set,
    pub(crate) added: Set,
}

/// What happened to a place itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Same,
    Removed,
    Modified,
    Added,
}

/// Compares two objects of one schema.
///
/// Objects of built-in kinds always have their struct fields, however empty, because the program that serves them
/// upstream decodes them into structs; so a writer who fills such a field owns the parts, not the struct.
pub(crate) fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    let walk = Walk { structs: is_built_in(schema) };
    walk.node(TypeRef::root(schema), Some(old), Some(new)).1
}

struct Walk {
    structs: bool,
}

/// Built-in kinds are made of shared components; custom resources share none but `metadata`.
fn is_built_in(schema: &Schema) -> bool {
    schema.properties.iter().any(|(name, property)| name != "metadata" && property.owned().is_none())
}

impl Walk {
    fn node(&self, ty: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>) -> (Mark, Comparison) {
        let ty = if matches!(ty, TypeRef::Undeclared) { TypeRef::Deduced } else { ty };
        let mut out = Comparison::default();
        let leaf = match (old, new) {
            (None, None) => return (Mark::Same, out),
            (Some(value), None) | (None, Some(value)) => self.form(ty.atom(value), old, new, &mut out),
            (Some(old_value), Some(new_value)) => {
                let (left, right) = (ty.atom(old_value), ty.atom(new_value));
                if same_form(&left, &right) {
                    self.form(right, old, new, &mut out)
                } else {
                    // The value changed its form, so each side is walked as what it is.
                    let leaf = self.form(left, old, new, &mut out);
                    self.form(right, old, new, &mut out) || leaf
                }
            }
        };
        let mark = match (old, new) {
            (None, _) => Mark::Added,
            (_, None) => Mark::Removed,
            (Some(old), Some(new)) if leaf && !values_equal(old, new) => Mark::Modified,
            _ => Mark::Same,
        };
        (mark, out)
    }

    /// Walks one form; answers whether the value is compared as a whole.
    fn form(&self, atom: Atom<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Comparison) -> bool {
        match atom {
            Atom::Scalar(_) | Atom::Nothing => true,
            Atom::Map(shape) => {
                let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let empty = old.is_none_or(Map::is_empty) && new.is_none_or(Map::is_empty);
                if shape.atomic || empty {
                    return true;
                }
                self.map(shape, old, new, out);
                false
            }
            Atom::List(shape) => {
                let (old, new) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let empty = old.is_none_or(Vec::is_empty) && new.is_none_or(Vec::is_empty);
                if !shape.associative || empty {
                    return true;
                }
                self.list(shape, old.map_or(&[][..], |list| list), new.map_or(&[][..], |list| list), out)
            }
        }
    }

    fn map(
        &self,
        shape: MapShape<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        out: &mut Comparison,
    ) {
        let (old_exists, new_exists) = (old.is_some(), new.is_some());
        let mut left = old.into_iter().flatten().peekable();
        let mut right = new.into_iter().flatten().peekable();
        loop {
            let (name, old, new) = match (left.peek(), right.peek()) {
                (None, None) => break,
                (Some((name, value)), None) => (*name, Some(*value), None),
                (None, Some((name, value))) => (*name, None, Some(*value)),
                (Some((old_name, old)), Some((new_name, new))) => match old_name.cmp(new_name) {
                    std::cmp::Ordering::Less => (*old_name, Some(*old), None),
                    std::cmp::Ordering::Greater => (*new_name, None, Some(*new)),
                    std::cmp::Ordering::Equal => (*old_name, Some(*old), Some(*new)),
                },
            };
            if old.is_some() {
                left.next();
            }
            if new.is_some() {
                right.next();
            }
            let zero = |side: bool| if self.structs && side { zero_value(&shape, name) } else { None };
            let (old, new) = match (old, new) {
                (None, new) => (zero(old_exists), new),
                (old, None) => (old, zero(new_exists)),
                both => both,
            };
            let (mark, below) = self.node(shape.field(name), old, new);
            out.push(PathElement::field(name), mark, below);
        }
    }

    /// Walks a list whose elements have an identity; answers `true` if they turn out to have none.
    fn list(&self, shape: ListShape<'_>, old: &[Value], new: &[Value], out: &mut Comparison) -> bool {
        if old == new {
            return false;
        }
        let mut items: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            let Ok(element) = shape.identify(item) else { return true };
            items.entry(element).or_default().0.push(item);
        }
        for item in new {
            let Ok(element) = shape.identify(item) else { return true };
            items.entry(element).or_default().1.push(item);
        }
        for (element, (old, new)) in items {
            let (mark, below) = self.items(shape, &old, &new);
            out.push(element, mark, below);
        }
        false
    }

    /// Compares the elements of one identity. Duplicates count as one atomic value.
    fn items(&self, shape: ListShape<'_>, old: &[&Value], new: &[&Value]) -> (Mark, Comparison) {
        let first = |list: &[&Value]| list.first().map(|value| (*value).clone());
        match (old.len() > 1, new.len() > 1) {
            (false, false) => self.node(shape.element(), old.first().copied(), new.first().copied()),
            (true, true) => {
                let same = old.len() == new.len() && old.iter().zip(new).all(|(l, r)| values_equal(l, r));
                (if same { Mark::Same } else { Mark::Modified }, Comparison::default())
            }
            (true, false) => {
                let new = first(new);
                let (_, below) = self.node(shape.element(), None, new.as_ref());
                (if new.is_some() { Mark::Modified } else { Mark::Removed }, below)
            }
            (false, true) => {
                let old = first(old);
                let (_, below) = self.node(shape.element(), old.as_ref(), None);
                (if old.is_some() { Mark::Modified } else { Mark::Added }, below)
            }
        }
    }
}

impl Comparison {
    fn push(&mut self, element: PathElement, mark: Mark, below: Self) {
        if mark == Mark::Same && below.is_empty() {
            return;
        }
        if !below.removed.is_empty() || mark == Mark::Removed {
            self.removed.push(element.clone(), mark == Mark::Removed, below.removed);
        }
        if !below.modified.is_empty() || mark == Mark::Modified {
            self.modified.push(element.clone(), mark == Mark::Modified, below.modified);
        }
        if !below.added.is_empty() || mark == Mark::Added {
            self.added.push(element, mark == Mark::Added, below.added);
        }
    }

    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// What the new object lacks, and everything that it set or changed.
    pub(crate) fn split(self) -> (Set, Set) {
        let written = if self.modified.is_empty() { self.added } else { self.modified.union(&self.added) };
        (self.removed, written)
    }
}

fn same_form(left: &Atom<'_>, right: &Atom<'_>) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// The struct fields of built-in kinds that are never absent, each with a field that stands beside it where its name
/// alone would be ambiguous.
const STRUCTS: [(&str, Option<&str>); 26] = [
    ("acceptedNames", None),
    ("backend", Some("pathType")),
    ("daemonEndpoints", None),
    ("deprecatedSource", None),
    ("involvedObject", None),
    ("jobTemplate", None),
    ("kubeletEndpoint", None),
    ("lastState", None),
    ("loadBalancer", None),
    ("metadata", None),
    ("names", None),
    ("nodeInfo", None),
    ("podAffinityTerm", None),
    ("port", Some("name")),
    ("preference", None),
    ("regarding", None),
    ("resources", Some("accessModes")),
    ("resources", Some("imagePullPolicy")),
    ("roleRef", None),
    ("source", Some("involvedObject")),
    ("spec", None),
    ("status", Some("metadata")),
    ("state", Some("lastState")),
    ("strategy", None),
    ("template", None),
    ("updateStrategy", None),
];

/// The value that an absent field of a built-in kind really has: an empty struct, or a null list that is never omitted.
fn zero_value(shape: &MapShape<'_>, name: &str) -> Option<&'static Value> {
    static STRUCT: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Object(Map::new()));
    static NULL: Value = Value::Null;
    let schema = shape.named(name)?;
    if schema.ty == Some(SchemaType::Object) && !schema.properties.is_empty() {
        let listed = |(field, beside): &(&str, Option<&str>)| {
            *field == name && beside.is_none_or(|beside| shape.is_named(beside))
        };
        if STRUCTS.iter().any(listed) {
            return Some(&STRUCT);
        }
    }
    let container = matches!(schema.ty, Some(SchemaType::Array | SchemaType::Object));
    (container && shape.requires(name)).then_some(&NULL)
}
