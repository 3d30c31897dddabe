//! A Graph that cannot be: it is too large, or the API server does not take it.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::graph::{Graph, Node};
use kardinal_api::kardinal::BundlePhase;

use super::plan::{phase_of, recorded};
use super::problem::Problem;
use super::report::{Standing, record, report};
use super::{Plan, Snapshot};
use crate::graph::check::excess;

/// When a Graph is offered again that the API server did not take. What keeps it out may be somebody else's to change, such
/// as a quota, and nobody tells when that has happened.
const OFFER_AGAIN: SignedDuration = SignedDuration::from_mins(1);

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
    let message = format!("with {gates} gates at {steps} environments the Graph of this Bundle has {excess}");
    Err(Problem::new("spec.environments", message)
        .hint("let fewer gates apply to the environments, or make several Pipelines of this one"))
}

/// The plan of a Bundle whose Graph the API server does not take: what it says is told, and the Bundle waits.
pub fn refused(snapshot: &Snapshot<'_>, graph: &str, why: &str) -> Plan {
    let standing = Standing {
        phase: phase_of(snapshot.bundle).unwrap_or(BundlePhase::Available),
        ready: "False",
        reason: "GraphRefused".to_owned(),
        message: format!("the API server does not take the Graph `{graph}`: {why}"),
    };
    let graph_ref = snapshot.bundle.status.as_ref().and_then(|status| status.graph_ref.clone());
    let environments = record(&recorded(snapshot), snapshot.steps);
    let (status, notes) = report(snapshot, &standing, environments, graph_ref);
    let wake = snapshot.now.saturating_add(OFFER_AGAIN).unwrap_or(Timestamp::MAX);
    Plan { status, notes, wake: Some(wake), ..Plan::default() }
}
