//! Schema fragments that no derive can express. Each is structural, so that a real API server takes it.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An instant in RFC 3339 form, with as many digits as it needs.
pub(crate) fn timestamp(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// An object whose fields belong to somebody else's schema, such as the manifest in a Graph node.
///
/// It is not an embedded resource: names and even kinds in it may be `${…}` expressions.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON at all.
pub(crate) fn free_form(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}
