//! The three patch formats other than apply: JSON patch, JSON merge patch and strategic merge patch.
//!
//! Each takes the live object and a patch, both as JSON, and answers the patched object; nothing is changed in place.
//! A patch is hostile input: operations, copied bytes and nesting are bounded.

mod strategic;

#[cfg(test)]
mod tests;

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::{Map, Value};

pub use self::strategic::strategic_merge_patch;

/// The most operations that a JSON patch may have.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes of JSON that the `copy` operations of a JSON patch may duplicate together.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The deepest nesting that a JSON patch may build.
pub const MAX_DEPTH: usize = 128;

/// Why a patch was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not one of its format (HTTP 400).
    #[error("{0}")]
    Malformed(String),
    /// The patch is well formed but does not fit the object (HTTP 422).
    #[error("{0}")]
    Unprocessable(String),
    /// The patch has or does too much (HTTP 413).
    #[error("{0}")]
    TooLarge(String),
}

/// Applies an RFC 6902 patch.
pub fn json_patch(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Array(list) = patch else {
        return Err(PatchError::Malformed("a JSON patch must be a list of operations".to_owned()));
    };
    if list.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        )));
    }
    let mut object = live.clone();
    let mut bounds = Bounds { depth: depth(live), copied: 0 };
    for (index, item) in list.iter().enumerate() {
        let operation: PatchOperation = serde_json::from_value(item.clone()).map_err(|error| {
            PatchError::Malformed(format!("operation {index} of the JSON patch is malformed: {error}"))
        })?;
        bounds.admit(index, &operation, &object)?;
        apply_operation(index, operation, &mut object)?;
        bounds.check(index, &object)?;
    }
    Ok(object)
}

/// How large a document under patch may have become.
struct Bounds {
    /// No part of the document is nested deeper than this.
    depth: usize,
    copied: usize,
}

impl Bounds {
    fn admit(&mut self, index: usize, operation: &PatchOperation, object: &Value) -> Result<(), PatchError> {
        let deepest = match operation {
            PatchOperation::Add(add) => add.path.count() + depth(&add.value),
            PatchOperation::Replace(replace) => replace.path.count() + depth(&replace.value),
            // The moved value cannot reach deeper below its place than the document does.
            PatchOperation::Move(moved) => moved.path.count() + self.depth.saturating_sub(moved.from.count()),
            PatchOperation::Copy(copy) => {
                let size = object.pointer(copy.from.as_str()).map_or(0, size);
                self.copied = self.copied.saturating_add(size);
                if self.copied > MAX_COPIED_BYTES {
                    return Err(PatchError::TooLarge(format!(
                        "the JSON patch copies more than {MAX_COPIED_BYTES} bytes, at operation {index}"
                    )));
                }
                copy.path.count() + self.depth.saturating_sub(copy.from.count())
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        self.depth = self.depth.max(deepest);
        Ok(())
    }

    /// The bound on the depth is cheap but loose, so a breach is measured before it counts.
    fn check(&mut self, index: usize, object: &Value) -> Result<(), PatchError> {
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        self.depth = depth(object);
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(PatchError::TooLarge(format!(
            "operation {index} of the JSON patch nests values deeper than {MAX_DEPTH} levels"
        )))
    }
}

/// The number of levels below and including a value.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// About as many bytes as the value has as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 2 + list.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(name, item)| 4 + name.len() + size(item)).sum::<usize>(),
        Value::String(text) => 2 + text.len(),
        _ => 8,
    }
}

fn apply_operation(index: usize, operation: PatchOperation, object: &mut Value) -> Result<(), PatchError> {
    if let PatchOperation::Test(test) = &operation
        && test.value.is_null()
        && object.pointer(test.path.as_str()).is_none()
    {
        // Clients test for absence this way, and kube-apiserver lets them.
        return Ok(());
    }
    let (name, path, from) = describe(&operation);
    // One operation at a time on our own copy: a failure then needs no undo.
    json_patch::patch_unsafe(object, &[operation]).map_err(|error| {
        let why = match error.kind {
            PatchErrorKind::TestFailed => "the value there is another one".to_owned(),
            PatchErrorKind::InvalidPointer => "there is no such path in the object".to_owned(),
            PatchErrorKind::InvalidFromPointer => format!("there is no path `{from}` in the object"),
            PatchErrorKind::CannotMoveInsideItself => format!("`{from}` cannot be moved into itself"),
            other => other.to_string(),
        };
        PatchError::Unprocessable(format!(
            "operation {index} of the JSON patch (`{name}` at `{path}`) does not apply: {why}"
        ))
    })
}

fn describe(operation: &PatchOperation) -> (&'static str, String, String) {
    let name = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    let from = match operation {
        PatchOperation::Move(moved) => moved.from.to_string(),
        PatchOperation::Copy(copy) => copy.from.to_string(),
        _ => String::new(),
    };
    (name, operation.path().to_string(), from)
}

/// Applies an RFC 7396 patch.
pub fn merge_patch(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(PatchError::Malformed("a JSON merge patch must be an object".to_owned()));
    };
    let mut object = live.clone();
    merge_object(&mut object, patch);
    Ok(object)
}

fn merge_object(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(name);
            }
            Value::Object(patch) => {
                merge_object(target.entry(name.as_str()).or_insert(Value::Null), patch);
            }
            other => {
                target.insert(name.clone(), other.clone());
            }
        }
    }
}
