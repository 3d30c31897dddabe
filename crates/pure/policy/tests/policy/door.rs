//! A Bundle at the door of an environment, built in a few words.

use jiff::Timestamp;
use kardinal_api::kardinal::Approval;
use kardinal_api::{Bundle, PolicyGateSpec};
use kardinal_policy::{EnvironmentFacts, Facts, Verdict};
use serde_json::{Value, json};

/// Tuesday.
pub(crate) const NOW: &str = "2026-04-14T14:00:00Z";

/// What a gate is asked about.
pub(crate) struct Door {
    pub(crate) bundle: Bundle,
    pub(crate) previous: Option<Bundle>,
    pub(crate) upstreams: Vec<String>,
    pub(crate) now: Timestamp,
}

/// The door of `prod` behind `staging`, with a Bundle that is verified nowhere.
pub(crate) fn door() -> Door {
    Door { bundle: bundle(&json!({})), previous: None, upstreams: vec!["staging".to_owned()], now: at(NOW) }
}

/// A Bundle with these fields besides the usual ones.
pub(crate) fn bundle(fields: &Value) -> Bundle {
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
    pub(crate) fn at(mut self, now: &str) -> Door {
        self.now = at(now);
        self
    }

    /// The same with a Bundle that has these fields.
    pub(crate) fn with(mut self, fields: &Value) -> Door {
        self.bundle = bundle(fields);
        self
    }

    /// The same with environments that were verified at these times.
    pub(crate) fn verified(mut self, environments: &[(&str, &str)]) -> Door {
        self.upstreams = environments.iter().map(|(name, _)| (*name).to_owned()).collect();
        let records: serde_json::Map<String, Value> = environments
            .iter()
            .filter(|(_, when)| !when.is_empty())
            .map(|(name, when)| ((*name).to_owned(), json!({ "state": "Verified", "verifiedAt": when })))
            .collect();
        self.bundle.status = Some(serde_json::from_value(json!({ "environments": records })).unwrap());
        self
    }

    /// The facts of `prod`.
    pub(crate) fn facts(&self) -> Facts<'_> {
        let environment =
            EnvironmentFacts { name: "prod", approval: Approval::PrReview, upstreams: &self.upstreams };
        Facts { bundle: &self.bundle, environment, previous: self.previous.as_ref(), now: self.now }
    }

    /// Asks a gate.
    pub(crate) fn ask(&self, gate: &PolicyGateSpec) -> Verdict {
        kardinal_policy::evaluate(gate, &self.facts())
    }

    /// Asks a gate with this expression.
    pub(crate) fn says(&self, expression: &str) -> Verdict {
        self.ask(&gate(expression))
    }
}

/// A gate with this expression.
pub(crate) fn gate(expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { expression: expression.to_owned(), ..PolicyGateSpec::default() }
}

/// A gate with this expression in a time zone.
pub(crate) fn gate_in(zone: &str, expression: &str) -> PolicyGateSpec {
    PolicyGateSpec { time_zone: Some(zone.to_owned()), ..gate(expression) }
}

/// An instant.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}
