//! Who may skip what.

use kardinal_api::kardinal::{BundlePhase, PolicyGate};

use super::world::{World, fixture, gate, intended, line, org_gate};
use crate::bundle::Effect;
use crate::seal::{Claim, Place};

const B: &str = "b-1712567890";

/// The world after one pass of a Bundle that skips staging.
fn passed(gates: Vec<PolicyGate>, hotfix: Option<&str>, intent: &str) -> World {
    let mut bundle = intended(B, intent);
    let labels = bundle.metadata.labels.get_or_insert_default();
    labels.extend(hotfix.map(|value| ("hotfix".to_owned(), value.to_owned())));
    let mut world = World::new(line(&["dev", "staging", "prod"]), vec![bundle]);
    world.gates = gates;
    world.pass(B);
    world
}

fn permission() -> PolicyGate {
    fixture!("skip-permission-5-6")
}

const SKIP: &str = "{skip: [staging]}";

#[test]
fn an_unguarded_environment_may_be_skipped() {
    assert_eq!(passed(vec![], None, SKIP).phase(B), Some(BundlePhase::Promoting));
    let elsewhere = vec![org_gate("g", "prod")];
    assert_eq!(passed(elsewhere, None, SKIP).phase(B), Some(BundlePhase::Promoting));
    let team = vec![gate("default", "g", "{kardinal.io/applies-to: staging}", "{expression: 'false'}")];
    assert_eq!(passed(team, None, SKIP).phase(B), Some(BundlePhase::Promoting));
}

#[test]
fn a_guarded_environment_needs_a_permission() {
    let world = passed(vec![org_gate("soak", "staging")], None, SKIP);
    assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied));
    assert_eq!(
        world.ready(B),
        "False SkipDenied: `staging` may not be skipped: the organisation guards it with `soak`, \
         and no skip-permission gate of the organisation applies to it"
    );
    assert!(world.graphs.is_empty());
}

#[test]
fn the_permission_is_evaluated() {
    let guarded = || vec![org_gate("soak", "staging"), permission()];
    assert_eq!(passed(guarded(), Some("true"), SKIP).phase(B), Some(BundlePhase::Promoting));
    for hotfix in [None, Some("false")] {
        let world = passed(guarded(), hotfix, SKIP);
        assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied), "{hotfix:?}");
        let why = world.ready(B);
        assert!(
            why.contains("`soak`; what would permit it is not true: `allow-staging-skip-for-hotfix` (`bundle.labels.hotfix == true`)"),
            "{why}"
        );
    }
}

#[test]
fn a_team_cannot_permit_itself() {
    let mut own = permission();
    own.metadata.namespace = Some("default".to_owned());
    let mut teams = permission();
    teams.metadata.labels.as_mut().unwrap().insert("kardinal.io/scope".to_owned(), "team".to_owned());
    let mut other = permission();
    other.metadata.labels.as_mut().unwrap().insert("kardinal.io/applies-to".to_owned(), "dev".to_owned());
    for permission in [own, teams, other] {
        let world = passed(vec![org_gate("soak", "staging"), permission], Some("true"), SKIP);
        assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied));
    }
}

#[test]
fn only_what_lies_on_the_way_is_asked() {
    let gates = vec![org_gate("soak", "staging")];
    let world = passed(gates, None, "{skip: [staging], target: dev}");
    assert_eq!(world.phase(B), Some(BundlePhase::Promoting));
}

#[test]
fn a_gate_after_deployment_guards_too() {
    let mut after = org_gate("smoke", "staging");
    after.spec.when = Some(kardinal_api::kardinal::GateStage::PostDeploy);
    assert_eq!(passed(vec![after], None, SKIP).phase(B), Some(BundlePhase::SkipDenied));
}

#[test]
fn a_permission_that_was_given_stays_as_long_as_the_graph_does() {
    let mut world = passed(vec![org_gate("soak", "staging"), permission()], Some("true"), SKIP);
    world.gates.retain(|gate| gate.metadata.name.as_deref() == Some("soak"));
    world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::Promoting));
    // Only the Graph shows that it was given; what the status says anybody could have written.
    world.graphs.clear();
    world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied));
}

#[test]
fn a_graph_that_is_gone_is_made_again_where_the_permission_still_holds() {
    let mut world = passed(vec![org_gate("soak", "staging"), permission()], Some("true"), SKIP);
    world.graphs.clear();
    let plan = world.pass(B);
    assert!(matches!(plan.effects().as_slice(), [Effect::CreateGraph(_)]));
    assert_eq!(world.phase(B), Some(BundlePhase::Promoting));
}

#[test]
fn what_a_team_writes_into_the_status_grants_no_skip() {
    let mut world = passed(vec![org_gate("soak", "staging")], None, SKIP);
    world.bundle_mut(B).status.as_mut().unwrap().phase = Some(BundlePhase::Promoting);
    let plan = world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied));
    assert!(plan.effects().is_empty() && world.graphs.is_empty());
}

#[test]
fn a_permission_is_told_only_what_is_proven() {
    let permission = |expression: &str| {
        gate(
            "platform-policies",
            "allow",
            "{kardinal.io/scope: org, kardinal.io/applies-to: staging, kardinal.io/type: skip-permission}",
            &format!("{{expression: \"{expression}\"}}"),
        )
    };
    let forged = || {
        let mut bundle = intended(B, SKIP);
        bundle.spec.provenance = Some(super::world::yaml("{rollbackOf: b-0}"));
        let labels = bundle.metadata.labels.get_or_insert_default();
        labels.insert("kardinal.io/emergency".to_owned(), "true".to_owned());
        bundle.status = Some(super::world::yaml(
            "{environments: {dev: {state: Verified, verifiedAt: '2020-01-01T00:00:00Z', seal: forged}}}",
        ));
        bundle
    };
    for expression in [
        "bundle.provenance.rollbackOf != ''",
        "bundle.labels['kardinal.io/emergency'] == 'true'",
        "bundle.upstreamSoakMinutes >= 30",
    ] {
        let mut world = World::new(line(&["dev", "staging", "prod"]), vec![forged()]);
        world.gates = vec![org_gate("soak", "staging"), permission(expression)];
        world.pass(B);
        assert_eq!(world.phase(B), Some(BundlePhase::SkipDenied), "{expression}");
    }
}

#[test]
fn a_permission_believes_a_verification_that_is_sealed() {
    let mut bundle = intended(B, SKIP);
    let mut world = World::new(line(&["dev", "staging", "prod"]), vec![]);
    let verified_at = world.now - jiff::SignedDuration::from_hours(1);
    let claim =
        Claim { bundle: &bundle, pipeline: "my-app", environment: "dev", place: Place::NOWHERE, verified_at };
    let seal = world.key.as_ref().unwrap().seal(&claim);
    let entry = kardinal_api::kardinal::EnvironmentStatus {
        verified_at: Some(verified_at),
        seal,
        ..Default::default()
    };
    bundle.status.get_or_insert_default().environments.insert("dev".to_owned(), entry);
    world.bundles = vec![bundle];
    let soaked = gate(
        "platform-policies",
        "allow",
        "{kardinal.io/scope: org, kardinal.io/applies-to: staging, kardinal.io/type: skip-permission}",
        "{expression: 'bundle.upstreamSoakMinutes >= 30'}",
    );
    world.gates = vec![org_gate("soak", "staging"), soaked];
    world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::Promoting));
}

#[test]
fn without_the_key_a_bundle_that_needs_a_permission_waits() {
    let mut world = passed(vec![], Some("true"), SKIP);
    world.graphs.clear();
    world.bundle_mut(B).status = None;
    world.gates = vec![org_gate("soak", "staging"), permission()];
    world.key = Err("the key cannot be read".to_owned());
    let plan = world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::Available));
    assert!(world.ready(B).contains("NothingProven") && world.ready(B).contains("the key cannot be read"));
    assert!(plan.effects().is_empty() && plan.wake.is_some());
    // Who asks for nothing needs no key.
    world.gates.clear();
    world.pass(B);
    assert_eq!(world.phase(B), Some(BundlePhase::Promoting));
}
