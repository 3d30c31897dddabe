//! What came of a pass: the walk learns of it first, then the user, by one status write, and only a changed one.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::graph::GraphStatus;
use kardinal_graph::{Action, Outcome as Walked, Walker};
use kardinal_planner::graph::{self as planner, Effect};
use kardinal_planner::sentence::Report;

use super::act::Outcome;
use super::observe::{Observation, Read};
use super::{Kind, LARGE, Memory, damping};
use crate::{PACE, RETRY};

/// Folds what was done into what is remembered, and tells how the Graph stands.
pub(super) fn report(
    kind: &Kind,
    seen: &Observation,
    (plan, done): (planner::Plan, Vec<(Effect, Outcome)>),
    memory: &mut Memory,
) -> Report<GraphStatus> {
    let has_failed = done.iter().any(|(_, outcome)| outcome.has_failed());
    let has_progressed = done.iter().any(|(_, outcome)| outcome.has_progressed());
    let walked = walked(done);
    let is_removing = memory.walk.is_removing();
    if !is_removing {
        memory.damping.note(&damping::written(&walked), seen.now);
    }
    let is_left = is_removing && memory.walk.note_refusals(&walked);
    let is_unasked = memory.walk.permits().any(|permit| !memory.permissions.covers(permit));
    let sees_more = learn(kind, seen, &walked, &mut memory.walk);
    if (sees_more || is_left || is_unasked || has_progressed) && !has_failed {
        // More follows at once; the status is written when things come to rest.
        return Report { retry: Some(SignedDuration::ZERO), ..Report::default() };
    }
    let checked = memory.walk.check(&seen.graph, &seen.revisions);
    let mut report = planner::report(&seen.graph, &checked, &memory.walk, seen.now);
    let again = match is_removing {
        // The walk is over, and what it wanted to look at does not count any more.
        true => walked.iter().any(|(_, outcome)| !is_done(outcome)).then(|| seen.now + RETRY),
        false => memory.walk.walker.as_ref().and_then(Walker::wake),
    };
    let later = put_off(seen, &mut report, memory);
    let asked_until = memory.walk.permits().next().and_then(|_| memory.permissions.wake());
    let failed = has_failed.then(|| seen.now + RETRY);
    let wake = [plan.wake, failed, again, later, asked_until].into_iter().flatten().min();
    report.retry = wake.map(|wake| wake.duration_since(seen.now));
    report
}

/// Leaves a status that tells only of the progress of nodes to a later pass, when one was written just now. Keeps what is
/// still needed then; answers when that is.
fn put_off(seen: &Observation, report: &mut Report<GraphStatus>, memory: &mut Memory) -> Option<Timestamp> {
    if report.status.is_none() {
        memory.walk.rest();
    }
    if report.status.is_none() || seen.graph.spec.nodes.len() < LARGE {
        // What was read is read again when it is needed.
        memory.read = Read::default();
    }
    report.status.as_ref()?;
    let next = memory.written.map(|written| written + PACE).filter(|next| *next > seen.now);
    match next.filter(|_| !planner::is_urgent(&seen.graph, report)) {
        Some(next) => {
            *report = Report::default();
            Some(next)
        }
        None => {
            memory.written = Some(seen.now);
            None
        }
    }
}

/// Tells the walk what came of its actions; returns whether it now reads something that the pass could not see.
fn learn(kind: &Kind, seen: &Observation, walked: &[(Action, Walked)], memory: &mut planner::Memory) -> bool {
    let Some(walker) = &mut memory.walker else { return false };
    for (action, outcome) in walked {
        walker.record(action, outcome.clone(), seen.now);
    }
    let unseen_kinds = walker.interests().kinds().any(|gvk| !seen.kinds.contains(gvk));
    kind.routes().follow(&seen.key, walker) || unseen_kinds
}

/// The walk's actions and what came of them.
fn walked(done: Vec<(Effect, Outcome)>) -> Vec<(Action, Walked)> {
    let walked = done.into_iter().filter_map(|one| match one {
        (Effect::Walk(action), Outcome::Walked(outcome)) => Some((action, outcome)),
        _ => None,
    });
    walked.collect()
}

fn is_done(outcome: &Walked) -> bool {
    matches!(outcome, Walked::Done(_) | Walked::Gone)
}
