//! Sets of field paths: who owns what in an object.
//!
//! A [`Set`] is a tree of [`PathElement`]s, the form in which `metadata.managedFields` records ownership. This module
//! has the algebra on sets, their wire form (`FieldsV1`), and what needs a schema to know the paths of an object:
//! extracting the set of an object and comparing two objects path by path.
//!
//! It must not know managers, requests or time, and must not panic on any JSON.

mod codec;
mod compare;
mod extract;
mod reconcile;
mod shape;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

pub use self::codec::FieldsError;
pub(crate) use self::compare::compare;
pub use self::extract::field_set;
pub(crate) use self::extract::{extract_set, with_named_fields};
pub(crate) use self::reconcile::reconcile;
pub(crate) use self::shape::{Atom, Kind, ListShape, MapShape, TypeRef};

/// One step of a path into an object.
#[derive(Clone, Debug)]
pub enum PathElement {
    /// A field of an object.
    Field(String),
    /// The element of a list that has these key fields, sorted by name.
    Key(Vec<(String, Value)>),
    /// The element of a set-like list with this value.
    Value(Value),
    /// The element at an index, in lists that have no other identity.
    Index(i64),
}

impl PathElement {
    /// The field of this name.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// The list element with these key fields, in any order.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        Self::Key(fields)
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare_values(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

fn compare_keys(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare_values(left_value, right_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// A total order on JSON values in which numbers compare by magnitude, so `1` and `1.0` are the same.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let mut pairs = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            pairs.find(|order| *order != Ordering::Equal).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let mut pairs = left
                .iter()
                .zip(right)
                .map(|(left, right)| left.0.cmp(right.0).then_with(|| compare_values(left.1, right.1)));
            pairs.find(|order| *order != Ordering::Equal).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

/// Whether two JSON values are the same to an API server: `1` equals `1.0`.
pub(crate) fn values_equal(left: &Value, right: &Value) -> bool {
    left == right || compare_values(left, right) == Ordering::Equal
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(left), None) => compare_mixed(left, right),
        (None, Some(right)) => compare_mixed(right, left).reverse(),
        (None, None) => {
            let (left, right) = (left.as_f64().unwrap_or_default(), right.as_f64().unwrap_or_default());
            left.partial_cmp(&right).unwrap_or(Ordering::Equal)
        }
    }
}

/// Compares exactly: rounding the integer to a float first would make the order intransitive for large numbers.
fn compare_mixed(integer: i128, float: &Number) -> Ordering {
    let float = float.as_f64().unwrap_or_default();
    // The cast saturates, which keeps floats beyond the integers on their proper side.
    let whole = float.trunc() as i128;
    integer.cmp(&whole).then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

/// A path from the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    element: PathElement,
    member: bool,
    children: Set,
}

/// A set of field paths.
///
/// Entries are sorted by element, and no entry is empty: each is a member itself or has members below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    entries: Vec<Entry>,
}

/// Which entry of a pair of sorted entry lists comes next.
enum Joined<'a> {
    Left(&'a Entry),
    Right(&'a Entry),
    Both(&'a Entry, &'a Entry),
}

fn join<'a>(left: &'a Set, right: &'a Set) -> impl Iterator<Item = Joined<'a>> {
    let mut left = left.entries.iter().peekable();
    let mut right = right.entries.iter().peekable();
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (None, None) => None,
        (Some(_), None) => left.next().map(Joined::Left),
        (None, Some(_)) => right.next().map(Joined::Right),
        (Some(l), Some(r)) => match l.element.cmp(&r.element) {
            Ordering::Less => left.next().map(Joined::Left),
            Ordering::Greater => right.next().map(Joined::Right),
            Ordering::Equal => left.next().zip(right.next()).map(|(l, r)| Joined::Both(l, r)),
        },
    })
}

impl Set {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of these paths.
    pub fn from_paths(paths: impl IntoIterator<Item = Path>) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path);
        }
        set
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    /// Adds a path. The empty path stands for the whole object, whose ownership nobody tracks.
    pub fn insert(&mut self, path: Path) {
        let mut set = self;
        let mut elements = path.0.into_iter().peekable();
        while let Some(element) = elements.next() {
            let last = elements.peek().is_none();
            let place = match set.entries.binary_search_by(|entry| entry.element.cmp(&element)) {
                Ok(place) => place,
                Err(place) => {
                    set.entries.insert(place, Entry { element, member: false, children: Self::new() });
                    place
                }
            };
            let Some(entry) = set.entries.get_mut(place) else { return };
            entry.member |= last;
            set = &mut entry.children;
        }
    }

    /// Adds an entry that sorts after all others; an empty one is dropped.
    ///
    /// Builders that visit elements in order use it; anything else falls back to a search.
    fn push(&mut self, element: PathElement, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let entry = Entry { element, member, children };
        if self.entries.last().is_none_or(|last| last.element < entry.element) {
            self.entries.push(entry);
            return;
        }
        match self.entries.binary_search_by(|other| other.element.cmp(&entry.element)) {
            Err(place) => self.entries.insert(place, entry),
            Ok(place) => {
                if let Some(other) = self.entries.get_mut(place) {
                    other.member |= entry.member;
                    other.children = other.children.union(&entry.children);
                }
            }
        }
    }

    /// The set of entries in any order; entries of one element are joined.
    fn from_entries(mut entries: Vec<Entry>) -> Self {
        entries.retain(|entry| entry.member || !entry.children.is_empty());
        entries.sort_by(|left, right| left.element.cmp(&right.element));
        entries.dedup_by(|later, earlier| {
            let same = later.element == earlier.element;
            if same {
                earlier.member |= later.member;
                earlier.children = earlier.children.union(&later.children);
            }
            same
        });
        Self { entries }
    }

    fn get(&self, element: &PathElement) -> Option<&Entry> {
        let place = self.entries.binary_search_by(|entry| entry.element.cmp(element)).ok()?;
        self.entries.get(place)
    }

    /// Whether this path is a member.
    pub fn has(&self, path: &Path) -> bool {
        let mut set = self;
        let mut member = false;
        for element in &path.0 {
            let Some(entry) = set.get(element) else { return false };
            member = entry.member;
            set = &entry.children;
        }
        member
    }

    /// Whether the path of this single element is a member, and the members below it.
    pub(crate) fn step(&self, element: &PathElement) -> Option<(bool, &Self)> {
        self.get(element).map(|entry| (entry.member, &entry.children))
    }

    /// The members below an element, with the element taken off their paths.
    pub fn with_prefix(&self, element: &PathElement) -> Self {
        self.get(element).map(|entry| entry.children.clone()).unwrap_or_default()
    }

    /// The members of either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut entries = Vec::with_capacity(self.entries.len().max(other.entries.len()));
        for joined in join(self, other) {
            entries.push(match joined {
                Joined::Left(entry) | Joined::Right(entry) => entry.clone(),
                Joined::Both(left, right) => Entry {
                    element: left.element.clone(),
                    member: left.member || right.member,
                    children: left.children.union(&right.children),
                },
            });
        }
        Self { entries }
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::new();
        for joined in join(self, other) {
            if let Joined::Both(left, right) = joined {
                let children = left.children.intersection(&right.children);
                out.push(left.element.clone(), left.member && right.member, children);
            }
        }
        out
    }

    /// The members of this set that the other lacks.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Self::new();
        for joined in join(self, other) {
            match joined {
                Joined::Left(entry) => out.entries.push(entry.clone()),
                Joined::Right(_) => {}
                Joined::Both(left, right) => {
                    let children = left.children.difference(&right.children);
                    out.push(left.element.clone(), left.member && !right.member, children);
                }
            }
        }
        out
    }

    /// Takes the members of the other set out of this one, in place.
    pub(crate) fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.entries.retain_mut(|entry| {
            if let Some(gone) = other.get(&entry.element) {
                entry.member &= !gone.member;
                entry.children.subtract(&gone.children);
            }
            entry.member || !entry.children.is_empty()
        });
    }

    /// The members of this set that are neither in the other nor below a member of it.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let mut out = Self::new();
        for joined in join(self, other) {
            match joined {
                Joined::Left(entry) => out.entries.push(entry.clone()),
                Joined::Right(_) => {}
                Joined::Both(_, right) if right.member => {}
                Joined::Both(left, right) => {
                    let children = left.children.recursive_difference(&right.children);
                    out.push(left.element.clone(), left.member, children);
                }
            }
        }
        out
    }

    /// The members that have no member below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut out = Self::new();
        for entry in &self.entries {
            let member = entry.member && entry.children.is_empty();
            out.push(entry.element.clone(), member, entry.children.leaves());
        }
        out
    }

    /// Whether every member of this set is one of the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        join(self, other).all(|joined| match joined {
            Joined::Left(_) => false,
            Joined::Right(_) => true,
            Joined::Both(left, right) => {
                (!left.member || right.member) && left.children.is_subset(&right.children)
            }
        })
    }

    /// Every member as a path, parents before their children.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut out);
        out
    }

    fn collect_paths(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for entry in &self.entries {
            prefix.push(entry.element.clone());
            if entry.member {
                out.push(Path(prefix.clone()));
            }
            entry.children.collect_paths(prefix, out);
            prefix.pop();
        }
    }
}
