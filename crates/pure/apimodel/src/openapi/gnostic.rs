//! The OpenAPI v2 document in protobuf, which is the only form that client-go asks `/openapi/v2` for.
//!
//! Only what clients read is written: the definitions with their shape, texts and `x-kubernetes-` extensions.

use serde_json::{Map, Value};

/// The media type under which clients ask for it.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the answer: the same without the `@`, which Go cannot read.
pub const ANSWER_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Field numbers of the messages, by what they hold.
mod field {
    pub(super) const DOCUMENT_SWAGGER: u32 = 1;
    pub(super) const DOCUMENT_INFO: u32 = 2;
    pub(super) const DOCUMENT_PATHS: u32 = 8;
    pub(super) const DOCUMENT_DEFINITIONS: u32 = 9;
    /// `Definitions`, `Properties`: the entries; `Named…`: the name; `TypeItem`, `ItemsItem`: the elements.
    pub(super) const FIRST: u32 = 1;
    /// `Named…`: the value; `Info`: the version; `Any`: the YAML text; `AdditionalPropertiesItem`: the boolean.
    pub(super) const SECOND: u32 = 2;
    pub(super) const SCHEMA_REFERENCE: u32 = 1;
    pub(super) const SCHEMA_FORMAT: u32 = 2;
    pub(super) const SCHEMA_DESCRIPTION: u32 = 4;
    pub(super) const SCHEMA_REQUIRED: u32 = 19;
    pub(super) const SCHEMA_ADDITIONAL: u32 = 21;
    pub(super) const SCHEMA_TYPE: u32 = 22;
    pub(super) const SCHEMA_ITEMS: u32 = 23;
    pub(super) const SCHEMA_PROPERTIES: u32 = 25;
    pub(super) const SCHEMA_EXTENSION: u32 = 31;
}

/// Encodes the JSON document that [`super::v2_document`] makes.
pub fn v2_protobuf(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(field::DOCUMENT_SWAGGER, "2.0");
    let mut info = Message::default();
    info.text(field::FIRST, text_of(document, "/info/title"));
    info.text(field::SECOND, text_of(document, "/info/version"));
    out.message(field::DOCUMENT_INFO, &info);
    out.message(field::DOCUMENT_PATHS, &Message::default());
    if let Some(definitions) = document.get("definitions").and_then(Value::as_object) {
        out.message(field::DOCUMENT_DEFINITIONS, &named_schemas(definitions));
    }
    out.0
}

fn text_of<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn named_schemas(schemas: &Map<String, Value>) -> Message {
    let mut out = Message::default();
    for (name, value) in schemas {
        let mut entry = Message::default();
        entry.text(field::FIRST, name);
        entry.message(field::SECOND, &schema(value));
        out.message(field::FIRST, &entry);
    }
    out
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    for (number, name) in [
        (field::SCHEMA_REFERENCE, "$ref"),
        (field::SCHEMA_FORMAT, "format"),
        (field::SCHEMA_DESCRIPTION, "description"),
    ] {
        if let Some(text) = value.get(name).and_then(Value::as_str) {
            out.text(number, text);
        }
    }
    for name in value.get("required").and_then(Value::as_array).into_iter().flatten() {
        out.text(field::SCHEMA_REQUIRED, name.as_str().unwrap_or_default());
    }
    match value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut item = Message::default();
            item.varint(field::SECOND, u64::from(*allowed));
            out.message(field::SCHEMA_ADDITIONAL, &item);
        }
        Some(nested) => out.wrapped(field::SCHEMA_ADDITIONAL, &schema(nested)),
        None => {}
    }
    if let Some(ty) = value.get("type").and_then(Value::as_str) {
        let mut item = Message::default();
        item.text(field::FIRST, ty);
        out.message(field::SCHEMA_TYPE, &item);
    }
    if let Some(items) = value.get("items") {
        out.wrapped(field::SCHEMA_ITEMS, &schema(items));
    }
    if let Some(properties) = value.get("properties").and_then(Value::as_object) {
        out.message(field::SCHEMA_PROPERTIES, &named_schemas(properties));
    }
    let extensions = value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-"));
    for (name, extension) in extensions {
        let mut any = Message::default();
        // JSON is YAML.
        any.text(field::SECOND, &extension.to_string());
        let mut entry = Message::default();
        entry.text(field::FIRST, name);
        entry.message(field::SECOND, &any);
        out.message(field::SCHEMA_EXTENSION, &entry);
    }
    out
}

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, number: u32, value: u64) {
        self.raw_varint(u64::from(number) << 3);
        self.raw_varint(value);
    }

    fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    fn message(&mut self, number: u32, message: &Message) {
        self.bytes(number, &message.0);
    }

    /// A message inside one that has nothing but it.
    fn wrapped(&mut self, number: u32, message: &Message) {
        let mut outer = Message::default();
        outer.message(field::FIRST, message);
        self.message(number, &outer);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.raw_varint(u64::from(number) << 3 | 2);
        self.raw_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_have_the_bytes_of_the_published_format() {
        let written = |value: Value| schema(&value).0;
        assert_eq!(written(json!({"type": "object"})), b"\xb2\x01\x08\x0a\x06object");
        assert_eq!(written(json!({"$ref": "#/C"})), b"\x0a\x03#/C");
        assert_eq!(written(json!({"additionalProperties": true})), b"\xaa\x01\x02\x10\x01");
        assert_eq!(written(json!({"x-y": [1]})), b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]");
        let long = "d".repeat(200);
        let head = written(json!({"description": long})).into_iter().take(3).collect::<Vec<u8>>();
        assert_eq!(head, b"\x22\xc8\x01", "a length above 127 takes two bytes");
    }
}
