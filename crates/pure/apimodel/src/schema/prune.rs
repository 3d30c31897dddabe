//! Pruning: fields that the schema does not know are dropped.

use serde_json::{Map, Value};

use super::{Additional, Schema};

/// Drops every field that the schema does not specify, in place, and returns the paths of what was dropped, sorted.
///
/// `x-kubernetes-preserve-unknown-fields` keeps unknown fields of that one object; specified fields below it are pruned
/// again. `apiVersion`, `kind` and `metadata` of a resource are always kept; inside `metadata` only what `ObjectMeta`
/// knows stays.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.node(schema, object);
    pruner.dropped.sort();
    pruner.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    fn node(&mut self, schema: &Schema, value: &mut Value) {
        match value {
            Value::Object(map) => self.object(schema, map),
            Value::Array(list) => {
                let Some(items) = &schema.items else { return };
                for (index, item) in list.iter_mut().enumerate() {
                    let length = self.path.len();
                    self.path.push_str(&format!("[{index}]"));
                    self.node(items, item);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, schema: &Schema, map: &mut Map<String, Value>) {
        let mut unknown = Vec::new();
        for (name, value) in map.iter_mut() {
            if let Some(field) = schema.field(name) {
                let length = self.enter(name);
                self.node(field, value);
                self.path.truncate(length);
            } else if !schema.preserve_unknown && matches!(schema.additional, Additional::None) {
                unknown.push(name.clone());
            }
        }
        for name in unknown {
            map.remove(&name);
            let length = self.enter(&name);
            self.dropped.push(self.path.clone());
            self.path.truncate(length);
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        length
    }
}
