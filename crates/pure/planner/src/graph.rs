//! The Graph's part of the sentence: observe → **check** → **plan** → act → **report**.

pub mod check;
pub mod plan;
pub mod report;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::graph::{Graph, GraphRevision};
use kardinal_graph::{Changed, Observed, Owner};

pub use check::{Checked, Running, check};
pub use plan::{Effect, Memory, Plan, plan};
pub use report::{Note, Report, report};

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
    /// What changed since the last pass.
    pub changed: Changed,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// The Graph on whose behalf objects are managed.
pub fn owner(graph: &Graph) -> Owner {
    let meta = &graph.metadata;
    Owner {
        name: meta.name.clone().unwrap_or_default(),
        namespace: meta.namespace.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}

fn name_of(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
