//! Reading objects that are JSON.

use serde_json::Value;

/// The text at the end of a path of field names. Unlike a JSON pointer, a path may contain names with `/`.
pub fn text_at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    let mut at = object;
    for field in path {
        at = at.get(field)?;
    }
    at.as_str()
}

/// The text at a JSON pointer; empty when there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The value of a label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    text_at(object, &["metadata", "labels", key])
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    text_at(object, &["metadata", "annotations", key])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_or_no_text_reads_as_nothing() {
        let object =
            json!({"metadata": {"labels": {"a/b": "x", "n": 1}, "annotations": null}, "kind": "Pod"});
        assert_eq!(
            (label(&object, "a/b"), label(&object, "n"), label(&object, "z")),
            (Some("x"), None, None)
        );
        assert_eq!(annotation(&object, "a"), None);
        assert_eq!((text(&object, "/kind"), text(&object, "/spec/x")), ("Pod", ""));
        assert_eq!(text_at(&object, &[]), None);
    }
}
