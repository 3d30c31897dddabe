//! What of an answer is worth a write, and what of it is news.

use jiff::Timestamp;
use kardinal_api::{PolicyGateSpec, PolicyGateStatus};
use kardinal_object::whole_second;
use kardinal_planner::condition::{NewCondition, Note, Truth};
use kardinal_planner::why::without_numbers;
use kardinal_policy::{CLOSED, Decision, Verdict};

use super::READY;
use super::plan::{DELETED, MIN_PAUSE};

/// Whether what is written down still holds. Numbers in a reason may have moved on; they are refreshed with the recheck.
pub(super) fn says_the_same(old: &PolicyGateStatus, new: &PolicyGateStatus) -> bool {
    old.ready == new.ready
        && old.observed_generation == new.observed_generation
        && old.next_change_at == new.next_change_at
        && old.conditions.iter().any(|condition| condition.type_ == READY)
        && old.reason.as_deref().map(without_numbers) == new.reason.as_deref().map(without_numbers)
}

pub(super) fn notes(old: &PolicyGateStatus, verdict: &Verdict) -> Vec<Note> {
    let before = old.conditions.iter().find(|condition| condition.type_ == READY);
    let was_error = before.is_some_and(|condition| condition.reason == "Error");
    let same = old.reason.as_deref().map(without_numbers) == Some(without_numbers(&verdict.reason));
    let note = |warning, reason: &str| {
        vec![Note { warning, reason: reason.to_owned(), message: verdict.reason.clone() }]
    };
    match (old.ready, verdict.is_open()) {
        _ if verdict.is_unknown() && !(was_error && same) => note(true, "GateError"),
        (None | Some(false), true) => note(false, "GateOpened"),
        (Some(true), false) => note(false, "GateClosed"),
        _ => Vec::new(),
    }
}

pub(super) fn ready_condition(spec: &PolicyGateSpec, verdict: &Verdict, is_withdrawn: bool) -> NewCondition {
    let reason = match verdict.decision {
        Decision::Unknown => "Error",
        _ if verdict.overridden.is_some() => "Overridden",
        _ if is_withdrawn => DELETED,
        Decision::Allow => "Open",
        Decision::Wait | Decision::Deny => CLOSED,
    };
    let message = match spec.message.as_deref().filter(|_| !verdict.is_open()) {
        Some(message) => format!("{message} ({})", verdict.reason),
        None => verdict.reason.clone(),
    };
    NewCondition::new(READY, Truth::from(verdict.is_open()), reason, message)
}

/// The time of a change is rounded up, so that the change has happened when it is reached.
pub(super) fn second_after(instant: Timestamp) -> Timestamp {
    let before = whole_second(instant);
    if before == instant { before } else { before.saturating_add(MIN_PAUSE).unwrap_or(instant) }
}
