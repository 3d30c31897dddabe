//! GraphRevision: what a Graph said when it was last compiled. The running revision is one of these, so an edit that
//! does not compile stops nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::Node;

/// The nodes of a Graph at one generation. They cannot be changed after creation.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "experimental.kro.run",
    version = "v1alpha1",
    kind = "GraphRevision",
    namespaced,
    doc = "A GraphRevision keeps the nodes of a Graph at a generation that compiled.",
    status = "GraphRevisionStatus",
    derive = "PartialEq",
    shortname = "grev",
    category = "kardinal",
    selectable = ".spec.graphName",
    printcolumn(name = "Graph", type_ = "string", json_path = ".spec.graphName"),
    printcolumn(name = "Generation", type_ = "integer", json_path = ".spec.generation"),
    printcolumn(name = "Hash", type_ = "string", json_path = ".spec.hash", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self == oldSelf",
    "message": "a GraphRevision is immutable: edit the Graph instead",
    "reason": "FieldValueForbidden",
}]))]
pub struct GraphRevisionSpec {
    /// The Graph, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub graph_name: String,
    /// The generation of the Graph that this revision keeps.
    #[schemars(range(min = 0))]
    pub generation: i64,
    /// A hash of the nodes; revisions with the same hash do the same.
    #[schemars(length(min = 1, max = 128))]
    pub hash: String,
    /// The nodes as the Graph had them.
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub nodes: Vec<Node>,
}

/// What compiling the revision gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphRevisionStatus {
    /// The ids of the nodes in the order in which they are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
