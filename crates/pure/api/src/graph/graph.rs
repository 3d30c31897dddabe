//! Graph: objects and values that refer to each other, applied in the order of the references.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::GoDuration;
use crate::wait::Who;

/// Objects and values that refer to each other.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "experimental.kro.run",
    version = "v1alpha1",
    kind = "Graph",
    namespaced,
    doc = "A Graph is a set of nodes that refer to each other; its objects are applied in the order of the references.",
    status = "GraphStatus",
    derive = "PartialEq",
    shortname = "gr",
    category = "kardinal",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(
        name = "Compiled",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Compiled")].status"#,
        priority = 1
    ),
    printcolumn(name = "Revision", type_ = "string", json_path = ".status.revision", priority = 1),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct GraphSpec {
    /// The nodes. Their order in the list has no meaning; references between them make the order.
    #[schemars(
        length(max = 4096),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"])
    )]
    pub nodes: Vec<Node>,
    /// A ServiceAccount of the Graph's namespace. With it, everything that the nodes read and write is read and written
    /// with the rights of that account, in every namespace; without it, the Graph acts in its own namespace only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        length(min = 1, max = 253)
    )]
    pub service_account_name: Option<String>,
}

/// One node: exactly one of `template`, `patch`, `ref`, `watch` and `def`, and what modifies it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.template) ? 1 : 0) + (has(self.patch) ? 1 : 0) + (has(self.ref) ? 1 : 0) \
             + (has(self.watch) ? 1 : 0) + (has(self.def) ? 1 : 0) == 1",
    "message": "a node has exactly one of `template`, `patch`, `ref`, `watch` and `def`",
}]))]
pub struct Node {
    /// The name under which expressions refer to the node.
    #[schemars(regex(pattern = r"^[A-Za-z][A-Za-z0-9]{0,62}$"), length(max = 63))]
    pub id: String,
    /// An object that the Graph creates and owns; it is deleted with the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub template: Option<Value>,
    /// Fields that the Graph contributes to an object of somebody else; they are given up with the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub patch: Option<Value>,
    /// An object that the Graph reads, by name.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "ref")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub reference: Option<Value>,
    /// Objects that the Graph reads as a list, by kind and selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub watch: Option<Value>,
    /// Values that are computed and belong to no object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub def: Option<Value>,
    /// Repeats the node for each element of a list: `name: ${list}` names the variable, and a list of such maps with one
    /// entry each gives all combinations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::free_form")]
    pub for_each: Option<Value>,
    /// The node exists only while all of these are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub include_when: Vec<String>,
    /// The node counts as healthy while all of these are true; nothing waits for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub ready_when: Vec<String>,
    /// The node's data reaches its dependents only while all of these are true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub propagate_when: Vec<String>,
    /// The node whose object may only be deleted after this one was created and became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub finalizes: Option<String>,
    /// Nodes that come first although no expression refers to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 4096),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub depends_on: Vec<String>,
    /// The longest time after which the node is evaluated again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recheck_after: Option<GoDuration>,
    /// How the object is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// How the object of a node is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// `Force` takes fields and objects over from their present owners.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ApplyPolicy")]
    pub apply: Option<ApplyPolicy>,
}

/// What to do about fields and objects that belong to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApplyPolicy {
    /// Take them over.
    Force,
}

/// What the controller knows about a Graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GraphStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds and what does not: `Compiled` and `Ready`, and during deletion `TeardownBlocked`,
    /// `FinalizerSkipped` and `LeftBehind`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The GraphRevision that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The kinds of all objects that the Graph may have applied, written before the first of them is applied; a
    /// deletion finds the objects by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["apiVersion", "kind"]))]
    pub kinds: Vec<KindReference>,
    /// Where each node stands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub nodes: Vec<NodeStatus>,
}

/// A kind of objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindReference {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum NodeState {
    /// Applied, and all of `readyWhen` are true.
    Ready,
    /// Applied, but something in `readyWhen` is not true.
    NotReady,
    /// Waits for data.
    Pending,
    /// Left out by `includeWhen`, its own or that of a node it needs.
    Excluded,
    /// Waits for a node that failed.
    Blocked,
    /// Somebody else owns the object or some of its fields.
    Conflict,
    /// The API server refuses the object, or an expression fails.
    Error,
    /// The API server could not be reached; it is tried again.
    SystemError,
}

impl NodeState {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Ready => "Ready",
            NodeState::NotReady => "NotReady",
            NodeState::Pending => "Pending",
            NodeState::Excluded => "Excluded",
            NodeState::Blocked => "Blocked",
            NodeState::Conflict => "Conflict",
            NodeState::Error => "Error",
            NodeState::SystemError => "SystemError",
        }
    }
}

/// Where a node stands, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node.
    #[schemars(length(max = 63))]
    pub id: String,
    /// Where it stands.
    pub state: NodeState,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// The objects that it has applied or reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectReference>,
    /// Whether its data reaches its dependents.
    #[serde(default)]
    #[schemars(!default)]
    pub propagating: bool,
    /// Whether its object keeps an earlier state because data is held back.
    #[serde(default)]
    #[schemars(!default)]
    pub retained: bool,
}

/// One thing that a node waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// The node that is waited for.
    pub node: String,
    /// The kind of waiting, such as `NotInScope`, `GateClosed` or `DataMissing`.
    pub why: String,
    /// Whose turn it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Who")]
    pub who: Option<Who>,
    /// The expression or field in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The earliest time at which the waiting can end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub until: Option<Timestamp>,
}

/// An object by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; absent for objects of the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}
