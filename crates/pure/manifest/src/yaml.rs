//! Reading and setting one field of any YAML file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Error;
use crate::draft::Draft;
use crate::path::{self, Step};
use crate::scalar;
use crate::tree::{Kind, Node, Style};

/// How many nodes an answer may have once its aliases are written out.
const MAX_NODES: usize = 100_000;
/// How deep an answer may be; an anchor may contain its own alias.
const MAX_DEPTH: usize = 256;

/// Sets an existing field. A string is quoted where a reader could take it for something else; lists and mappings
/// are written on one line. In a file of several documents, exactly one of them must have the field.
///
/// A value with an anchor keeps the anchor, so everything that refers to it changes along. A path that leads
/// through an alias is refused.
pub fn set(file: &str, text: &str, path: &str, value: &Value) -> Result<String, Error> {
    let mut draft = Draft::open(file, text)?;
    let place = draft.locate(path)?;
    draft.set(&place, path, value)?;
    Ok(draft.into_text())
}

/// The value of a field by the rules of YAML 1.2, with aliases and merge keys resolved; `None` when there is none.
/// In a file of several documents at most one of them may have the field.
pub fn get(file: &str, text: &str, path: &str) -> Result<Option<Value>, Error> {
    let draft = Draft::open(file, text)?;
    let steps = path::parse(file, path)?;
    let mut found = None;
    for document in &draft.tree().documents {
        let mut reader = Reader { anchors: BTreeMap::new(), left: MAX_NODES };
        reader.collect(&document.root);
        let Some(node) = reader.follow(&document.root, &steps, 0) else { continue };
        if found.is_some() {
            return Err(Error::Ambiguous {
                file: file.to_owned(),
                path: path.to_owned(),
                message: "more than one of its documents has it".to_owned(),
            });
        }
        let value = reader.value(node, 0);
        found = Some(value.ok_or_else(|| draft.unfit(path, "it is too large or refers to itself"))?);
    }
    Ok(found)
}

/// Reads one document.
struct Reader<'a> {
    anchors: BTreeMap<usize, &'a Node>,
    left: usize,
}

impl<'a> Reader<'a> {
    fn collect(&mut self, node: &'a Node) {
        if node.anchor != 0 {
            self.anchors.insert(node.anchor, node);
        }
        match &node.kind {
            Kind::Sequence { items, .. } => items.iter().for_each(|item| self.collect(item)),
            Kind::Mapping { pairs, .. } => {
                for (key, value) in pairs {
                    self.collect(key);
                    self.collect(value);
                }
            }
            Kind::Scalar { .. } | Kind::Alias(_) => {}
        }
    }

    /// The node itself, or what it is an alias of. An alias never stands for another alias.
    fn target(&self, node: &'a Node) -> Option<&'a Node> {
        match node.kind {
            Kind::Alias(number) => self.anchors.get(&number).copied(),
            _ => Some(node),
        }
    }

    fn follow(&self, node: &'a Node, steps: &[Step], depth: usize) -> Option<&'a Node> {
        let node = self.target(node)?;
        let Some((step, rest)) = steps.split_first() else { return Some(node) };
        let child = match &node.kind {
            Kind::Mapping { .. } if !step.index_only => self.field(node, &step.key, depth)?,
            Kind::Sequence { items, .. } => items.get(step.key.parse::<usize>().ok()?)?,
            _ => return None,
        };
        self.follow(child, rest, depth)
    }

    /// A field of a mapping, its own or one from a merge key.
    fn field(&self, node: &'a Node, name: &str, depth: usize) -> Option<&'a Node> {
        if let Some(own) = node.field(name) {
            return Some(own);
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let merged = self.target(node.field("<<")?)?;
        match &merged.kind {
            Kind::Sequence { items, .. } => {
                items.iter().find_map(|item| self.field(self.target(item)?, name, depth + 1))
            }
            _ => self.field(merged, name, depth + 1),
        }
    }

    fn value(&mut self, node: &'a Node, depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > MAX_DEPTH {
            return None;
        }
        let node = self.target(node)?;
        match &node.kind {
            Kind::Scalar { text, style: Style::Plain | Style::Empty } if node.tag.is_none() => {
                Some(scalar::resolve(text))
            }
            Kind::Scalar { text, .. } => Some(Value::String(text.clone())),
            Kind::Sequence { items, .. } => items
                .iter()
                .map(|item| self.value(item, depth + 1))
                .collect::<Option<Vec<_>>>()
                .map(Value::Array),
            Kind::Mapping { pairs, .. } => {
                let mut map = Map::new();
                for (key, value) in pairs {
                    let value = self.value(value, depth + 1)?;
                    match key.text()? {
                        "<<" => merge(&mut map, value),
                        key => drop(map.insert(key.to_owned(), value)),
                    }
                }
                Some(Value::Object(map))
            }
            Kind::Alias(_) => None,
        }
    }
}

/// Adds what is not there yet.
fn merge(map: &mut Map<String, Value>, from: Value) {
    match from {
        Value::Object(more) => {
            for (key, value) in more {
                map.entry(key).or_insert(value);
            }
        }
        Value::Array(all) => all.into_iter().for_each(|from| merge(map, from)),
        _ => {}
    }
}
