//! `environment`: where the Bundle wants to go.

use kardinal_policy::Attribute;
use serde_json::{Value, json};

use super::EnvironmentFacts;

/// What there is to read.
pub(super) const ATTRIBUTES: Attribute = Attribute::Fields(&[
    ("name", Attribute::Name("prod")),
    ("approval", Attribute::Choice(&["auto", "pr-review"])),
]);

/// The values.
pub(super) fn value(environment: EnvironmentFacts<'_>) -> Value {
    json!({ "name": environment.name, "approval": environment.approval })
}
