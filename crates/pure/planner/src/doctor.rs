//! What keeps kardinal from working, and the remedies: the words of every dialect's checks, and those about kinds.

mod definitions;

use serde::Serialize;

pub use definitions::{Installed, definitions};

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// All is well.
    Ok,
    /// It works, but perhaps not as it is meant.
    Warn,
    /// It does not work.
    Fail,
}

impl Mark {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::Fail => "fail",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it went.
    pub mark: Mark,
    /// What was looked at.
    pub what: String,
    /// What was found.
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// Something that is well.
    pub fn ok(what: impl Into<String>, detail: impl Into<String>) -> Finding {
        Finding { mark: Mark::Ok, what: what.into(), detail: detail.into(), remedy: None }
    }

    /// Something that may not be as it is meant.
    pub fn warn(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { mark: Mark::Warn, what: what.into(), detail: detail.into(), remedy: Some(remedy.into()) }
    }

    /// Something that does not work.
    pub fn fail(what: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { mark: Mark::Fail, what: what.into(), detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

/// How many checks failed.
pub fn failed(findings: &[Finding]) -> usize {
    findings.iter().filter(|finding| finding.mark == Mark::Fail).count()
}
