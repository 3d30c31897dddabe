//! The wire form of field sets: `FieldsV1`.
//!
//! Every element is a key such as `f:name`, `k:{"name":"x"}`, `v:1` or `i:0`; a `.` member says that the element
//! itself belongs to the set beside the members below it.

use serde_json::{Map, Value};

use super::{Entry, PathElement, Set};

/// Why a `fieldsV1` document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// Something other than an object stands where members are listed.
    #[error("fieldsV1 must hold objects only, but `{0}` is not one")]
    NotAnObject(String),
    /// A key is not a path element.
    #[error("`{0}` is not a path element, write `f:<name>`, `k:<keys>`, `v:<value>` or `i:<index>`")]
    BadElement(String),
}

impl Set {
    /// The `FieldsV1` form.
    pub fn to_fields(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    fn to_map(&self, include_self: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if include_self && !self.is_empty() {
            out.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for entry in &self.entries {
            out.insert(encode(&entry.element), Value::Object(entry.children.to_map(entry.member)));
        }
        out
    }

    /// Reads the `FieldsV1` form. Elements of a kind this version does not know are left out.
    pub fn from_fields(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.0)
    }
}

/// The set below a node, and whether the node itself is a member.
fn read(fields: &Value) -> Result<(Set, bool), FieldsError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok((Set::new(), true)),
        other => return Err(FieldsError::NotAnObject(excerpt(&other.to_string()))),
    };
    let mut entries = Vec::with_capacity(map.len());
    let mut member = false;
    for (key, value) in map {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = decode(key)? else { continue };
        let (children, child_is_member) = read(value)?;
        entries.push(Entry { element, member: child_is_member, children });
    }
    let set = Set::from_entries(entries);
    let member = member || set.is_empty();
    Ok((set, member))
}

fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn encode(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => {
            let mut out = String::with_capacity(name.len() + 2);
            out.push_str("f:");
            out.push_str(name);
            out
        }
        PathElement::Key(fields) => {
            let map: Map<String, Value> = fields.iter().cloned().collect();
            format!("k:{}", Value::Object(map))
        }
        PathElement::Value(value) => format!("v:{value}"),
        PathElement::Index(index) => format!("i:{index}"),
    }
}

fn decode(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let bad = || FieldsError::BadElement(excerpt(key));
    let (kind, rest) = key.split_once(':').ok_or_else(bad)?;
    Ok(Some(match kind {
        "f" => PathElement::field(rest),
        "v" => PathElement::Value(serde_json::from_str(rest).map_err(|_| bad())?),
        "i" => PathElement::Index(rest.parse().map_err(|_| bad())?),
        "k" => {
            let fields: Map<String, Value> = serde_json::from_str(rest).map_err(|_| bad())?;
            PathElement::key(fields)
        }
        // A later version may know more kinds of one letter; anything longer never was an element.
        _ if kind.len() == 1 => return Ok(None),
        _ => return Err(bad()),
    }))
}
