//! Where in a JSON tree something stands.

use std::fmt;

/// The way from the root of a JSON tree to one of its values; it displays as `spec.git.url` or `items[0]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<FieldStep>);

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldStep {
    /// A field of an object.
    Field(String),
    /// An element of a list.
    Index(usize),
}

impl FieldPath {
    /// The root itself, which displays as nothing.
    pub fn root() -> FieldPath {
        FieldPath::default()
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[FieldStep] {
        &self.0
    }

    pub(super) fn push(&mut self, step: FieldStep) {
        self.0.push(step);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Builds a path from steps that were gathered on the way up.
    pub(super) fn from_inside(mut steps: Vec<FieldStep>) -> FieldPath {
        steps.reverse();
        FieldPath(steps)
    }
}

impl From<Vec<FieldStep>> for FieldPath {
    fn from(steps: Vec<FieldStep>) -> FieldPath {
        FieldPath(steps)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                FieldStep::Index(index) => write!(out, "[{index}]")?,
                FieldStep::Field(name) if !is_plain(name) => write!(out, "[{name:?}]")?,
                FieldStep::Field(name) if position == 0 => out.write_str(name)?,
                FieldStep::Field(name) => write!(out, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// Whether a key can be written after a dot without being mistaken for something else.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '$'))
}
