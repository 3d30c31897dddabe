//! Which gates are injected, and how.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kardinal_api::kardinal::{BundleType, PolicyGate};
use serde_json::json;

use super::translation::{make, node};
use super::world::{bundle, gate, line, now, org, org_gate};
use crate::bundle::Templates;

fn ids(gates: &[&PolicyGate]) -> Vec<String> {
    let mut pipeline = line(&["dev", "prod"]);
    pipeline.spec.policy_namespaces = vec!["team-policies".to_owned()];
    let graph = make(&bundle("b"), &pipeline, gates);
    let steps = ["bundle", "dev", "prod"];
    graph.spec.nodes.iter().map(|node| node.id.clone()).filter(|id| !steps.contains(&id.as_str())).collect()
}

#[test]
fn templates_come_from_the_namespaces_that_count() {
    let org = org_gate("org", "prod");
    let team = gate("default", "team", "{kardinal.io/applies-to: prod}", "{expression: 'true'}");
    let added = gate("team-policies", "added", "{kardinal.io/applies-to: prod}", "{expression: 'true'}");
    let other = gate("elsewhere", "other", "{kardinal.io/applies-to: prod}", "{expression: 'true'}");
    let dev = gate("default", "for-test", "{kardinal.io/applies-to: test}", "{expression: 'true'}");
    let listed = gate("default", "listed", "{}", "{expression: 'true', appliesTo: [x, prod]}");
    // The Pipeline's own list adds; the organisation's gates stay whatever it says, and come first.
    assert_eq!(ids(&[&team, &added, &other, &dev, &listed, &org, &org]), ["org", "listed", "team", "added"]);
}

#[test]
fn only_templates_are_injected() {
    let instance = gate(
        "default",
        "old-gate",
        "{kardinal.io/applies-to: prod, kardinal.io/gate-template: gate}",
        "{expression: 'true'}",
    );
    let freeze = gate(
        "default",
        "freeze-my-app",
        "{kardinal.io/freeze: 'true', kardinal.io/applies-to: prod, kardinal.io/pipeline: my-app}",
        "{expression: 'false'}",
    );
    let permission = gate(
        "platform-policies",
        "may",
        "{kardinal.io/scope: org, kardinal.io/type: skip-permission, kardinal.io/applies-to: prod}",
        "{expression: 'true'}",
    );
    let flagged = gate(
        "default",
        "may-too",
        "{kardinal.io/applies-to: prod}",
        "{expression: 'true', skipPermission: true}",
    );
    assert_eq!(ids(&[&instance, &freeze, &permission, &flagged]), [""; 0]);
}

#[test]
fn answers_count_for_two_intervals_until_somebody_has_passed() {
    for (interval, wanted) in [
        ("5m", "10m"),
        ("1m", "2m"),
        ("30s", "1m"),
        ("90s", "3m"),
        ("45m", "1h30m"),
        ("rubbish", "10m"),
        ("0s", "20s"),
    ] {
        let mut gate = org_gate("g", "prod");
        gate.spec.recheck_interval = Some(kardinal_api::GoDuration::new(interval));
        let graph = make(&bundle("b"), &line(&["prod"]), &[&gate]);
        assert_eq!(
            node(&graph, "g").propagate_when,
            [
                "${g.status.ready == true}".to_owned(),
                format!("${{timestamp(g.status.lastEvaluatedAt) > now() - duration(\"{wanted}\")}}")
            ]
        );
        // A finished Graph stays ready: nobody asks the gate any more, and nobody waits for it.
        let arrived = "bundle.?status.?phase.orValue(\"\") == \"Verified\"";
        assert_eq!(node(&graph, "g").ready_when, [format!("${{g.status.ready == true || {arrived}}}")]);
    }
    let graph = make(&bundle("b"), &line(&["prod"]), &[&org_gate("g", "prod")]);
    assert!(node(&graph, "g").propagate_when[1].ends_with("duration(\"10m\")}"), "the default is 5m");
}

#[test]
fn an_organisation_gate_that_came_later_is_for_later_bundles() {
    let mut gate = org_gate("g", "prod");
    let later = now() + jiff::SignedDuration::from_secs(1);
    gate.metadata.creation_timestamp = Some(Time(now()));
    assert_eq!(ids(&[&gate]), ["g"], "it was there in the same second");
    gate.metadata.creation_timestamp = Some(Time(later));
    assert_eq!(ids(&[&gate]), [""; 0], "the step itself does not ask it either");
    gate.metadata.namespace = Some("default".to_owned());
    assert_eq!(ids(&[&gate]), ["g"], "a team's own gate counts when the Graph is made");
}

#[test]
fn where_a_bundle_writes_depends_on_what_it_carries() {
    let gate =
        gate("default", "g", "{}", "{expression: 'true', appliesToPaths: [environments/prod/other.yaml]}");
    let guarded = |kind: BundleType| {
        let mut bundle = bundle("b");
        bundle.spec.kind = Some(kind);
        let pipeline = line(&["prod"]);
        !Templates::collect(&pipeline, &bundle, &[&gate], &org()).guarding("prod").is_empty()
    };
    assert!(!guarded(BundleType::Image), "it changes the kustomization");
    assert!(guarded(BundleType::Config), "a commit may change anything below");
    assert!(guarded(BundleType::Mixed));
}

#[test]
fn an_instance_takes_over_what_is_asked() {
    let template = gate(
        "platform-policies",
        "g",
        "{kardinal.io/scope: org}",
        "{expression: 'schedule.hour > 8', message: m, timeZone: Europe/Berlin, appliesTo: [prod, dev], \
         overrides: [{reason: r, expiresAt: '2026-04-10T00:00:00Z'}]}",
    );
    let graph = make(&bundle("b"), &line(&["prod"]), &[&template]);
    assert_eq!(
        node(&graph, "g").template.as_ref().unwrap()["spec"],
        json!({
            "expression": "schedule.hour > 8", "message": "m", "timeZone": "Europe/Berlin",
        }),
        "overrides stay on the template, where the gate's controller reads them"
    );
}

#[test]
fn a_team_does_not_speak_for_the_organisation() {
    let pretender = gate(
        "default",
        "g",
        "{kardinal.io/scope: org, kardinal.io/applies-to: prod}",
        "{expression: 'true'}",
    );
    let graph = make(&bundle("b"), &line(&["prod"]), &[&pretender]);
    let labels = &node(&graph, "g").template.as_ref().unwrap()["metadata"]["labels"];
    assert_eq!(labels["kardinal.io/scope"], "team");
    assert_eq!(labels["kardinal.io/gate-template-namespace"], "default");
}
