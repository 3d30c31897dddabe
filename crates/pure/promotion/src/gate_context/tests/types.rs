//! Which values expressions may compare.

use crate::gate_context::check_expression;

#[test]
fn what_compares_values_of_different_kinds_is_refused_with_both_kinds() {
    for (expression, kinds) in [
        ("schedule.hour > \"9\"", ["int", "string"]),
        ("\"9\" <= schedule.hour", ["string", "int"]),
        ("bundle.upstreamSoakMinutes >= \"30\"", ["int", "string"]),
        ("bundle.version < 2", ["string", "int"]),
        ("schedule.isWeekend && schedule.hour > \"9\"", ["int", "string"]),
        ("!schedule.isWeekend || (schedule.hour > \"9\") == true", ["int", "string"]),
        ("bundle.name + 1 == \"a1\"", ["string", "int"]),
        ("schedule.hour.startsWith(\"9\")", ["int", "string"]),
        ("bundle.metadata.creationTimestamp < now()", ["string", "timestamp"]),
    ] {
        let said = check_expression(expression).expect_err(expression);
        assert!(said.contains("this never has a value"), "{expression}: {said}");
        assert!(kinds.iter().all(|kind| said.contains(kind)), "{expression}: {said}");
    }
}

#[test]
fn equality_of_values_of_different_kinds_is_refused_with_both_kinds() {
    for (expression, answer, kinds) in [
        ("schedule.hour == \"9\"", "never true", ["int", "string"]),
        ("\"9\" == schedule.hour", "never true", ["string", "int"]),
        ("schedule.hour != \"9\"", "always true", ["int", "string"]),
        ("schedule.hour == \"9\" || true", "never true", ["int", "string"]),
        ("schedule.hour in [\"9\"]", "never found", ["int", "string"]),
        ("schedule.hour in [9, \"10\"]", "never found", ["int", "string"]),
        ("!(schedule.hour in [\"9\", \"10\"])", "never found", ["int", "string"]),
        ("schedule.isWeekend == \"false\"", "never true", ["bool", "string"]),
        ("schedule.isWeekend != \"true\"", "always true", ["bool", "string"]),
        ("schedule.isWeekend == 1", "never true", ["bool", "int"]),
        ("bundle.version == 1", "never true", ["string", "int"]),
        ("bundle.version in [1.5, 2]", "never found", ["string", "double"]),
        ("bundle.upstreamSoakMinutes == \"30\"", "never true", ["int", "string"]),
        ("(schedule.hour + 1) == (\"9\")", "never true", ["int", "string"]),
        ("bundle.version.split(\".\")[0] == 1", "never true", ["string", "int"]),
        ("size(bundle.version.split(\".\")) == \"3\"", "never true", ["int", "string"]),
        ("has(bundle.labels.hotfix) == \"true\"", "never true", ["bool", "string"]),
        ("bundle.metadata.creationTimestamp == now()", "never true", ["string", "google.protobuf.Timestamp"]),
        ("bundle.labels[?\"team\"] == \"web\"", "never true", ["optional_type", "string"]),
    ] {
        let said = check_expression(expression).expect_err(expression);
        assert!(said.contains(&format!("this is {answer}: ")), "{expression}: {said}");
        assert!(
            said.contains(&format!("{} and {} are never equal", kinds[0], kinds[1])),
            "{expression}: {said}"
        );
    }
}

#[test]
fn a_refused_equality_is_marked_where_it_stands_and_tells_the_remedy() {
    let said = check_expression("!schedule.isWeekend && schedule.hour in [9, \"10\"]").unwrap_err();
    assert!(said.starts_with("error: this is never found: int and string are never equal\n"), "{said}");
    assert!(said.contains("--> spec.expression:1:45\n"), "{said}");
    assert!(said.contains("`9` is a number, `\"9\"` a text"), "{said}");
    let said = check_expression("bundle.labels[?\"team\"] == \"web\"").unwrap_err();
    assert!(said.contains("`.orValue(\"\")`"), "{said}");
}

#[test]
fn what_may_work_with_other_values_is_not() {
    for expression in [
        "schedule.hour > 9 && schedule.hour < 17",
        "bundle.labels[\"replicas\"] > \"3\"",
        "has(bundle.labels.replicas) && int(bundle.labels.replicas) > 3",
        "bundle.labels[?\"team\"].orValue(\"\") < \"m\"",
        "timestamp(bundle.provenance.buildTimestamp) > timestamp(\"2026-01-01T00:00:00Z\")",
        "now() - timestamp(bundle.metadata.creationTimestamp) > duration(\"1h\")",
        "bundle.intent.skip[0] < \"z\"",
        "bundle.intent.skip.all(x, x > \"a\")",
        "int(bundle.version.split(\".\")[0]) >= 1",
        "previousBundle.version == \"\" || previousBundle.version < bundle.version",
        "(schedule.isWeekend ? dyn(\"a\") : dyn(1)) > 0",
        "(schedule.hour + 1) * 2 > 9",
        "-schedule.hour < 0",
        "size(bundle.provenance.author) > 0",
        "schedule.hour == 9 && schedule.minute != 30u && schedule.hour != 9.5 && schedule.hour in [9, 10u, 11.0]",
        "schedule.isWeekend == false && schedule[\"isWeekend\"] != true",
        "bundle.provenance.author == null || null != bundle.provenance.author",
        "bundle.provenance.author in [null]",
        "schedule.hour in []",
        "bundle.labels.replicas == \"3\" || bundle.labels[\"replicas\"] == 3 || bundle.labels.replicas in [3]",
        "bundle.labels == {} || bundle.intent.skip == [] || bundle.intent.skip == [1]",
        "bundle.intent.skip[0] == \"staging\" || \"staging\" in bundle.intent.skip || 1 in bundle.intent.skip",
        "has(bundle.labels.hotfix) == true",
        "has(bundle.labels.hotfix) && bundle.labels.hotfix == true",
        "bundle.labels[?\"team\"] == optional.of(\"web\") || bundle.labels.?team != optional.none()",
        "bundle.labels[?\"team\"].orValue(\"\") == \"web\" || bundle.labels[?\"replicas\"].orValue(3) == \"3\"",
        "bundle.labels[?\"team\"].or(optional.of(1)).value() == \"web\"",
        "bundle.version in [?bundle.labels[?\"version\"]]",
        "dyn(schedule.hour) == \"9\" || schedule.hour != dyn(\"9\") || schedule.hour in [dyn(\"9\")]",
        "schedule.hour in dyn([\"9\"])",
        "bundle.intent.skip.all(x, x == 1) || bundle.labels.exists(k, bundle.labels[k] != 1)",
        "(schedule.hour > 22 ? \"late\" : 0) == \"late\"",
        "[1, \"a\"][schedule.hour % 2] == \"a\"",
        "{\"a\": 1, \"b\": \"b\"}[schedule.hour > 22 ? \"b\" : \"a\"] == \"b\"",
        "type(schedule.hour) == int && type(bundle.version) != type(1)",
        "timestamp(bundle.provenance.buildTimestamp) == now()",
    ] {
        check_expression(expression).expect(expression);
    }
}
