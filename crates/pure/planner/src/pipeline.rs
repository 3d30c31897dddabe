//! The Pipeline's part of the sentence: is it well formed, and how do its environments stand?

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kardinal_api::kardinal::{Pipeline, PipelinePhase, PipelineStatus, PromotionState, PromotionStep};

use crate::bundle::report::{newest, whole_second};
use crate::bundle::{Problem, READY, Route};
use crate::graph::Note;

/// Everything a decision about one Pipeline is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Pipeline as last seen.
    pub pipeline: &'a Pipeline,
    /// The steps of its Bundles.
    pub steps: &'a [&'a PromotionStep],
    /// Whether a Bundle is on its way: it may have verified one environment and not yet begun with the next.
    pub promoting: bool,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What one pass tells. There is nothing to do about a Pipeline: its Bundles act.
#[derive(Debug, Default)]
pub struct Plan {
    /// The whole status, when it differs from the one observed.
    pub status: Option<PipelineStatus>,
    /// Transitions worth an Event.
    pub notes: Vec<Note>,
}

/// Whether the environments have an order.
pub fn check(pipeline: &Pipeline) -> Result<Route<'_>, Problem> {
    Route::whole(&pipeline.spec)
}

/// Decides what to tell.
pub fn plan(snapshot: &Snapshot<'_>) -> Plan {
    let pipeline = snapshot.pipeline;
    let checked = check(pipeline);
    let phase = checked.as_ref().map_or(PipelinePhase::Unknown, |route| phase(route, snapshot));
    let (ready, reason, message) = match &checked {
        Ok(route) => ("True", "Valid", order(route)),
        Err(problem) => ("False", "ValidationFailed", problem.to_string()),
    };
    let old = pipeline.status.clone().unwrap_or_default();
    let before = old.conditions.iter().find(|condition| condition.type_ == READY);
    let same = before.filter(|before| before.status == ready);
    let mut notes = Vec::new();
    if same.is_none() {
        notes.push(Note { warning: ready == "False", reason: reason.to_owned(), message: message.clone() });
    }
    let condition = Condition {
        type_: READY.to_owned(),
        status: ready.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: pipeline.metadata.generation,
        last_transition_time: same
            .map_or_else(|| Time(whole_second(snapshot.now)), |before| before.last_transition_time.clone()),
    };
    let others = old.conditions.iter().filter(|condition| condition.type_ != READY).cloned();
    let status = PipelineStatus {
        observed_generation: pipeline.metadata.generation,
        phase: Some(phase),
        conditions: others.chain([condition]).collect(),
    };
    Plan { status: (status != old).then_some(status), notes }
}

/// By the newest step of each environment: one failed is enough to be degraded, all must be verified to be ready,
/// and nothing may be on its way.
fn phase(route: &Route<'_>, snapshot: &Snapshot<'_>) -> PipelinePhase {
    let newest = newest(snapshot.steps);
    let state = |name: &str| {
        let step = newest.iter().find(|step| step.spec.environment == name)?;
        step.status.as_ref()?.state
    };
    let states: Vec<Option<PromotionState>> = route.names().map(state).collect();
    if states.contains(&Some(PromotionState::Failed)) {
        PipelinePhase::Degraded
    } else if !snapshot.promoting && states.iter().all(|state| *state == Some(PromotionState::Verified)) {
        PipelinePhase::Ready
    } else {
        PipelinePhase::Unknown
    }
}

/// `dev → staging → prod`, or how many environments where they branch.
fn order(route: &Route<'_>) -> String {
    let names: Vec<&str> = route.names().collect();
    let line = route.stops().iter().zip(names.iter().skip(1)).all(|(stop, next)| {
        route.stop(next).is_some_and(|after| after.upstreams == [stop.environment.name.as_str()])
    });
    if line { names.join(" → ") } else { format!("{} environments in order", names.len()) }
}

#[cfg(test)]
mod tests;
