//! Scopes for expressions: node values below, loop variables and the node itself on top.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_cel::Scope;
use serde_json::Value;

/// A scope with some more names.
pub(crate) struct Layer<'a> {
    pub(crate) base: &'a dyn Scope,
    pub(crate) names: &'a [(&'a str, &'a Value)],
}

impl Scope for Layer<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        match self.names.iter().find(|(own, _)| *own == name) {
            Some((_, value)) => Some(value),
            None => self.base.get(name),
        }
    }

    fn now(&self) -> Timestamp {
        self.base.now()
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        if self.names.iter().any(|(own, _)| *own == name) { None } else { self.base.valid_until(name) }
    }
}

/// A scope over values that were computed before.
pub(crate) struct Values {
    pub(crate) values: BTreeMap<String, Value>,
    pub(crate) now: Timestamp,
}

impl Scope for Values {
    fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

/// The earlier of two times, where `None` is never.
pub(crate) fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
