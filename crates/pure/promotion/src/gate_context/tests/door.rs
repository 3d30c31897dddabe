//! A Bundle at the door of an environment, built in a few words.

use jiff::Timestamp;
use kardinal_api::kardinal::Approval;
use kardinal_api::{Bundle, PolicyGateSpec};
use kardinal_policy::Verdict;
use serde_json::{Value, json};

use crate::gate_context::{self, EnvironmentFacts, GateContext};

/// Tuesday.
pub(super) const NOW: &str = "2026-04-14T14:00:00Z";

/// What a gate is asked about.
pub(super) struct Door {
    pub(super) bundle: Bundle,
    pub(super) previous: Option<Bundle>,
    pub(super) upstreams: Vec<String>,
    pub(super) now: Timestamp,
}

/// The door of `prod` behind `staging`, with a Bundle that is verified nowhere.
pub(super) fn door() -> Door {
    Door { bundle: bundle(&json!({})), previous: None, upstreams: vec!["staging".to_owned()], now: at(NOW) }
}

/// A Bundle with these fields besides the usual ones.
pub(super) fn bundle(fields: &Value) -> Bundle {
    let mut object = json!({
        "apiVersion": "kardinal.io/v1alpha1",
        "kind": "Bundle",
        "metadata": { "name": "my-app-v1-29-0", "namespace": "team", "creationTimestamp": "2026-04-14T08:00:00Z" },
        "spec": {
            "type": "image",
            "artifacts": { "images": [{ "name": "my-app", "reference": "ghcr.io/myorg/my-app:1.29.0" }] },
        },
    });
    merge(&mut object, fields);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

impl Door {
    /// The same at another time.
    pub(super) fn at(mut self, now: &str) -> Door {
        self.now = at(now);
        self
    }

    /// The same with a Bundle that has these fields.
    pub(super) fn with(mut self, fields: &Value) -> Door {
        self.bundle = bundle(fields);
        self
    }

    /// The same with environments that were verified at these times.
    pub(super) fn verified(mut self, environments: &[(&str, &str)]) -> Door {
        self.upstreams = environments.iter().map(|(name, _)| (*name).to_owned()).collect();
        let records: serde_json::Map<String, Value> = environments
            .iter()
            .filter(|(_, when)| !when.is_empty())
            .map(|(name, when)| ((*name).to_owned(), json!({ "state": "Verified", "verifiedAt": when })))
            .collect();
        self.bundle.status = Some(serde_json::from_value(json!({ "environments": records })).unwrap());
        self
    }

    /// What a gate of `prod` is told.
    pub(super) fn context(&self) -> GateContext {
        let environment =
            EnvironmentFacts { name: "prod", approval: Approval::PrReview, upstreams: &self.upstreams };
        gate_context::of(&self.bundle, self.previous.as_ref(), environment, self.now)
    }

    /// Asks a gate.
    pub(super) fn ask(&self, gate: &PolicyGateSpec) -> Verdict {
        kardinal_policy::evaluate("gate", gate, &self.context())
    }

    /// Asks a gate with this expression.
    pub(super) fn says(&self, expression: &str) -> Verdict {
        self.ask(&gate(expression))
    }
}

/// A gate with this expression.
pub(super) fn gate(expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { expression: expression.to_owned(), ..PolicyGateSpec::default() }
}

/// A gate with this expression in a time zone.
pub(super) fn gate_in(zone: &str, expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { time_zone: Some(zone.to_owned()), ..gate(expression) }
}

/// An instant.
pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
