//! Tests of server-side apply.

mod laws;
mod objects;
mod structured;

use std::sync::{Arc, LazyLock};

use crate::managed::{Manager, Operation};
use crate::schema::Schema;

/// A moment, in seconds.
pub(crate) fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// A manager of a kind in the version `v1`.
pub(crate) fn manager(name: &str, operation: Operation) -> Manager<'_> {
    Manager { name, operation, api_version: "v1", subresource: "" }
}

/// The schema of a small custom resource with every list and map type.
pub(crate) fn gadget() -> Arc<Schema> {
    static GADGET: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        Arc::new(Schema::from_openapi(&serde_saphyr::from_str(GADGET_YAML).unwrap()).unwrap())
    });
    Arc::clone(&GADGET)
}

const GADGET_YAML: &str = r#"
type: object
properties:
  spec:
    type: object
    properties:
      size: {type: integer}
      mode: {type: string}
      note: {type: string, nullable: true}
      labels: {type: object, additionalProperties: {type: string}}
      tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
      steps: {type: array, items: {type: string}}
      selector:
        type: object
        x-kubernetes-map-type: atomic
        additionalProperties: {type: string}
      nested:
        type: object
        properties:
          inner: {type: object, properties: {a: {type: string}, b: {type: string}}}
      ports:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [port, protocol]
        items:
          type: object
          required: [port]
          properties:
            port: {type: integer}
            protocol: {type: string, default: TCP}
            name: {type: string}
            hosts: {type: array, items: {type: string}, x-kubernetes-list-type: set}
      free: {type: object, x-kubernetes-preserve-unknown-fields: true}
  status:
    type: object
    properties:
      phase: {type: string}
"#;
