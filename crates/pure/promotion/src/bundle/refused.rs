//! What a Bundle needs and the API server does not take: a Graph that is too large, a write that is refused.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kardinal_api::graph::{Graph, Node};
use kardinal_api::kardinal::{Bundle, BundlePhase};
use kardinal_object::name_of;

use super::plan::{Effect, is_finished, phase_of, plan};
use super::report::{READY, Standing, record, report};
use super::rollback::{PUT_OFF, set};
use super::why::reason::{GRAPH_REFUSED, ROLLBACK_REFUSED};
use super::{Plan, Snapshot, why};
use kardinal_planner::condition::{self, NewCondition, Truth};
use kardinal_planner::graph::check::excess;
use kardinal_planner::problem::Problem;
use kardinal_planner::why::Wait;

/// When an object is offered again that the API server did not take. What keeps it out may be somebody else's to change,
/// such as a quota, and nobody tells when that has happened.
pub const OFFER_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// A Graph has a node for each environment and for each gate at it, so a Pipeline with very many of them has none.
pub(super) fn check_size(graph: &Graph) -> Result<(), Problem> {
    let Some(excess) = excess(&graph.spec.nodes) else { return Ok(()) };
    let of = |kind: &str| {
        let is_one = |node: &&Node| {
            let found = node.template.as_ref().and_then(|template| template.get("kind"));
            found.and_then(serde_json::Value::as_str) == Some(kind)
        };
        graph.spec.nodes.iter().filter(is_one).count()
    };
    let (steps, gates) = (of("PromotionStep"), of("PolicyGate"));
    let message = format!(
        "with {gates} × PolicyGate and {steps} × PromotionStep the Graph of this Bundle has {excess}"
    );
    Err(Problem::new("spec.environments", message)
        .hint("let fewer gates apply to the environments, or make several Pipelines of this one"))
}

/// The plan of a Bundle when the API server refuses one of its effects: what it says is told, and the Bundle waits.
pub fn refused(snapshot: &Snapshot<'_>, effect: &Effect, why: &str) -> Plan {
    let wake = snapshot.now.saturating_add(OFFER_AGAIN).unwrap_or(Timestamp::MAX);
    let wait = match effect {
        Effect::CreateGraph(graph) => {
            let name = name_of(&graph.metadata);
            let said = format!("the API server does not take the Graph `{name}`: {why}");
            why::refused(GRAPH_REFUSED, &said)
        }
        Effect::CreateBundle(bundle) => {
            let name = name_of(&bundle.metadata);
            let said = format!("the API server does not take the Bundle `{name}`, which rolls back: {why}");
            why::refused(ROLLBACK_REFUSED, &said)
        }
        // What ends stays on record as it ended: that something is left over changes nothing about it, and holds up
        // nothing that has become known since.
        Effect::DeleteGraph { .. } | Effect::DeleteBundle { .. } => {
            return Plan { stages: Vec::new(), wake: Some(wake), ..only_deleting(snapshot) };
        }
    };
    if phase_of(snapshot.bundle).is_some_and(is_finished) {
        return Plan { wake: Some(wake), ..still_put_off(snapshot, wait) };
    }
    let standing = Standing::held(phase_of(snapshot.bundle).unwrap_or(BundlePhase::Available), wait);
    let graph_ref = snapshot.bundle.status.as_ref().and_then(|status| status.graph_ref.clone());
    let environments = record(snapshot.bundle, snapshot.steps);
    let (status, notes) = report(snapshot, &standing, environments, graph_ref);
    Plan { status, notes, wake: Some(wake), ..Plan::default() }
}

/// The rollback of a Bundle that has ended is not taken: how the Bundle ended stays on record beside that.
fn still_put_off(snapshot: &Snapshot<'_>, wait: Wait) -> Plan {
    let mut status = snapshot.bundle.status.clone().unwrap_or_default();
    let new = NewCondition::new(PUT_OFF, Truth::True, ROLLBACK_REFUSED, wait.detail.as_str());
    if !new.is_news(&status.conditions) {
        return Plan::default();
    }
    let notes = vec![new.note(true)];
    set(snapshot, &mut status, new);
    status.waits = vec![wait];
    Plan { status: Some(status), notes, ..Plan::default() }
}

/// The plan, if it makes nothing: what shall be made comes before the record of it.
fn only_deleting(snapshot: &Snapshot<'_>) -> Plan {
    let plan = plan(snapshot);
    let deletes =
        |effect: &&Effect| matches!(effect, Effect::DeleteGraph { .. } | Effect::DeleteBundle { .. });
    if plan.effects().iter().all(deletes) { plan } else { Plan::default() }
}

/// What the API server says against the Graph or the rollback of a Bundle, by the Bundle's own conditions.
pub fn refusal(bundle: &Bundle) -> Option<Wait> {
    let conditions = &bundle.status.as_ref()?.conditions;
    let refused = |one: &&Condition| match one.type_.as_str() {
        READY => {
            condition::is(one, Truth::False)
                && [GRAPH_REFUSED, ROLLBACK_REFUSED].contains(&one.reason.as_str())
        }
        PUT_OFF => condition::is(one, Truth::True) && one.reason == ROLLBACK_REFUSED,
        _ => false,
    };
    conditions.iter().find(refused).map(|one| why::refused(&one.reason, &one.message))
}
