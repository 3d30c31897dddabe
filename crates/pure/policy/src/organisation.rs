//! Which gates speak for the organisation, and for what.

use jiff::Timestamp;
use kardinal_api::kardinal::PolicyGate;
use kardinal_object::{created_at, label_of};

use crate::gate::{GATE_TEMPLATE_NAMESPACE_LABEL, Scope, is_template, scope};

/// Whether a gate is one of the organisation's: a template that says so, in a namespace that the operator has named. Anywhere
/// else nobody speaks for it.
pub fn is_organisations(gate: &PolicyGate, policy_namespaces: &[String]) -> bool {
    let namespace = gate.metadata.namespace.as_deref().unwrap_or_default();
    is_template(gate) && scope(gate) == Scope::Org && policy_namespaces.iter().any(|name| name == namespace)
}

/// Whether a gate is one of the organisation's and was there when what it is asked about was created; later ones are for later
/// objects. Both times are the API server's. What has none is yet to be created, and everything counts for it.
pub fn speaks_for_organisation(
    gate: &PolicyGate,
    policy_namespaces: &[String],
    created: Option<Timestamp>,
) -> bool {
    let written = created_at(&gate.metadata);
    is_organisations(gate, policy_namespaces)
        && created.is_none_or(|created| written.is_none_or(|written| written <= created))
}

/// Whether a gate instance says that it shows a gate of the organisation. Its labels are the team's to write, so it can only
/// lose weight by that.
pub fn shows_organisation(instance: &PolicyGate, policy_namespaces: &[String]) -> bool {
    let namespace = label_of(&instance.metadata, GATE_TEMPLATE_NAMESPACE_LABEL);
    !is_template(instance)
        && scope(instance) == Scope::Org
        && namespace.is_some_and(|namespace| policy_namespaces.iter().any(|name| name == namespace))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gate(namespace: &str, labels: &[(&str, &str)], written: Option<&str>) -> PolicyGate {
        let labels: serde_json::Map<String, serde_json::Value> =
            labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let metadata =
            json!({"name": "g", "namespace": namespace, "labels": labels, "creationTimestamp": written});
        let gate = json!({"metadata": metadata, "spec": {"expression": "true"}});
        serde_json::from_value(gate).unwrap()
    }

    #[test]
    fn the_organisation_speaks_in_its_own_namespaces_and_for_what_came_later() {
        const ORG: (&str, &str) = ("kardinal.io/scope", "org");
        let policies = ["org".to_owned(), "more".to_owned()];
        let (before, then, after) = ("2026-04-09T09:00:00Z", "2026-04-09T10:00:00Z", "2026-04-09T10:00:01Z");
        for (gate, ours, counts) in [
            (gate("org", &[ORG], Some(before)), true, true),
            (gate("more", &[ORG], Some(then)), true, true),
            (gate("org", &[ORG], None), true, true),
            (gate("org", &[ORG], Some(after)), true, false),
            (gate("org", &[], Some(before)), false, false),
            (gate("team-a", &[ORG], Some(before)), false, false),
            (gate("org", &[ORG, ("kardinal.io/gate-template", "g")], Some(before)), false, false),
            (gate("org", &[ORG, ("kardinal.io/freeze", "true")], Some(before)), false, false),
        ] {
            assert_eq!(is_organisations(&gate, &policies), ours, "{gate:?}");
            assert_eq!(speaks_for_organisation(&gate, &policies, then.parse().ok()), counts, "{gate:?}");
            assert_eq!(speaks_for_organisation(&gate, &policies, None), ours, "{gate:?}");
        }
    }
}
