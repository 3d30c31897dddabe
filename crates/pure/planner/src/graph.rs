//! The Graph's part of the sentence: observe → **check** → **plan** → act → **report**.

pub mod check;
pub mod plan;
pub mod report;
mod state;
#[cfg(test)]
mod tests;
mod why;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kardinal_api::graph::{Graph, GraphRevision};
use kardinal_graph::{Changed, Fence, Observed, Owner, Parent};

pub use check::{Checked, Running, check};
pub use plan::{Effect, Memory, Plan, plan};
pub use report::{Report, is_urgent, report};
pub use state::states;

/// Keeps a Graph until everything it manages is gone.
pub const FINALIZER: &str = "experimental.kro.run/graph-controller";
/// The field manager of a Graph's status, finalizer and revisions.
pub const MANAGER: &str = "kardinal-graph-controller";

/// Everything a decision about one Graph is made from.
pub struct Snapshot<'a> {
    /// The Graph as last seen.
    pub graph: &'a Graph,
    /// Its revisions, oldest first.
    pub revisions: &'a [GraphRevision],
    /// The objects it reads and manages.
    pub world: &'a dyn Observed,
    /// How far Graphs reach that name no ServiceAccount.
    pub scope: GraphScope,
    /// What changed since the last pass.
    pub changed: Changed,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What the operator lets Graphs do that name no ServiceAccount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphScope {
    /// They act in their own namespace.
    #[default]
    Namespace,
    /// They do whatever the controller may. Whoever may write a Graph in any namespace then has these rights.
    Cluster,
}

/// How far a Graph reaches. A ServiceAccount that it names decides alone, whatever the operator allows others.
pub fn fence(graph: &Graph, scope: GraphScope) -> Fence {
    match (&graph.spec.service_account_name, scope) {
        (Some(account), _) => Fence::Account(account.clone()),
        (None, GraphScope::Namespace) => Fence::Namespace,
        (None, GraphScope::Cluster) => Fence::Cluster,
    }
}

/// The Graph on whose behalf objects are managed.
pub fn owner(graph: &Graph) -> Owner {
    let meta = &graph.metadata;
    Owner {
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        parents: meta.owner_references.iter().flatten().map(parent).collect(),
    }
}

fn parent(owner: &OwnerReference) -> Parent {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    Parent {
        group: group.to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
    }
}
