//! The built-in kinds: which there are, what the published OpenAPI documents say about them, and their defaults.
//!
//! The schemas are embedded as text, one component per line, and each is parsed when somebody first looks at it, so that
//! start-up costs nothing and unused kinds take no memory. This module must not know requests or storage.

mod defaults;
mod kinds;
mod names;
mod validation;

use std::sync::{Arc, LazyLock, OnceLock};

pub use self::defaults::apply_defaults;
pub use self::kinds::{KINDS, Kind};
pub use self::names::NameRule;
pub use self::validation::validate;
use crate::schema::{Schema, component_schema};

/// One component of the embedded OpenAPI documents, parsed on first use.
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    schema: OnceLock<Arc<Schema>>,
}

impl Component {
    /// The parsed schema. References inside it stay references, so recursive components end.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        self.schema.get_or_init(|| Arc::new(component_schema(self.name, self.text)))
    }
}

static COMPONENTS: LazyLock<Vec<Component>> = LazyLock::new(|| {
    let lines = include_str!("builtin/schemas.jsonl").lines();
    lines
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, text)| Component { name, text, schema: OnceLock::new() })
        .collect()
});

/// The component of that name.
pub(crate) fn component(name: &str) -> Option<&'static Component> {
    let index = COMPONENTS.binary_search_by(|component| component.name.cmp(name)).ok()?;
    COMPONENTS.get(index)
}

/// The built-in kind of that group, version and kind.
pub fn kind(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.group == group && k.version == version && k.kind == kind)
}

/// The built-in kind that a URL names by its plural.
pub fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|k| k.group == group && k.version == version && k.plural == plural)
}

/// The schema of a built-in kind.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<Arc<Schema>> {
    self::kind(group, version, kind).map(Kind::schema)
}

#[cfg(test)]
mod tests;
