//! `meta.k8s.io/v1` Table output: what `kubectl get` prints.
//!
//! Built-in kinds have the columns that kube-apiserver gives them; custom kinds have those of their CRD, or name and
//! age. Ages are text, so `now` is an argument.

mod age;
mod builtin;
mod jsonpath;
mod pod;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use self::age::{age_since, human_duration};
pub use self::jsonpath::{JsonPath, JsonPathError};

/// How much of each object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata (the default).
    #[default]
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`; an empty one means the default.
    pub fn from_query(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "Metadata" | "" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// The columns of a kind, ready to make rows.
#[derive(Clone, Debug)]
pub struct Columns {
    definitions: Vec<Value>,
    cells: Cells,
}

#[derive(Clone, Debug)]
enum Cells {
    Builtin(builtin::Printer),
    Custom(Vec<Custom>),
}

#[derive(Clone, Debug)]
struct Custom {
    ty: String,
    path: Option<JsonPath>,
}

impl Columns {
    /// The columns of a built-in kind.
    pub fn builtin(group: &str, kind: &str) -> Self {
        let (definitions, printer) = builtin::columns(group, kind);
        Self { definitions, cells: Cells::Builtin(printer) }
    }

    /// The columns of a custom kind from its `additionalPrinterColumns`; without any it has name and age.
    ///
    /// A path that cannot be read gives empty cells: a CRD is refused for it before it gets here.
    pub fn custom(columns: &[Value]) -> Self {
        let age = json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"});
        let columns = if columns.is_empty() { std::slice::from_ref(&age) } else { columns };
        let mut definitions = vec![definition("Name", "string", "name", 0)];
        let mut cells = Vec::new();
        for column in columns {
            let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
            let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
            let description = match text("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath")),
                given => given.to_owned(),
            };
            definitions.push(json!({
                "name": text("name"), "type": text("type"), "format": text("format"),
                "description": description, "priority": priority,
            }));
            cells.push(Custom { ty: text("type").to_owned(), path: JsonPath::parse(text("jsonPath")).ok() });
        }
        Self { definitions, cells: Cells::Custom(cells) }
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            Cells::Builtin(printer) => printer(object, now),
            Cells::Custom(columns) => {
                let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| json!(""));
                let custom = columns.iter().map(|column| {
                    let found = column.path.as_ref().and_then(|path| path.find(object).into_iter().next());
                    found.map_or(Value::Null, |value| cell(&column.ty, value, now))
                });
                std::iter::once(name).chain(custom).collect()
            }
        }
    }

    /// One row.
    pub fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let mut row = json!({"cells": self.cells(object, now)});
        let carried = match include {
            IncludeObject::None => Value::Null,
            IncludeObject::Object => object.clone(),
            IncludeObject::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
            }),
        };
        if let Some(map) = row.as_object_mut() {
            map.insert("object".to_owned(), carried);
        }
        row
    }

    /// A table. `metadata` is that of the list (`resourceVersion`, `continue`, `remainingItemCount`); `headers` is false
    /// for the later events of a watch, which repeat no column definitions.
    pub fn table<'a>(
        &self,
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: Value,
        include: IncludeObject,
        headers: bool,
        now: Timestamp,
    ) -> Value {
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(object, include, now)).collect();
        let definitions = if headers { json!(self.definitions) } else { json!([]) };
        let mut table = Map::new();
        table.insert("kind".to_owned(), json!("Table"));
        table.insert("apiVersion".to_owned(), json!("meta.k8s.io/v1"));
        table.insert("metadata".to_owned(), metadata);
        table.insert("columnDefinitions".to_owned(), definitions);
        table.insert("rows".to_owned(), Value::Array(rows));
        Value::Object(table)
    }
}

fn definition(name: &str, ty: &str, format: &str, priority: i64) -> Value {
    json!({"name": name, "type": ty, "format": format, "description": "", "priority": priority})
}

/// A value in a column of the given type.
fn cell(ty: &str, value: &Value, now: Timestamp) -> Value {
    match (ty, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => json!(text),
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(n)) => {
            n.as_i64().map_or_else(|| json!(n.as_f64().unwrap_or_default() as i64), |whole| json!(whole))
        }
        ("number", Value::Number(n)) => json!(n.as_f64()),
        ("boolean", Value::Bool(flag)) => json!(flag),
        ("date", Value::String(text)) => match text.parse() {
            Ok(then) => json!(age_since(then, now)),
            Err(_) => json!("<invalid>"),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
