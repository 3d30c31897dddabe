//! What the user has to correct.

use std::fmt;

/// A request that cannot be fulfilled until its author changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field in question, for example `spec.intent.target`.
    pub field: String,
    /// What is wrong with it, with the value in backticks.
    pub message: String,
    /// What is allowed, or what to do next.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { field: field.into(), message: message.into(), hint: None }
    }

    /// The same with what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

/// `` `a`, `b` and `c` ``, for messages that list what is known.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
