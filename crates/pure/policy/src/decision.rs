//! What a rule says. Gates say it, and so does everything else that may hold something back.

use jiff::Timestamp;
use kardinal_api::kardinal::GateOverride;
use kardinal_api::{Fact, Subject, Wait, WaitOn, Who};

/// The kind of a gate in what is said about it.
const KIND: &str = "PolicyGate";
/// The word for a gate that lets nobody pass, see [`Wait::reason`].
pub const CLOSED: &str = "Closed";

/// Whether something may pass, from the weakest answer to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It may.
    Allow,
    /// It may not yet; that ends by itself at a known time.
    Wait,
    /// It cannot be found out, so it may not.
    Unknown,
    /// It may not, and nothing is known to end that by itself.
    Deny,
}

/// What a rule says, why, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether it lets pass.
    pub decision: Decision,
    /// The values that led to the answer, in one short line.
    pub reason: String,
    /// What is waited for; nothing once it lets pass.
    pub why: Vec<Wait>,
    /// When it lets pass, as far as that is known. A gate that is closed now opens then by itself.
    pub satisfied_at: Option<Timestamp>,
    /// The first instant after now at which it changes between passing and holding although nothing else does; an override
    /// that expires counts. Nothing when it does not change by itself within 400 days, or when that takes too long to find
    /// out.
    pub next_change: Option<Timestamp>,
    /// The override that let it pass.
    pub overridden: Option<GateOverride>,
}

impl Verdict {
    /// It lets pass.
    pub fn allow(reason: impl Into<String>, closes_at: Option<Timestamp>) -> Verdict {
        Verdict {
            decision: Decision::Allow,
            reason: reason.into(),
            why: Vec::new(),
            satisfied_at: None,
            next_change: closes_at,
            overridden: None,
        }
    }

    /// It lets nobody pass before what is waited for has come; when the time brings that, it opens by itself.
    pub fn held(wait: Wait) -> Verdict {
        Verdict {
            decision: if wait.until.is_some() { Decision::Wait } else { Decision::Deny },
            reason: wait.detail.clone(),
            satisfied_at: wait.until,
            next_change: wait.until,
            why: vec![wait],
            overridden: None,
        }
    }

    /// The gate of this name lets nobody pass. It may open by itself.
    pub fn closed(gate: &str, reason: impl Into<String>, opens_at: Option<Timestamp>) -> Verdict {
        let who = if opens_at.is_some() { Who::Time } else { Who::Person };
        let wait = Wait::new(WaitOn::Gate, CLOSED, Subject::object(KIND, gate), who).detail(reason);
        Verdict::held(Wait { until: opens_at, ..wait })
    }

    /// What the gate of this name says cannot be found out. At a later time it may be open.
    pub fn unknown(gate: &str, reason: impl Into<String>, opens_at: Option<Timestamp>) -> Verdict {
        Verdict { decision: Decision::Unknown, ..Verdict::closed(gate, reason, opens_at) }
    }

    /// The same with the values that led to the answer.
    #[must_use]
    pub(crate) fn with_values(mut self, values: &[Fact]) -> Verdict {
        for wait in &mut self.why {
            wait.values.extend_from_slice(values);
        }
        self
    }

    /// Whether it lets pass.
    pub fn is_open(&self) -> bool {
        self.decision == Decision::Allow
    }

    /// Whether it holds because the answer cannot be found out.
    pub fn is_unknown(&self) -> bool {
        self.decision == Decision::Unknown
    }
}
