//! Checks that an applied configuration has the shape that its schema merges by.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fields::{Atom, Kind, PathElement, TypeRef};
use crate::schema::Schema;

/// Reports the first place that cannot be merged: an undeclared field, a wrong type, a list element without its keys,
/// or one that occurs twice.
pub(super) fn verify(schema: &Schema, applied: &Value) -> Result<(), String> {
    check(TypeRef::root(schema), applied).map_err(|problem| {
        let path: String = problem.path.iter().rev().map(PathElement::to_string).collect();
        format!("{path}: {}", problem.message)
    })
}

/// A problem, with its path from the innermost element outwards.
struct Problem {
    path: Vec<PathElement>,
    message: String,
}

impl Problem {
    fn new(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    fn below(mut self, element: PathElement) -> Self {
        self.path.push(element);
        self
    }
}

fn check(ty: TypeRef<'_>, value: &Value) -> Result<(), Problem> {
    if matches!(ty, TypeRef::Deduced | TypeRef::Atomic) || value.is_null() {
        return Ok(());
    }
    match (ty.atom(value), value) {
        (Atom::Nothing, _) => Err(Problem::new("field not declared in schema")),
        (Atom::Map(shape), Value::Object(map)) => {
            for (name, item) in map {
                let field = shape.field(name);
                let result = if matches!(field, TypeRef::Undeclared) {
                    Err(Problem::new("field not declared in schema"))
                } else {
                    check(field, item)
                };
                result.map_err(|problem| problem.below(PathElement::field(name)))?;
            }
            Ok(())
        }
        (Atom::Map(_), other) => Err(Problem::new(format!("expected map, got {}", describe(other)))),
        (Atom::List(shape), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = if shape.associative {
                    let element = shape.identify(item);
                    let element = element.map_err(|m| Problem::new(format!("element {index}: {m}")))?;
                    if !seen.insert(element.clone()) {
                        return Err(Problem::new(format!("duplicate entries for key {element}")));
                    }
                    element
                } else {
                    PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
                };
                check(shape.element(), item).map_err(|problem| problem.below(element))?;
            }
            Ok(())
        }
        (Atom::List(_), other) => Err(Problem::new(format!("expected list, got {}", describe(other)))),
        (Atom::Scalar(kind), value) => check_scalar(kind, value),
    }
}

fn check_scalar(kind: Kind, value: &Value) -> Result<(), Problem> {
    let (fits, expected) = match kind {
        Kind::Number => (value.is_number(), "numeric (int or float)"),
        Kind::String => (value.is_string(), "string"),
        Kind::Boolean => (value.is_boolean(), "boolean"),
        Kind::Any => (!value.is_array() && !value.is_object(), "any scalar"),
    };
    if fits { Ok(()) } else { Err(Problem::new(format!("expected {expected}, got {}", describe(value)))) }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Object(_) => "a map".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(_) => "a string".to_owned(),
        other => format!("`{other}`"),
    }
}
