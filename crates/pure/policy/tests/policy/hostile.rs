//! Gates are written by strangers: nothing in them may open a gate by accident, hang or panic.

use kardinal_policy::check_expression;
use proptest::prelude::*;

use super::door::{Door, door, gate, gate_in};

#[test]
fn costly_expressions_end() {
    let wide: String = (60..2_000).map(|number| format!("schedule.minute == {number} || ")).collect();
    let deep = format!("{}schedule.minute > 60{}", "!(".repeat(100), ")".repeat(100));
    let nested =
        (0..60).fold("schedule.isWeekend".to_owned(), |inner, _| format!("(true && ({inner} || false))"));
    let squares = "[1,2,3,4,5,6,7,8,9,10]";
    let looping = (0..9)
        .fold("schedule.minute > 60".to_owned(), |inner, depth| format!("{squares}.all(x{depth}, {inner})"));
    let repeated = format!(
        "\"{}\".matches(\"(a+)+b$\") || now() < timestamp(\"2020-01-01T00:00:00Z\")",
        "a".repeat(5_000)
    );
    for expression in [
        format!("{wide}false"),
        deep,
        nested,
        looping,
        repeated,
        format!("{}true", "(".repeat(10_000)),
        "a".repeat(100_000),
        format!(
            "now().getMilliseconds() > 5000 || schedule.minute > 60 || {squares}.exists(x, x > schedule.hour * 1000)"
        ),
    ] {
        let verdict = door().says(&expression);
        assert!(!verdict.is_open(), "{}", verdict.reason);
        assert_eq!(verdict.next_change.filter(|_| verdict.is_unknown()), None);
    }
}

fn fragments() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "bundle",
        ".",
        "labels",
        "[",
        "]",
        "\"x\"",
        "hotfix",
        "==",
        "true",
        "false",
        "&&",
        "||",
        "!",
        "(",
        ")",
        "schedule",
        "hour",
        "dayOfWeek",
        "now()",
        "-",
        "1",
        "30",
        "upstreamSoakMinutes",
        ">=",
        "in",
        "?",
        ":",
        "has(bundle.labels.a)",
        "{",
        "}",
        ",",
        ".?",
        "orValue(\"\")",
        "exists(x, x)",
        "exists(bundle, bundle.labels.x == true)",
        "duration(\"1m\")",
        "getHours()",
        "é",
        "\u{0}",
        "'",
        "9223372036854775807",
        "bundle.labels.a == true",
        "metrics",
        "type(1)",
        "environment.name",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(expression in prop_oneof![fragments(), ".{0,60}"], zone in "[A-Za-z/]{0,12}|UTC") {
        let door = door();
        let verdict = door.says(&expression);
        prop_assert!(!verdict.reason.is_empty() && verdict.reason.lines().count() == 1, "{}", verdict.reason);
        prop_assert!(!(verdict.is_open() && verdict.is_unknown()));
        // What compiles and is refused because of its types may still have a value.
        let by_types = |said: &String| said.contains("never equal") || said.contains("never has a value");
        if check_expression::<Door>(&expression).is_err_and(|said| !by_types(&said)) {
            prop_assert!(verdict.is_unknown() && !verdict.is_open() && verdict.next_change.is_none());
        }
        let _ = door.detail(&gate(&expression));
        let _ = door.ask(&gate_in(&zone, &expression));
    }
}
