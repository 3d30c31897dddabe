//! When results that depend on the time change: the value holds on `[now, until)`, and `until` of a comparison is exact.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its own functions too"
)]

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kardinal_cel::{Env, Limits, MapScope, Program, Scope};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn env() -> Env {
    Env::standard().declare("start").declare("computed").declare("windows")
}

fn variables() -> BTreeMap<String, Json> {
    let windows = json!([{"from": "2026-01-31T09:00:00Z"}, {"from": "2026-01-31T15:00:00Z"}]);
    BTreeMap::from([
        ("start".to_owned(), json!("2026-01-31T12:00:00Z")),
        ("computed".to_owned(), json!(5)),
        ("windows".to_owned(), windows),
    ])
}

fn until(source: &str, now: &str) -> (Json, Option<Timestamp>) {
    let program = env().compile(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    look(&program, at(now))
}

fn look(program: &Program, now: Timestamp) -> (Json, Option<Timestamp>) {
    let variables = variables();
    let scope = MapScope::new(&variables, now);
    let (value, until) = program.evaluate_until(&scope, &Limits::default()).unwrap();
    (value.to_json().unwrap(), until)
}

fn value(program: &Program, now: Timestamp) -> Json {
    let variables = variables();
    let scope = MapScope::new(&variables, now);
    program.evaluate(&scope, &Limits::default()).unwrap().to_json().unwrap()
}

fn check(source: &str, now: &str, expected: Json, changes: Option<&str>) {
    assert_eq!(until(source, now), (expected, changes.map(at)), "{source}");
}

#[test]
fn comparisons_flip_at_the_instant() {
    let now = "2026-01-31T11:00:00Z";
    check("now() >= timestamp(start)", now, json!(false), Some("2026-01-31T12:00:00Z"));
    check("now() > timestamp(start)", now, json!(false), Some("2026-01-31T12:00:00.000000001Z"));
    check("now() == timestamp(start)", now, json!(false), Some("2026-01-31T12:00:00Z"));
    check("now() - timestamp(start) >= duration('30m')", now, json!(false), Some("2026-01-31T12:30:00Z"));
    check(
        "timestamp(start) - now() < duration('10m')",
        now,
        json!(false),
        Some("2026-01-31T11:50:00.000000001Z"),
    );
    check("timestamp(start) + duration('1h') <= now()", now, json!(false), Some("2026-01-31T13:00:00Z"));
    check("now() < timestamp('2026-01-31T10:00:00Z')", now, json!(false), None);
    check("now() + duration('1h') > now()", now, json!(true), None);
    check("now() - now() == duration('0s')", now, json!(true), None);
    check("computed > 3", now, json!(true), None);
    // Only the parts that decide count.
    check("computed > 3 || now() > timestamp(start)", now, json!(true), None);
    check(
        "now() > timestamp(start) ? 'open' : 'closed'",
        now,
        json!("closed"),
        Some("2026-01-31T12:00:00.000000001Z"),
    );
}

#[test]
fn several_changes_are_followed_until_the_value_differs() {
    let now = "2026-01-31T08:00:00Z";
    // The first window opens at nine, but both have to be open.
    check("windows.all(w, now() >= timestamp(w.from))", now, json!(false), Some("2026-01-31T15:00:00Z"));
    check("windows.exists(w, now() >= timestamp(w.from))", now, json!(false), Some("2026-01-31T09:00:00Z"));
    check(
        "windows.filter(w, now() >= timestamp(w.from)).size()",
        now,
        json!(0),
        Some("2026-01-31T09:00:00Z"),
    );
    check("now() in [timestamp(start)]", now, json!(false), Some("2026-01-31T12:00:00Z"));
    check("[now()] == [timestamp(start)]", now, json!(false), Some("2026-01-31T12:00:00Z"));
}

#[test]
fn getters_change_at_their_boundaries() {
    let now = "2026-01-31T11:00:00Z"; // a Saturday
    check("now().getHours() >= 9 && now().getHours() < 17", now, json!(true), Some("2026-01-31T17:00:00Z"));
    check("now().getHours('Europe/Vienna')", now, json!(12), Some("2026-01-31T12:00:00Z"));
    check("now().getDayOfWeek('Asia/Kathmandu') in [6, 0]", now, json!(true), Some("2026-02-01T18:15:00Z"));
    check("now().getFullYear() == 2026", now, json!(true), Some("2027-01-01T00:00:00Z"));
    check("now().getMonth('-02:00')", now, json!(0), Some("2026-02-01T02:00:00Z"));
    check("now().getMinutes() < 1", now, json!(true), Some("2026-01-31T11:01:00Z"));
    check(
        "(now() - timestamp('2026-01-31T10:30:00Z')).getHours()",
        now,
        json!(0),
        Some("2026-01-31T11:30:00Z"),
    );
    check("(timestamp(start) - now()).getMinutes()", now, json!(60), Some("2026-01-31T11:00:00.000000001Z"));
    check("int(now()) % 60", now, json!(0), Some("2026-01-31T11:00:01Z"));
    check("string(now())", now, json!(now), Some("2026-01-31T11:00:00.000000001Z"));
    check("{'now': [now()]}", now, json!({"now": [now]}), Some("2026-01-31T11:00:00.000000001Z"));
    check("type(now()) == google.protobuf.Timestamp", now, json!(true), None);
}

#[test]
fn zone_changes_are_boundaries() {
    // The clocks of Vienna go from two to three o'clock at 01:00 UTC, so two o'clock never is.
    let now = "2026-03-29T00:10:00Z";
    check("now().getHours('Europe/Vienna')", now, json!(1), Some("2026-03-29T01:00:00Z"));
    check("now().getHours('Europe/Vienna') >= 3", now, json!(false), Some("2026-03-29T01:00:00Z"));
    // In autumn two o'clock is twice.
    check(
        "now().getHours('Europe/Vienna') == 2",
        "2026-10-25T00:10:00Z",
        json!(true),
        Some("2026-10-25T02:00:00Z"),
    );
}

#[test]
fn a_search_that_finds_nothing_ends_early_and_safely() {
    let (value, until) = until("int(now()) > 2000000000", "2026-01-31T11:00:00Z");
    assert_eq!(value, json!(false));
    assert_eq!(until, Some(at("2026-01-31T11:08:32Z")));
}

#[test]
fn a_value_that_becomes_the_moving_time_holds_until_it_does() {
    // At noon both say the same, and a nanosecond later they do not.
    let source = "now().getHours() < 12 ? timestamp(start) : now()";
    let (value, until) = until(source, "2026-01-31T11:00:00Z");
    assert_eq!((value, until), (json!("2026-01-31T12:00:00Z"), Some(at("2026-01-31T12:00:00Z"))));
    check(
        "[now().getHours() < 12 ? timestamp(start) : now()]",
        "2026-01-31T11:00:00Z",
        json!(["2026-01-31T12:00:00Z"]),
        Some("2026-01-31T12:00:00Z"),
    );
}

#[test]
fn looking_ahead_costs_the_evaluation_nothing() {
    let variables = variables();
    let scope = MapScope::new(&variables, at("2026-01-31T11:00:00Z"));
    let limits = Limits { cost: 100 };
    // The list costs more than half of what is allowed, so going through it once more may not be taken from the rest.
    let program = env().compile("lists.range((timestamp(start) - now()).getMinutes())").unwrap();
    let value = program.evaluate(&scope, &limits).unwrap().to_json().unwrap();
    let (again, until) = program.evaluate_until(&scope, &limits).unwrap();
    assert_eq!(again.to_json().unwrap(), value);
    assert_eq!(until, Some(at("2026-01-31T11:00:00.000000001Z")));
    // Comparing two such lists is not taken from the evaluation, either: the hour says nothing new until noon.
    let program = env().compile("lists.range(now().getHours() < 12 ? 55 : 54)").unwrap();
    let scope = MapScope::new(&variables, at("2026-01-31T09:30:00Z"));
    let (_, until) = program.evaluate_until(&scope, &limits).unwrap();
    assert_eq!(until, Some(at("2026-01-31T12:00:00Z")));
}

#[test]
fn a_result_that_is_larger_than_its_cost_has_a_time_too() {
    let variables = variables();
    let scope = MapScope::new(&variables, at("2026-01-31T11:00:00Z"));
    // Each half is the same list in memory, and another one in the result.
    let doubled = (0..8).fold("[now() >= timestamp(start)]".to_owned(), |inner, depth| {
        format!("cel.bind(x{depth}, {inner}, [x{depth}, x{depth}])")
    });
    let program = env().compile(&doubled).unwrap();
    let limits = Limits { cost: 100 };
    let value = program.evaluate(&scope, &limits).unwrap().to_json().unwrap();
    let (again, until) = program.evaluate_until(&scope, &limits).unwrap();
    assert_eq!(again.to_json().unwrap(), value);
    assert_eq!(until, Some(at("2026-01-31T12:00:00Z")));
}

struct Computed(BTreeMap<String, Json>);

impl Scope for Computed {
    fn get(&self, name: &str) -> Option<&Json> {
        self.0.get(name)
    }

    fn now(&self) -> Timestamp {
        at("2026-01-31T11:00:00Z")
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        (name == "computed").then(|| at("2026-01-31T11:20:00Z"))
    }
}

#[test]
fn inputs_that_the_caller_computed_bound_the_result() {
    let scope = Computed(variables());
    let bound = |source: &str| {
        let program = env().compile(source).unwrap();
        program.evaluate_until(&scope, &Limits::default()).unwrap().1
    };
    assert_eq!(bound("computed > 3"), Some(at("2026-01-31T11:20:00Z")));
    assert_eq!(bound("now() > timestamp(start) && computed > 3"), Some(at("2026-01-31T11:20:00Z")));
    assert_eq!(
        bound("now() > timestamp('2026-01-31T11:10:00Z') && computed > 3"),
        Some(at("2026-01-31T11:10:00.000000001Z"))
    );
    assert_eq!(bound("start == ''"), None);
}

/// A random comparison of a time that moves with one that does not.
fn comparison() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    (op, -7200_i64..7200, 0_i64..1_000_000_000, 0_u8..4).prop_map(|(op, offset, nanos, form)| {
        let shift = format!("duration('{offset}s') + duration('{nanos}ns')");
        match form {
            0 => format!("now() {op} timestamp(start) + {shift}"),
            1 => format!("timestamp(start) + {shift} {op} now()"),
            2 => format!("now() - timestamp(start) {op} {shift}"),
            _ => format!("timestamp(start) - now() {op} {shift}"),
        }
    })
}

/// A random question about a part of a moving time.
fn getter() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
        "getDayOfWeek",
        "getDate",
        "getMonth",
        "getDayOfYear",
        "getFullYear",
        "getDayOfMonth",
    ]);
    let zone = prop::sample::select(vec![
        "",
        "'UTC'",
        "'Europe/Vienna'",
        "'America/St_Johns'",
        "'Asia/Kathmandu'",
        "'-09:30'",
        "'Australia/Lord_Howe'",
        "'Pacific/Apia'",
    ]);
    (part, zone, 0_i64..60, 0_u8..3).prop_map(|(part, zone, number, form)| match form {
        0 => format!("now().{part}({zone})"),
        1 => format!("now().{part}({zone}) >= {number}"),
        _ => format!("(now() + duration('{number}m')).{part}({zone}) % 3 == 0"),
    })
}

fn duration_getter() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["getHours", "getMinutes", "getSeconds", "getMilliseconds"]);
    (part, any::<bool>(), -3_i64..3).prop_map(|(part, back, number)| {
        let length = if back { "(timestamp(start) - now())" } else { "(now() - timestamp(start))" };
        format!("{length}.{part}() > {number}")
    })
}

fn instant() -> impl Strategy<Value = Timestamp> {
    // Around the start, and anywhere in some years so that zone changes are hit.
    let near = (-10_000_i64..10_000, 0_i64..1_000_000_000)
        .prop_map(|(seconds, nanos)| at("2026-01-31T12:00:00Z") + SignedDuration::new(seconds, nanos as i32));
    let anywhere = (0_i64..1_800_000_000, 0_i32..1_000_000_000)
        .prop_map(|(seconds, nanos)| Timestamp::new(seconds, nanos).unwrap());
    prop_oneof![near, anywhere]
}

fn constant_before(program: &Program, now: Timestamp, fractions: &[f64]) -> Option<Timestamp> {
    let (first, until) = look(program, now);
    // Far away is far enough where nothing changes any more.
    let end = until.unwrap_or(now + SignedDuration::from_hours(24 * 365 * 30));
    let length = end.as_nanosecond() - now.as_nanosecond();
    assert!(length > 0, "{}: {until:?} is not after {now}", program.source());
    let mut offsets: Vec<i128> = fractions.iter().map(|part| (length as f64 * part) as i128).collect();
    offsets.extend([0, 1, length / 2, length - 1]);
    for offset in offsets.into_iter().filter(|offset| (0..length).contains(offset)) {
        let probe = Timestamp::from_nanosecond(now.as_nanosecond() + offset).unwrap();
        assert_eq!(value(program, probe), first, "{} at {probe}, before {until:?}", program.source());
    }
    until
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_comparison_holds_until_exactly_the_instant(
        source in comparison(), now in instant(), fractions in prop::collection::vec(0.0..1.0, 8)
    ) {
        let program = env().compile(&source).unwrap();
        if let Some(until) = constant_before(&program, now, &fractions) {
            prop_assert_ne!(value(&program, until), value(&program, now), "{} at {}", source, until);
        }
    }

    #[test]
    fn conditions_of_comparisons_and_getters_hold(
        parts in prop::collection::vec(prop_oneof![comparison(), getter().prop_map(|g| format!("dyn({g}) != -1"))], 1..4),
        joined in any::<bool>(), now in instant(), fractions in prop::collection::vec(0.0..1.0, 8)
    ) {
        let source = parts.join(if joined { " && " } else { " || " });
        constant_before(&env().compile(&source).unwrap(), now, &fractions);
    }

    #[test]
    fn a_getter_holds(
        source in prop_oneof![getter(), duration_getter()], now in instant(), fractions in prop::collection::vec(0.0..1.0, 8)
    ) {
        constant_before(&env().compile(&source).unwrap(), now, &fractions);
    }
}
