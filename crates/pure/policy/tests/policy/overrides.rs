//! Overrides: who let a promotion pass in spite of a gate, and what happens when that ends.

use kardinal_api::PolicyGateSpec;
use kardinal_api::kardinal::GateOverride;

use super::door::{at, door, gate};

fn given(by: &str, stage: Option<&str>, expires: Option<&str>) -> GateOverride {
    GateOverride {
        reason: format!("incident of {by}"),
        stage: stage.map(str::to_owned),
        expires_at: expires.map(at),
        created_by: Some(by.to_owned()),
        ..GateOverride::default()
    }
}

fn overridden(expression: &str, overrides: Vec<GateOverride>) -> PolicyGateSpec {
    PolicyGateSpec { overrides, ..gate(expression) }
}

#[test]
fn the_first_that_holds_is_named() {
    let verdict = door().ask(&overridden(
        "false",
        vec![
            given("expired", None, Some("2026-04-14T14:00:00Z")),
            given("elsewhere", Some("staging"), None),
            given("alice", Some("prod"), Some("2026-04-14T15:00:00Z")),
            given("bob", None, Some("2026-04-14T16:00:00Z")),
        ],
    ));
    assert!(verdict.is_open() && !verdict.is_unknown());
    assert_eq!(verdict.reason, "overridden by alice: incident of alice (until 2026-04-14T15:00:00Z)");
    assert_eq!(verdict.overridden.and_then(|given| given.created_by).as_deref(), Some("alice"));
    // Bob's holds an hour longer.
    assert_eq!(verdict.next_change, Some(at("2026-04-14T16:00:00Z")));
}

#[test]
fn the_end_of_an_override_changes_nothing_when_the_gate_is_open_by_then() {
    let gate = |until| overridden("schedule.hour >= 15", vec![given("alice", None, Some(until))]);
    let closes_at = |until| door().ask(&gate(until)).next_change.unwrap();
    assert_eq!(closes_at("2026-04-14T14:30:00Z"), at("2026-04-14T14:30:00Z"));
    assert_eq!(closes_at("2026-04-14T15:30:00Z"), at("2026-04-15T00:00:00Z"));
}

#[test]
fn an_override_without_end_never_changes() {
    let verdict = door().ask(&overridden("false", vec![given("alice", None, None)]));
    assert!(verdict.is_open());
    assert_eq!(verdict.next_change, None);
    assert!(verdict.reason.ends_with("(without end)"), "{}", verdict.reason);
}

#[test]
fn a_broken_gate_can_be_overridden() {
    let verdict =
        door().ask(&overridden("nonsense(", vec![given("alice", None, Some("2026-04-14T15:00:00Z"))]));
    assert!(verdict.is_open() && !verdict.is_unknown());
    assert_eq!(verdict.next_change, Some(at("2026-04-14T15:00:00Z")));
}
