//! What Graphs, their revisions and the objects that they manage are found by.

use kardinal_api::graph::{Graph, GraphRevision};
use kardinal_cluster::Facet;
use kardinal_graph::referring_graphs;
use serde_json::Value;

use crate::dialect::{FacetsOf, owners};
use crate::reconcile::objects::{is, text};

/// Anything: the uid of a Graph whose reference label it carries.
pub(crate) const MANAGED_BY: &str = "managed by Graph";
/// A GraphRevision: the uid of its Graph.
pub(crate) const REVISION_OF: &str = "revision of Graph";
/// A Graph: its uid.
pub(crate) const UID: &str = "uid";

/// By kind.
pub(super) const FACETS: &[FacetsOf] = &[
    FacetsOf { kind: |_| true, found_by: of_any },
    FacetsOf { kind: is::<Graph>, found_by: of_graph },
    FacetsOf { kind: is::<GraphRevision>, found_by: of_revision },
];

fn of_any(object: &Value, all: &mut Vec<Facet>) {
    all.extend(referring_graphs(object).map(|uid| (MANAGED_BY, uid.to_owned())));
}

fn of_graph(graph: &Value, all: &mut Vec<Facet>) {
    all.push((UID, text(graph, "/metadata/uid").to_owned()));
}

fn of_revision(revision: &Value, all: &mut Vec<Facet>) {
    all.extend(owners(revision).map(|owner| (REVISION_OF, text(owner, "/uid").to_owned())));
}
