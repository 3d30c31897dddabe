//! Why a gate answers as it does.

use kardinal_policy::check_expression;
use serde_json::json;

use super::door::{Door, door, gate, gate_in};

#[test]
fn reasons_show_the_values_that_decide() {
    let door = door().with_labels(&json!({ "team": "core" })).verified("2026-04-14T13:48:00Z");
    for (expression, ready, reason) in [
        ("!schedule.isWeekend", true, "schedule.isWeekend = false"),
        ("schedule.isWeekend", false, "schedule.isWeekend = false"),
        ("bundle.upstreamSoakMinutes >= 30", false, "bundle.upstreamSoakMinutes = 12 (threshold: >= 30)"),
        ("30 <= bundle.upstreamSoakMinutes", false, "bundle.upstreamSoakMinutes = 12 (threshold: >= 30)"),
        (
            "bundle.upstreamSoakMinutes >= 30 && !schedule.isWeekend",
            false,
            "bundle.upstreamSoakMinutes = 12 (threshold: >= 30)",
        ),
        (
            "bundle.upstreamSoakMinutes >= 10 && !schedule.isWeekend",
            true,
            "bundle.upstreamSoakMinutes = 12, schedule.isWeekend = false",
        ),
        (
            "bundle.labels.hotfix == true || schedule.hour < 9",
            false,
            "bundle.labels.hotfix = (not set), schedule.hour = 14",
        ),
        (
            "bundle.labels.team == \"core\" || schedule.hour < 9",
            true,
            "bundle.labels.team = \"core\" (wanted: == \"core\")",
        ),
        ("bundle.labels[\"team\"].size() > 9", false, "bundle.labels[\"team\"] = \"core\""),
        ("now() > timestamp(\"2030-01-01T00:00:00Z\")", false, "now() = 2026-04-14T14:00:00Z"),
        ("false", false, "the expression reads no values"),
    ] {
        let verdict = door.says(expression);
        assert_eq!((verdict.is_open(), verdict.reason.as_str()), (ready, reason), "{expression}");
    }
}

#[test]
fn errors_close_the_gate_in_one_line() {
    for (expression, part) in [
        ("schedule.isHoliday", "`schedule` has no `.isHoliday`"),
        ("!schedul.isWeekend", "did you mean `schedule`?"),
        ("bundle.name.first == 1", "`bundle.name` is a single value"),
        ("bundle.upstreamSoakMinutes", "this is a value and can never be true or false"),
        ("bundle.version", "this is a value and can never be true or false"),
        (
            "metrics.errorRate.value < 1",
            "`metrics` is not available: gates cannot read metrics in this version",
        ),
        ("delegation.status == \"Healthy\"", "`delegation` is not available"),
        ("externalApproval.ok", "`externalApproval` is not available"),
        ("schedule.dayOfWeek != \"friday\"", "`schedule.dayOfWeek` is never \"friday\""),
        ("schedule.dayOfWeek in [\"Mon\"]", "`schedule.dayOfWeek` is never \"Mon\""),
        ("schedule.dayOfWeek == 5", "`schedule.dayOfWeek` is never 5"),
        ("environment.approval == \"pr\"", "it is one of \"auto\", \"pr-review\""),
        ("timestamp(bundle.provenance.buildTimestamp) < now()", "timestamp"),
        ("1 / (schedule.hour - 14) > 0", "zero"),
        ("schedule.hour >", "expected"),
        ("", "expected"),
    ] {
        let verdict = door().says(expression);
        assert!(!verdict.is_open() && verdict.is_unknown(), "{expression}: {}", verdict.reason);
        assert!(verdict.reason.starts_with("error: "), "{expression}: {}", verdict.reason);
        assert!(verdict.reason.contains(part), "{expression}: {}", verdict.reason);
        assert_eq!(verdict.reason.lines().count(), 1, "{expression}: {}", verdict.reason);
    }
}

#[test]
fn an_unknown_time_zone_closes_the_gate() {
    let verdict = door().ask(&gate_in("Mars/Olympus", "true"));
    assert!(!verdict.is_open() && verdict.is_unknown());
    assert!(
        verdict.reason.contains("spec.timeZone: `Mars/Olympus` is not a time zone"),
        "{}",
        verdict.reason
    );
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret() {
    assert_eq!(check_expression::<Door>("!schedule.isWeekend"), Ok(()));
    let shown = check_expression::<Door>("!schedule.isWekend").unwrap_err();
    assert!(shown.contains("spec.expression") && shown.contains("^^^"), "{shown}");
    let long = format!("{} && nonsense", "true && ".repeat(4000).trim_end_matches("&& "));
    assert!(check_expression::<Door>(&long).unwrap_err().len() < 4096);
}

#[test]
fn reasons_stay_short() {
    let labels: serde_json::Map<String, serde_json::Value> =
        (0..20).map(|number| (format!("l{number}"), json!("\n".repeat(50)))).collect();
    let door = door().with_labels(&json!(labels));
    let terms: Vec<String> = (0..20).map(|number| format!("bundle.labels.l{number}")).collect();
    for join in [" + ", " == \"\" && ", " == \"\" || "] {
        let reason = door.says(&format!("{} == \"\"", terms.join(join))).reason;
        assert!(reason.chars().count() < 600 && reason.lines().count() == 1, "{reason}");
    }
}

#[test]
fn the_pull_request_tells_times_and_soaks() {
    let door = door().verified("2026-04-14T13:15:00Z");
    for (gate, expected) in [
        (gate("!schedule.isWeekend"), "Tuesday 14:00 UTC"),
        (gate_in("Europe/Berlin", "schedule.hour < 18 && !schedule.isWeekend"), "Tuesday 16:00 CEST"),
        (gate("bundle.upstreamSoakMinutes >= 30"), "Soak: 45m (min: 30m)"),
        (gate("bundle.upstreamSoakSeconds >= 30"), "Soak: 2700s (min: 30s)"),
        (gate("bundle.upstreamSoakMinutes >= 1440"), "Soak: 45m (min: 24h)"),
        (gate("bundle.upstreamSoakMinutes < 90"), "Soak: 45m (max: 1h30m)"),
        (gate("environment.name == \"prod\""), "environment.name = \"prod\" (wanted: == \"prod\")"),
        (gate("false"), "the expression reads no values"),
        (
            gate_in("Mars/Olympus", "!schedule.isWeekend"),
            "error: spec.timeZone: `Mars/Olympus` is not a time zone: use a name such as `UTC` or `Europe/Berlin`",
        ),
    ] {
        assert_eq!(door.detail(&gate), expected, "{}", gate.expression);
    }
}
