//! `experimental.kro.run/v1alpha1`: sets of objects that are applied in the order of their references.

#[expect(clippy::module_inception, reason = "a file is named after its kind, and this kind after its group")]
mod graph;
mod graph_revision;

use kube::CustomResourceExt as _;

use crate::group::{ApiGroup, CHANGE, Holder, READ, REPORT, Right, WRITE};

pub use graph::{
    ApplyPolicy, Graph, GraphSpec, GraphStatus, KindReference, Lifecycle, Node, NodeState, NodeStatus,
    ObjectReference, Wait,
};
pub use graph_revision::{GraphRevision, GraphRevisionSpec, GraphRevisionStatus};

/// The API group of the Graph kinds.
pub const GROUP: &str = "experimental.kro.run";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

const KINDS: &[&str] = &["graphs", "graphrevisions"];

/// What the group brings along.
pub(crate) const API_GROUP: ApiGroup = ApiGroup {
    name: GROUP,
    crds: || vec![Graph::crd(), GraphRevision::crd()],
    rights: &[
        Right { who: Holder::Controllers, resources: &["graphs"], verbs: WRITE },
        Right { who: Holder::Controllers, resources: &["graphrevisions"], verbs: READ },
        Right { who: Holder::Graphs, resources: KINDS, verbs: WRITE },
        Right { who: Holder::Graphs, resources: &["graphs/status", "graphrevisions/status"], verbs: REPORT },
        Right {
            who: Holder::Graphs,
            resources: &["graphs/finalizers", "graphrevisions/finalizers"],
            verbs: &["update"],
        },
        Right { who: Holder::Viewers, resources: KINDS, verbs: READ },
        Right { who: Holder::Editors, resources: &["graphs"], verbs: CHANGE },
    ],
};

/// The condition that says whether the newest spec could be compiled.
pub const COMPILED: &str = "Compiled";
/// The condition that says whether everything is applied and healthy.
pub const READY: &str = "Ready";
/// The condition that names what keeps a deletion from going on.
pub const TEARDOWN_BLOCKED: &str = "TeardownBlocked";
/// The condition that names `finalizes` nodes that a deletion had to leave out.
pub const FINALIZER_SKIPPED: &str = "FinalizerSkipped";
/// The condition that names the objects which a deletion may not remove and therefore leaves as they are.
pub const LEFT_BEHIND: &str = "LeftBehind";
