//! PolicyGate: a condition in CEL that holds a promotion until it is true.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;
use crate::wait::Wait;

/// A condition that holds a promotion. People write templates; each Bundle gets instances of its own.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kardinal.io",
    version = "v1alpha1",
    kind = "PolicyGate",
    namespaced,
    doc = "A PolicyGate holds promotions until its CEL expression is true.",
    status = "PolicyGateStatus",
    derive = "PartialEq",
    shortname = "pg",
    category = "kardinal",
    printcolumn(name = "Ready", type_ = "boolean", json_path = ".status.ready"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Last-Evaluated", type_ = "date", json_path = ".status.lastEvaluatedAt"),
    printcolumn(name = "Expression", type_ = "string", json_path = ".spec.expression", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct PolicyGateSpec {
    /// The condition, in CEL. Anything but `true` holds the promotion, an error included.
    #[schemars(length(min = 1, max = 65536))]
    pub expression: String,
    /// What to tell people while the gate is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub message: Option<String>,
    /// The longest time between two evaluations, at least `10s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "5m", "x-kubernetes-validations" = [{
        "rule": "duration(self) >= duration('10s')",
        "message": "a gate is asked again after 10s at the earliest: write `10s` or more, such as `5m`",
    }]))]
    pub recheck_interval: Option<GoDuration>,
    /// The time zone of `schedule`, such as `Europe/Berlin`. Absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// The state of the step before the gate; in a Graph the reference to it is also the dependency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub upstream_environment: Option<String>,
    /// The environments that the template guards, in addition to the label `kardinal.io/applies-to`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 250),
        inner(length(min = 1, max = 63)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub applies_to: Vec<String>,
    /// Patterns of directories or files in the repository: the template also guards every environment that writes there,
    /// whatever its name. `*` stands for any characters but `/`, `**` for any directories; a directory includes all
    /// that is below it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 1024)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub applies_to_paths: Vec<String>,
    /// Patterns of branches: the template also guards every environment whose change ends up on one of them, whatever
    /// its name. `*` stands for any characters but `/`, `**` for any at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 255)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub applies_to_branches: Vec<String>,
    /// Whether the gate permits skipping an environment instead of guarding it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_permission: Option<bool>,
    /// When the gate is asked: `pre-deploy` before the environment changes, `post-deploy` after. Absent: before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GateStage")]
    pub when: Option<GateStage>,
    /// Who let promotions pass in spite of the gate, and until when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub overrides: Vec<GateOverride>,
}

/// When a gate is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateStage {
    /// Before the environment changes.
    #[default]
    PreDeploy,
    /// After the environment has changed.
    PostDeploy,
}

/// A permission to pass in spite of a gate. On a gate of the organisation only those count that stand in its template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.__namespace__) || !(has(self.pipeline) || has(self.bundle))",
    "message": "an override for one Pipeline or Bundle needs its `namespace`: the same name may be another's elsewhere",
}]))]
pub struct GateOverride {
    /// Why.
    #[schemars(length(min = 1, max = 4096))]
    pub reason: String,
    /// The environment that it holds for. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub stage: Option<String>,
    /// Where that environment writes: patterns of directories or files as in `appliesToPaths`. An override for one
    /// environment counts on a gate with `appliesToPaths` only for what lies there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 1024)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub paths: Vec<String>,
    /// The branches that it writes: patterns as in `appliesToBranches`. An override for one environment counts on a gate with
    /// `appliesToBranches` only for these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 255)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub branches: Vec<String>,
    /// The namespace that it holds for. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// The Pipeline in that namespace that it holds for. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub pipeline: Option<String>,
    /// The Bundle in that namespace that it holds for. Absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub bundle: Option<String>,
    /// Until when it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub expires_at: Option<Timestamp>,
    /// When it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub created_at: Option<Timestamp>,
    /// Who gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub created_by: Option<String>,
}

/// What the controller found when it asked the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyGateStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether promotions may pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// The values that led to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the gate was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub last_evaluated_at: Option<Timestamp>,
    /// The earliest time at which the answer can change by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub next_change_at: Option<Timestamp>,
    /// What a closed gate waits for. Empty when it is open, and for a template, which holds nobody.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub waits: Vec<Wait>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
