//! The gates that exist, and whether they can be used.

use kardinal_api::kardinal::{APPLIES_TO_LABEL, ENVIRONMENT_LABEL, PolicyGate, PolicyGateSpec};
use kardinal_object::{label_of, name_of, namespace_of};
use kardinal_policy::{check_recheck_interval, is_freeze, is_skip_permission, is_template, scope, time_zone};
use serde::Serialize;

use crate::gate_context::check_expression;

/// One gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `org` or `team`.
    pub scope: &'static str,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: GateKind,
    /// The environments that it names.
    pub applies_to: Vec<String>,
    /// What has to be true.
    pub expression: String,
    /// What it tells people while it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateKind {
    /// It holds a whole Pipeline.
    Pause,
    /// One Bundle waits at it.
    Instance,
    /// It permits to skip an environment.
    SkipPermission,
    /// The template of instances.
    Gate,
}

impl GateKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            GateKind::Pause => "pause",
            GateKind::Instance => "instance",
            GateKind::SkipPermission => "skip-permission",
            GateKind::Gate => "gate",
        }
    }
}

/// The templates and pauses among some gates, or all of them, in the order of namespace and name.
pub fn gates(all: &[PolicyGate], instances: bool) -> Vec<&PolicyGate> {
    let is_shown = |gate: &&PolicyGate| instances || kind(gate) != GateKind::Instance;
    let mut gates: Vec<&PolicyGate> = all.iter().filter(is_shown).collect();
    gates.sort_by_key(|gate| (&gate.metadata.namespace, &gate.metadata.name));
    gates
}

/// What is told of a gate.
pub fn gate_row(gate: &PolicyGate) -> GateRow {
    let label = |key: &str| label_of(&gate.metadata, key);
    let named = label(APPLIES_TO_LABEL).into_iter().chain(label(ENVIRONMENT_LABEL));
    let mut applies_to: Vec<String> =
        named.chain(gate.spec.applies_to.iter().map(String::as_str)).map(str::to_owned).collect();
    applies_to.dedup();
    GateRow {
        namespace: namespace_of(&gate.metadata).to_owned(),
        name: name_of(&gate.metadata).to_owned(),
        scope: scope(gate).as_str(),
        kind: kind(gate),
        applies_to,
        expression: gate.spec.expression.clone(),
        message: gate.spec.message.clone(),
    }
}

fn kind(gate: &PolicyGate) -> GateKind {
    if is_freeze(gate) {
        GateKind::Pause
    } else if !is_template(gate) {
        GateKind::Instance
    } else if is_skip_permission(gate) {
        GateKind::SkipPermission
    } else {
        GateKind::Gate
    }
}

/// Everything that is wrong with a gate as somebody wrote it. Empty: it can be used.
pub fn gate_problems(spec: &PolicyGateSpec) -> Vec<String> {
    let interval = check_recheck_interval(spec).err();
    let interval = interval.map(|problem| format!("spec.recheckInterval: {problem}"));
    uncompiled(spec).into_iter().chain(interval).collect()
}

/// What of a gate does not compile.
pub(super) fn uncompiled(spec: &PolicyGateSpec) -> Vec<String> {
    let zone = spec.time_zone.as_deref().map(time_zone).and_then(Result::err);
    let zone = zone.map(|problem| format!("spec.timeZone: {problem}"));
    check_expression(&spec.expression).err().into_iter().chain(zone).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn gate(namespace: &str, name: &str, labels: Value) -> PolicyGate {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"expression": "true", "appliesTo": ["prod", "live"]},
        }))
        .unwrap()
    }

    #[test]
    fn gates_are_told_by_what_they_are() {
        let all = [
            gate("team", "b", json!({"kardinal.io/applies-to": "prod"})),
            gate("team", "a", json!({"kardinal.io/freeze": "true"})),
            gate("platform", "c", json!({"kardinal.io/type": "skip-permission"})),
            gate(
                "team",
                "i",
                json!({"kardinal.io/bundle": "x", "kardinal.io/gate-template": "b",
                "kardinal.io/environment": "prod"}),
            ),
        ];
        let told = |instances| -> Vec<(String, &str)> {
            let rows = gates(&all, instances).into_iter().map(gate_row);
            rows.map(|row| (format!("{}/{}", row.namespace, row.name), row.kind.as_str())).collect()
        };
        let pair = |name: &str, kind| (name.to_owned(), kind);
        let shown = [pair("platform/c", "skip-permission"), pair("team/a", "pause"), pair("team/b", "gate")];
        assert_eq!(told(false), shown);
        assert_eq!(told(true)[3..], [pair("team/i", "instance")]);
        assert_eq!(
            gate_row(&all[0]).applies_to,
            ["prod", "live"],
            "the label and the first name are the same"
        );
        assert!(gates(&[], true).is_empty());
    }

    #[test]
    fn everything_that_is_wrong_with_a_gate_is_told() {
        let told = |spec: Value| gate_problems(&serde_json::from_value(spec).unwrap());
        assert!(
            told(json!({"expression": "true", "timeZone": "Europe/Berlin", "recheckInterval": "5m"}))
                .is_empty()
        );
        let wrong = told(json!({"expression": "1 +", "timeZone": "Nowhere", "recheckInterval": "often"}));
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[1].starts_with("spec.timeZone: ") && wrong[2].starts_with("spec.recheckInterval: "));
    }
}
