//! What proves that a promotion was safe. A step gathers it and the Bundle keeps a copy that outlives the step.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::GoDuration;

/// Measurements, approvals and gate results of one promotion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Measured values by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<BTreeMap<String, f64>>,
    /// How long the promotion waited until all of its gates were open; absent where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_duration: Option<GoDuration>,
    /// Who approved the change as it was merged; empty where nobody had to. Approvals of earlier commits do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<Vec<String>>,
    /// The gates that were asked, with their answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_gates: Option<Vec<GateEvidence>>,
    /// Why nothing proves that the environment runs what was promoted, where it counts as verified all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_proven: Option<String>,
}

/// The answer of one gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateEvidence {
    /// The name of the gate template. `paused` and `own-commit` tell that a merge disregarded a pause, or brought in what
    /// kardinal did not write; `organisation-gates` that they could not be asked.
    pub name: String,
    /// The answer.
    pub result: GateResult,
    /// The values that led to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the gate was evaluated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::timestamp")]
    pub evaluated_at: Option<Timestamp>,
    /// Who merged the change although the gate was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub forced_by: Option<String>,
    /// Whether the check on the forge was still green when the change was merged although the gate was closed: it had not
    /// been renewed yet, so whoever merged could not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_was_green: Option<bool>,
}

/// What a gate answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GateResult {
    /// The promotion may go on.
    Pass,
    /// The promotion is held.
    Fail,
}
