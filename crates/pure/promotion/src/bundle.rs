//! The Bundle's part of the sentence: which Graph promotes it, where it stands, and how it ends.

mod check;
mod commit;
mod escape;
mod failure;
mod gates;
mod plan;
mod refused;
pub(crate) mod report;
mod rollback;
mod route;
mod siblings;
#[cfg(test)]
mod tests;
mod translate;
pub mod why;

use jiff::Timestamp;
use kardinal_api::graph::{Graph, Node};
use kardinal_api::kardinal::{Bundle, Pipeline, PolicyGate, PromotionStep};
use kardinal_object::{annotation_of, is_true, label_of, name_of};
use serde_json::Value;

use crate::gate_context::Surroundings;
use crate::seal::Key;

pub use check::{Refusal, check, last_verified};
pub use commit::{Commit, Search};
pub(crate) use gates::kind as gate_kind;
pub use gates::{Template, Templates, is_made_from, searched, searches, template_of};
pub use kardinal_policy::{FREEZE_LABEL, GATE_TEMPLATE_LABEL, GATE_TEMPLATE_NAMESPACE_LABEL};
pub(crate) use plan::SUPERSEDED;
pub use plan::{Effect, Plan, is_finished, phase_of, pipeline_name, plan, search, why};
pub use refused::{OFFER_AGAIN, refusal, refused};
pub(crate) use report::is_step_of;
pub use report::{GraphEnvironments, READY, Standing, graph_environments, record, report, up_to_date};
pub use route::{Route, Stop};
pub(crate) use siblings::gives_way;
pub(crate) use translate::step_spec;
pub use translate::{export_graph, graph_names, translate};

/// Everything a decision about one Bundle is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Bundle as last seen.
    pub bundle: &'a Bundle,
    /// The Pipeline that its label names.
    pub pipeline: Option<&'a Pipeline>,
    /// The other Bundles of that Pipeline, and whatever else gates see around it.
    pub around: &'a Surroundings,
    /// All gates in the namespaces that count, instances included.
    pub gates: &'a [&'a PolicyGate],
    /// The Graphs in the namespace that belong to the Bundle or have one of the names that [`graph_names`] lists; more do
    /// no harm.
    pub graphs: &'a [&'a Graph],
    /// The steps whose `bundleRef` is this Bundle.
    pub steps: &'a [&'a PromotionStep],
    /// The namespaces in which the organisation keeps its gates.
    pub policy_namespaces: &'a [String],
    /// What is known of the commit that it brings.
    pub commit: &'a Commit,
    /// The controller's key, or why it cannot be had: without it nothing that the organisation asks for is proven.
    pub key: Result<&'a Key, &'a str>,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

impl<'a> Snapshot<'a> {
    /// The other Bundles of the Pipeline.
    pub fn siblings(&self) -> impl Iterator<Item = &'a Bundle> + use<'a> {
        self.around.others.iter()
    }
}

/// Marks a Bundle that takes another one back.
pub const ROLLBACK_LABEL: &str = "kardinal.io/rollback";
/// Marks a rollback that people wait for.
pub const EMERGENCY_LABEL: &str = "kardinal.io/emergency";
/// Lists the direct upstream environments of a step or gate instance, separated by commas.
pub const UPSTREAMS_ANNOTATION: &str = "kardinal.io/upstreams";
/// Says who lets changes into the environment of a gate instance.
pub const APPROVAL_ANNOTATION: &str = "kardinal.io/approval";
/// Marks a Bundle that nobody asked for: a failure made it.
pub const AUTOMATIC_ANNOTATION: &str = "kardinal.io/automatic";

/// Whether the Bundle says that it takes another one back. Nothing is permitted because of it: see [`takes_back`].
pub fn is_rollback(bundle: &Bundle) -> bool {
    is_true(label_of(&bundle.metadata, ROLLBACK_LABEL))
}

/// Whether somebody marked the Bundle for people as urgent.
pub(crate) fn is_emergency(bundle: &Bundle) -> bool {
    is_true(label_of(&bundle.metadata, EMERGENCY_LABEL))
}

/// Whether the Bundle takes another one of its Pipeline back, by what the records of the others say. Its own labels do not
/// count: anybody can write them.
pub fn takes_back(bundle: &Bundle, others: &[Bundle]) -> bool {
    let was_verified = |other: &Bundle| {
        let mut record = other.status.iter().flat_map(|status| status.environments.values());
        record.any(|entry| entry.verified_at.is_some())
    };
    crate::seal::takes_back(bundle, others, was_verified)
}

/// Whether a failure made the Bundle, not a person.
pub fn is_automatic_rollback(bundle: &Bundle) -> bool {
    is_rollback(bundle) && is_true(annotation_of(&bundle.metadata, AUTOMATIC_ANNOTATION))
}

/// Whether a Graph promotes a Bundle: it is owned by it, or, when somebody wrote the Graph by hand, it has steps and the
/// Bundle as a node.
pub fn carries(graph: &Graph, bundle: &Bundle) -> bool {
    let name = name_of(&bundle.metadata);
    let uid = bundle.metadata.uid.as_deref().unwrap_or_default();
    let mut owners =
        graph.metadata.owner_references.iter().flatten().filter(|owner| owner.kind == "Bundle").peekable();
    if owners.peek().is_some() {
        return owners.any(|owner| owner.name == name && owner.uid == uid);
    }
    let promotes = graph.spec.nodes.iter().any(|node| kind(node.template.as_ref()) == Some("PromotionStep"));
    let reads = |node: &Node| {
        let body = node.template.as_ref().or(node.reference.as_ref());
        kind(body) == Some("Bundle")
            && body.and_then(|body| body.pointer("/metadata/name")).and_then(Value::as_str) == Some(name)
    };
    promotes && graph.spec.nodes.iter().any(reads)
}

fn kind(body: Option<&Value>) -> Option<&str> {
    body?.get("kind")?.as_str()
}
