//! What gates are for.

use std::collections::BTreeMap;

use kardinal_api::PolicyGate;
use kardinal_policy::{Scope, applies_to, is_freeze, is_skip_permission, is_template, scope};

use super::door::gate;

fn labelled(labels: &[(&str, &str)]) -> PolicyGate {
    let mut gate = PolicyGate::new("gate", gate("true"));
    let labels: BTreeMap<String, String> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    gate.metadata.labels = Some(labels);
    gate
}

#[test]
fn a_gate_guards_what_its_label_or_its_list_names() {
    let mut gate = labelled(&[("kardinal.io/applies-to", "prod")]);
    assert!(applies_to(&gate, "prod") && !applies_to(&gate, "staging"));
    gate.spec.applies_to = vec!["staging".to_owned()];
    assert!(applies_to(&gate, "prod") && applies_to(&gate, "staging") && !applies_to(&gate, "dev"));
    assert!(!applies_to(&PolicyGate::new("gate", gate.spec), "prod"));
}

#[test]
fn instances_and_pauses_are_no_templates() {
    assert!(is_template(&labelled(&[])));
    assert!(is_template(&labelled(&[("kardinal.io/freeze", "false")])));
    assert!(!is_template(&labelled(&[("kardinal.io/gate-template", "no-weekend")])));
    assert!(!is_template(&labelled(&[("kardinal.io/freeze", "true")])));
    assert!(is_freeze(&labelled(&[("kardinal.io/freeze", "true")])));
}

#[test]
fn kind_and_scope_come_from_labels() {
    assert!(is_skip_permission(&labelled(&[("kardinal.io/type", "skip-permission")])));
    assert!(!is_skip_permission(&labelled(&[("kardinal.io/type", "gate")])));
    let mut gate = labelled(&[]);
    gate.spec.skip_permission = Some(true);
    assert!(is_skip_permission(&gate));
    assert_eq!(scope(&labelled(&[("kardinal.io/scope", "org")])), Scope::Org);
    assert_eq!(scope(&labelled(&[("kardinal.io/scope", "team")])), Scope::Team);
    assert_eq!(scope(&labelled(&[])), Scope::Team);
}
