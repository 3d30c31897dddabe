//! What gates are for, and what Bundles are called.

use std::collections::BTreeMap;

use kardinal_api::PolicyGate;
use kardinal_policy::{Scope, applies_to, is_freeze, is_skip_permission, is_template, scope, soak, version};
use serde_json::json;

use super::door::{at, bundle, door, gate};

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

#[test]
fn the_version_is_the_tag_or_the_commit() {
    let check = |artifacts: serde_json::Value, expected: &str| {
        let bundle = bundle(&json!({ "spec": { "artifacts": artifacts } }));
        assert_eq!(version(&bundle.spec), expected);
    };
    let image = |reference: &str| json!({ "images": [{ "name": "a", "reference": reference }] });
    check(image("ghcr.io/myorg/my-app:1.29.0"), "1.29.0");
    check(image("localhost:5000/my-app:v2@sha256:0123456789abcdef"), "v2");
    check(image("localhost:5000/my-app@sha256:0123456789abcdef"), "0123456789ab");
    check(image("localhost:5000/my-app"), "");
    check(json!({ "images": [], "gitCommit": { "repository": "r", "sha": "0123456789abcdef" } }), "01234567");
}

#[test]
fn soaking_starts_when_the_last_upstream_is_verified() {
    let door = door().verified(&[("eu", "2026-04-14T12:00:00Z"), ("us", "2026-04-14T13:50:00Z")]);
    let now = at("2026-04-14T14:00:30Z");
    assert_eq!(soak(&door.bundle, &door.upstreams, now).map(|soak| soak.as_secs()), Some(630));
    assert_eq!(soak(&door.bundle, &["asia".to_owned()], now), None);
    assert_eq!(soak(&door.bundle, &[], now), None);
}
