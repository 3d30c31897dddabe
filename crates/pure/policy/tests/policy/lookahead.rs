//! When the answer changes by itself.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::PolicyGateSpec;
use proptest::prelude::*;
use serde_json::json;

use super::door::{Door, at, door, gate, gate_in};

fn next(door: &Door, gate: &PolicyGateSpec) -> Option<String> {
    door.ask(gate).next_change.map(|instant| instant.to_string())
}

#[test]
fn the_instant_is_exact() {
    let soaking = || door().verified("2026-04-14T13:48:07Z");
    // Verified 11 minutes and 53 seconds ago.
    for (zone, expression, expected) in [
        ("UTC", "!schedule.isWeekend", Some("2026-04-18T00:00:00Z")),
        ("UTC", "schedule.isWeekend", Some("2026-04-18T00:00:00Z")),
        ("Europe/Berlin", "!schedule.isWeekend", Some("2026-04-17T22:00:00Z")),
        ("Asia/Kathmandu", "schedule.hour < 9", Some("2026-04-14T18:15:00Z")),
        ("UTC", "schedule.hour >= 9 && schedule.hour < 17", Some("2026-04-14T17:00:00Z")),
        ("UTC", "schedule.dayOfWeek == \"Tuesday\"", Some("2026-04-15T00:00:00Z")),
        (
            "UTC",
            "schedule.dayOfWeek == \"Monday\" && schedule.hour == 9 && schedule.minute >= 30",
            Some("2026-04-20T09:30:00Z"),
        ),
        ("UTC", "bundle.upstreamSoakMinutes >= 30", Some("2026-04-14T14:18:07Z")),
        ("UTC", "bundle.upstreamSoakMinutes > 30", Some("2026-04-14T14:19:07Z")),
        ("UTC", "bundle.upstreamSoakMinutes == 12", Some("2026-04-14T14:00:07Z")),
        ("UTC", "bundle.upstreamSoakMinutes < 12", Some("2026-04-14T14:00:07Z")),
        ("UTC", "bundle.upstreamSoakMinutes >= 100000", Some("2026-06-23T00:28:07Z")),
        ("UTC", "bundle.upstreamSoakMinutes * 2 >= 60", Some("2026-04-14T14:18:07Z")),
        ("UTC", "bundle.upstreamSoakSeconds >= 1800", Some("2026-04-14T14:18:07Z")),
        ("UTC", "bundle.upstreamSoakSeconds > 1800", Some("2026-04-14T14:18:08Z")),
        ("UTC", "bundle.upstreamSoakSeconds * 2 >= 3600", Some("2026-04-14T14:18:07Z")),
        (
            "UTC",
            "bundle.upstreamSoakSeconds >= 1790 && bundle.upstreamSoakMinutes >= 29",
            Some("2026-04-14T14:17:57Z"),
        ),
        ("UTC", "bundle.upstreamSoakMinutes >= 6000 && !schedule.isWeekend", Some("2026-04-20T00:00:00Z")),
        ("UTC", "now() >= timestamp(\"2026-05-01T12:00:00.5Z\")", Some("2026-05-01T12:00:00.5Z")),
        (
            "UTC",
            "now() >= timestamp(\"2026-05-02T12:00:00Z\") && !schedule.isWeekend",
            Some("2026-05-04T00:00:00Z"),
        ),
        ("UTC", "now() > timestamp(\"2026-05-01T12:00:00Z\")", Some("2026-05-01T12:00:00.000000001Z")),
        ("UTC", "10 / (schedule.hour - 14) > 0", Some("2026-04-14T15:00:00Z")),
        ("UTC", "true", None),
        ("UTC", "schedule.hour > 23", None),
        ("UTC", "schedule.minute > 59", None),
        ("Europe/Berlin", "schedule.hour >= 0", None),
        ("UTC", "bundle.upstreamSoakMinutes >= 9223372036854775807", None),
        ("UTC", "nonsense", None),
    ] {
        assert_eq!(next(&soaking(), &gate_in(zone, expression)).as_deref(), expected, "{expression}");
    }
}

#[test]
fn clocks_that_change_are_followed() {
    // The hour from two to three does not exist on that day, and the next day it does.
    let door = door().at("2026-03-28T23:30:00Z");
    let gate = gate_in("Europe/Berlin", "schedule.hour == 2");
    assert_eq!(next(&door, &gate).as_deref(), Some("2026-03-30T00:00:00Z"));
    // In autumn it comes twice; it stays open over both.
    let door = door.at("2026-10-25T00:00:00Z");
    assert_eq!(next(&door, &gate).as_deref(), Some("2026-10-25T02:00:00Z"));
    // Half an hour is as much as Lord Howe Island changes.
    let door = door.at("2026-04-04T14:50:00Z");
    let gate = gate_in("Australia/Lord_Howe", "schedule.hour == 1");
    assert_eq!(next(&door, &gate).as_deref(), Some("2026-04-04T15:30:00Z"));
}

#[test]
fn without_a_verified_upstream_the_soak_does_not_start() {
    assert_eq!(next(&door(), &gate("bundle.upstreamSoakMinutes >= 30")), None);
}

fn expressions() -> impl Strategy<Value = String> {
    let hour = (0_i64..24, prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]))
        .prop_map(|(hour, op)| format!("schedule.hour {op} {hour}"));
    let minute = (0_i64..60, prop::sample::select(vec!["<", ">=", "=="]))
        .prop_map(|(minute, op)| format!("schedule.minute {op} {minute}"));
    let day = prop::sample::select(vec!["Monday", "Wednesday", "Friday", "Saturday", "Sunday"])
        .prop_map(|day| format!("schedule.dayOfWeek == \"{day}\""));
    let soak = (0_i64..15_000, prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]))
        .prop_map(|(minutes, op)| format!("bundle.upstreamSoakMinutes {op} {minutes}"));
    let computed = (1_i64..500, 0_i64..5)
        .prop_map(|(unit, rest)| format!("bundle.upstreamSoakMinutes / {unit} % 7 == {rest}"));
    // All of these change at whole minutes, so asking every minute misses nothing.
    let since = (0_i64..300_000).prop_map(|minutes| {
        format!("now() - timestamp(bundle.metadata.creationTimestamp) >= duration(\"{minutes}m\")")
    });
    let leaf = prop_oneof![
        Just("schedule.isWeekend".to_owned()),
        hour,
        minute,
        day,
        soak,
        computed,
        since,
        Just("10 / (schedule.hour - 5) > 0".to_owned()),
    ];
    leaf.prop_recursive(3, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} && {right})")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    })
}

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// Two weeks less what the search may give up after.
const MINUTES: i32 = 13 * 24 * 60;

/// The first whole minute at which the answer differs, found by asking at every one with a calendar of its own.
fn brute_force(expression: &str, zone: &str, verified: Timestamp, start: Timestamp) -> Option<Timestamp> {
    let env = kardinal_cel::Env::standard().declare("bundle").declare("schedule");
    let program = env.compile(expression).unwrap();
    let zone = kardinal_policy::time_zone(zone).unwrap();
    let ready = |now: Timestamp| {
        let local = now.to_zoned(zone.clone());
        let day = local.strftime("%A").to_string();
        let bundle = json!({
            "upstreamSoakMinutes": now.duration_since(verified).as_mins(),
            "metadata": { "creationTimestamp": "2026-04-14T08:00:00Z" },
        });
        let schedule = json!({
            "isWeekend": day == "Saturday" || day == "Sunday",
            "dayOfWeek": day,
            "hour": local.hour(),
            "minute": local.minute(),
        });
        let variables = [("bundle".to_owned(), bundle), ("schedule".to_owned(), schedule)].into();
        let scope = kardinal_cel::MapScope::new(&variables, now);
        program
            .evaluate(&scope, &kardinal_cel::Limits::default())
            .is_ok_and(|value| value.as_bool() == Some(true))
    };
    let first = ready(start);
    (1..=MINUTES).map(|minute| start + MINUTE * minute).find(|now| ready(*now) != first)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 50, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_asking_every_minute(
        expression in expressions(),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
        start in prop::sample::select(vec![
            "2026-03-02T10:07:00Z", "2026-03-20T00:00:00Z", "2026-03-28T23:59:00Z", "2026-10-24T12:30:00Z", "2026-10-28T03:00:00Z", "2026-06-13T21:59:00Z",
        ]),
        soaked in 0_i64..20_000,
    ) {
        let verified = at(start) - SignedDuration::from_mins(soaked);
        let mut door = door().at(start).verified(&verified.to_string());
        let gate = gate_in(zone, &expression);
        let change = door.ask(&gate).next_change;
        let found = brute_force(&expression, zone, verified, at(start));
        let horizon = at(start) + MINUTE * MINUTES;
        let change_within = change.filter(|change| *change <= horizon);
        prop_assert_eq!(change_within, found, "{} in {} from {}", expression, zone, start);
        if let Some(change) = change {
            let before = door.ask(&gate).is_open();
            let mut ready_at = |instant| { door.now = instant; door.ask(&gate).is_open() };
            prop_assert_eq!(ready_at(change - SignedDuration::from_nanos(1)), before);
            prop_assert_eq!(ready_at(change), !before);
        }
    }
}
