//! `previousBundle`: what was verified there last; empty when nothing was.

use kardinal_api::kardinal::Bundle;
use kardinal_object::name_of;
use kardinal_policy::Attribute;
use serde_json::{Value, json};

use super::version;

/// What there is to read.
pub(super) const ATTRIBUTES: Attribute =
    Attribute::Fields(&[("name", Attribute::Text("my-app-1-28-0")), ("version", Attribute::Text("1.28.0"))]);

/// The values.
pub(super) fn value(previous: Option<&Bundle>) -> Value {
    json!({
        "name": previous.map(|bundle| name_of(&bundle.metadata)).unwrap_or_default(),
        "version": previous.map(|bundle| version(&bundle.spec)).unwrap_or_default(),
    })
}
