//! How several verdicts decide together, and when they come to let pass at the same time.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::PolicyGateSpec;

use crate::context::Context;
use crate::decision::{Decision, Verdict};
use crate::evaluate::evaluate;

/// How far ahead the search looks.
const HORIZON: SignedDuration = SignedDuration::from_hours(400 * 24);
/// How many instants the search looks at.
const MAX_STEPS: usize = 500;

/// What verdicts say together, of which each must let pass: the strongest decision, everything that is waited for, the latest
/// time at which one of them is satisfied, and the earliest at which anything changes. Nobody lets pass for certain what
/// one of them holds without a known end.
pub fn all(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let mut together = Verdict::allow("", None);
    let mut has_end = true;
    for verdict in verdicts {
        has_end &= verdict.is_open() || verdict.satisfied_at.is_some();
        together.reason = match verdict.decision.cmp(&together.decision) {
            std::cmp::Ordering::Greater => verdict.reason,
            std::cmp::Ordering::Equal if together.reason.is_empty() => verdict.reason,
            std::cmp::Ordering::Equal => format!("{}; {}", together.reason, verdict.reason),
            std::cmp::Ordering::Less => together.reason,
        };
        together.decision = together.decision.max(verdict.decision);
        together.why.extend(verdict.why);
        together.satisfied_at = together.satisfied_at.max(verdict.satisfied_at);
        together.next_change = [together.next_change, verdict.next_change].into_iter().flatten().min();
    }
    Verdict { satisfied_at: together.satisfied_at.filter(|_| has_end), ..together }
}

/// A gate, and what it is asked about.
#[derive(Debug)]
pub struct Question<'a, C> {
    /// The name that people know.
    pub name: &'a str,
    /// What it asks.
    pub gate: &'a PolicyGateSpec,
    /// What it is told.
    pub context: &'a C,
}

/// The first instant from now on at which all gates are open together although nothing else changes. Nothing when there is
/// none within 400 days, or when that takes too long to find out. Gates that each open at some time need not have one: one
/// may close before the other opens.
pub fn joint_window<C: Context>(questions: &[Question<'_, C>], now: Timestamp) -> Option<Timestamp> {
    let mut at = now;
    for _ in 0..MAX_STEPS {
        if at.duration_since(now) > HORIZON {
            return None;
        }
        let answer = |question: &Question<'_, C>| {
            let mut context = question.context.clone();
            context.move_to(at);
            evaluate(question.name, question.gate, &context)
        };
        let together = all(questions.iter().map(answer));
        if together.decision == Decision::Allow {
            return Some(at);
        }
        // Before the last of them opens there is no joint window, whatever the others do.
        at = together.satisfied_at?;
    }
    None
}
