//! What can be true or false at all.

use crate::gate_context::check_expression;

#[test]
fn what_cannot_be_true_or_false_is_refused() {
    for expression in [
        "bundle.version",
        "1 + 1",
        "\"true\"",
        "null",
        "[true]",
        "-schedule.hour",
        "bundle.labels[\"hotfix\"]",
        "schedule.isWeekend ? 1 : true",
        "schedule.isWeekend && bundle.version",
        "!bundle.name",
        "size(bundle.intent.skip)",
        "bundle.intent.skip.map(x, x)",
        "bundle",
        "now()",
        "dyn(1)",
        "dyn(dyn(bundle.version))",
        "schedule.isWeekend || dyn(\"true\")",
    ] {
        let said = check_expression(expression).expect_err(expression);
        assert!(said.contains("can never be true or false") && said.contains("compare it"), "{said}");
    }
}

#[test]
fn what_may_be_true_or_false_is_not() {
    for expression in [
        "true",
        "schedule.isWeekend",
        "!schedule.isWeekend && schedule.hour < 17",
        "bundle.labels[\"hotfix\"] == \"true\"",
        "bundle.labels[?\"hotfix\"].orValue(\"\") == \"true\"",
        "\"prod\" in bundle.intent.skip",
        "bundle.intent.skip.exists(x, x == \"prod\")",
        "has(bundle.labels.hotfix)",
        "bundle.version.startsWith(\"1.\")",
        "schedule.isWeekend ? bundle.upstreamSoakMinutes >= 60 : true",
        "dyn(true)",
        "dyn(schedule.isWeekend)",
        "dyn(bundle.version) == \"1.29.0\"",
    ] {
        check_expression(expression).expect(expression);
    }
}
