//! What expressions can read.

use kardinal_cel::Scope as _;
use kardinal_policy::{Attribute, Context as _};
use serde_json::{Value, json};

use super::door::{Door, bundle, door, gate_in};
use crate::gate_context::GateContext;

fn full() -> Door {
    let mut door = door().with(&json!({
        "metadata": {
            "labels": { "hotfix": "true", "team": "core", "off": "false", "kardinal.io/pipeline": "my-app" },
            "annotations": { "kardinal.io/pin": "true" },
        },
        "spec": {
            "provenance": {
                "commitSHA": "abc123d", "ciRunURL": "https://ci.example.com/1", "author": "alice",
                "buildTimestamp": "2026-04-14T07:00:00Z", "rollbackOf": "my-app-v1-30-0",
            },
            "intent": { "target": "prod", "skip": ["staging"] },
        },
    }));
    door.previous = Some(bundle(&json!({
        "metadata": { "name": "my-app-v1-28-0" },
        "spec": { "artifacts": { "images": [{ "name": "my-app", "reference": "my-app:1.28.0" }] } },
    })));
    door
}

#[test]
fn every_attribute_has_its_value() {
    for expression in [
        r#"bundle.version == "1.29.0" && bundle.type == "image""#,
        r#"bundle.name == "my-app-v1-29-0" && bundle.metadata.name == bundle.name"#,
        r#"bundle.labels.team == "core" && bundle.metadata.labels.team == "core""#,
        r#"bundle.labels["kardinal.io/pipeline"] == "my-app""#,
        r#"bundle.annotations["kardinal.io/pin"] == "true" && bundle.metadata.annotations["kardinal.io/pin"] == true"#,
        r#"bundle.provenance.commitSHA == "abc123d" && bundle.provenance.author == "alice""#,
        r#"bundle.provenance.ciRunURL.startsWith("https://") && bundle.provenance.rollbackOf != """#,
        r#"timestamp(bundle.provenance.buildTimestamp) < timestamp(bundle.metadata.creationTimestamp)"#,
        r#"bundle.intent.target == "prod" && "staging" in bundle.intent.skip && bundle.intent.skip[0] == "staging""#,
        r#"environment.name == "prod" && environment.approval == "pr-review""#,
        r#"previousBundle.version == "1.28.0" && previousBundle.name == "my-app-v1-28-0""#,
        r#"schedule.hour == 14 && schedule.minute == 0 && schedule.dayOfWeek == "Tuesday" && !schedule.isWeekend"#,
        r#"now() == timestamp("2026-04-14T14:00:00Z")"#,
        r#"["a", bundle.version].exists(x, x == "1.29.0")"#,
    ] {
        let verdict = full().says(expression);
        assert!(verdict.is_open() && !verdict.is_unknown(), "{expression}: {}", verdict.reason);
    }
}

/// Whether a value is of the type that is declared for it, and has nothing else in it.
fn fits(attribute: &Attribute, value: &Value) -> bool {
    let is_text = |value: &Value| value.is_string();
    match attribute {
        Attribute::Name(_) => value.as_str().is_some_and(|text| !text.is_empty()),
        Attribute::Text(_) => is_text(value),
        Attribute::Choice(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
        Attribute::Truth => value.is_boolean(),
        Attribute::Number | Attribute::Elapsed { .. } => value.is_i64(),
        Attribute::Labels => value.as_object().is_some_and(|map| map.values().all(is_text)),
        Attribute::Texts(_) => value.as_array().is_some_and(|list| list.iter().all(is_text)),
        Attribute::Fields(fields) => value.as_object().is_some_and(|map| {
            let fits = |(name, attribute): &(&str, Attribute)| {
                map.get(*name).is_some_and(|value| fits(attribute, value))
            };
            map.len() == fields.len() && fields.iter().all(fits)
        }),
    }
}

#[test]
fn the_values_are_of_the_types_that_are_declared() {
    for door in [full(), door(), door().verified(&[("staging", "2026-04-14T13:48:07Z")])] {
        let context = door.context();
        for (name, attribute) in GateContext::SHAPE.variables {
            let value = context.get(name).unwrap();
            assert!(fits(attribute, value), "{name}: {value}");
        }
    }
}

/// The names of all single values and collections.
fn leaves(fields: &'static [(&'static str, Attribute)]) -> Vec<&'static str> {
    let below = |(name, attribute): &'static (&'static str, Attribute)| match attribute {
        Attribute::Fields(fields) => leaves(fields),
        _ => vec![*name],
    };
    fields.iter().flat_map(below).collect()
}

#[test]
fn the_page_about_gates_names_every_attribute() {
    let page = include_str!("../../../../../../docs/concepts/policy-gates.md");
    for name in leaves(GateContext::SHAPE.variables) {
        let ends = |text: &str| page.contains(&format!("{text}{name}`"));
        assert!(ends("`") || ends("."), "docs/concepts/policy-gates.md does not name `{name}`");
    }
}

#[test]
fn what_is_not_known_is_empty() {
    for expression in [
        r#"bundle.provenance.author == "" && bundle.provenance.buildTimestamp == """#,
        r#"bundle.intent.target == "" && size(bundle.intent.skip) == 0"#,
        r#"previousBundle.version == "" && previousBundle.name == """#,
        r#"size(bundle.labels) == 0 && bundle.upstreamSoakMinutes == 0"#,
    ] {
        let verdict = door().says(expression);
        assert!(verdict.is_open(), "{expression}: {}", verdict.reason);
    }
}

#[test]
fn labels_are_texts_that_equal_truth_values() {
    for (expression, ready) in [
        ("bundle.labels.hotfix == true", true),
        ("bundle.labels.hotfix == \"true\"", true),
        ("true == bundle.labels.hotfix", true),
        ("bundle.labels[\"hotfix\"] == true", true),
        ("bundle.metadata.labels.hotfix == true", true),
        ("(bundle.labels).hotfix == (true)", true),
        ("bundle.labels.hotfix != true", false),
        ("bundle.labels.hotfix == false", false),
        ("bundle.labels.off == false", true),
        ("bundle.labels.off == true", false),
        ("bundle.labels.team == true", false),
        // A label that is not there is empty text.
        ("bundle.labels.absent == true", false),
        ("bundle.labels.absent != true", true),
        ("bundle.labels.absent == \"\"", true),
        ("bundle.labels.absent.startsWith(\"x\") || true", true),
        ("has(bundle.labels.absent)", false),
        ("has(bundle.labels.hotfix)", true),
        ("bundle.labels.?hotfix.orValue(\"\") == \"true\"", true),
        ("[{\"labels\": {\"a\": true}}].exists(bundle, bundle.labels.a == true)", true),
    ] {
        let verdict = full().says(expression);
        assert_eq!(
            (verdict.is_open(), verdict.is_unknown()),
            (ready, false),
            "{expression}: {}",
            verdict.reason
        );
    }
}

#[test]
fn the_soak_time_is_the_shortest_of_the_direct_upstreams() {
    let minutes = |environments: &[(&str, &str)], expected: i64| {
        let verdict =
            door().verified(environments).says(&format!("bundle.upstreamSoakMinutes == {expected}"));
        assert!(verdict.is_open(), "{environments:?}: {}", verdict.reason);
    };
    minutes(&[], 0);
    minutes(&[("staging", "")], 0);
    minutes(&[("staging", "2026-04-14T13:15:00Z")], 45);
    minutes(&[("staging", "2026-04-14T13:15:01Z")], 44);
    minutes(&[("eu", "2026-04-14T12:00:00Z"), ("us", "2026-04-14T13:50:00Z")], 10);
    minutes(&[("eu", "2026-04-14T12:00:00Z"), ("us", "")], 0);
    // Clocks differ between machines.
    minutes(&[("staging", "2026-04-14T14:05:00Z")], 0);
}

#[test]
fn the_schedule_is_that_of_the_time_zone() {
    for (zone, now, expression) in [
        ("UTC", "2026-04-11T12:00:00Z", "schedule.isWeekend && schedule.dayOfWeek == \"Saturday\""),
        ("UTC", "2026-04-12T23:59:59Z", "schedule.isWeekend && schedule.dayOfWeek == \"Sunday\""),
        ("UTC", "2026-04-13T00:00:00Z", "!schedule.isWeekend && schedule.dayOfWeek == \"Monday\""),
        (
            "Europe/Berlin",
            "2026-04-12T22:30:00Z",
            "!schedule.isWeekend && schedule.hour == 0 && schedule.minute == 30",
        ),
        ("Europe/Berlin", "2026-01-12T22:30:00Z", "schedule.hour == 23 && schedule.dayOfWeek == \"Monday\""),
        ("America/New_York", "2026-04-13T03:00:00Z", "schedule.isWeekend && schedule.hour == 23"),
        ("Asia/Kathmandu", "2026-04-14T00:00:00Z", "schedule.hour == 5 && schedule.minute == 45"),
        ("Pacific/Kiritimati", "2026-04-10T10:00:00Z", "schedule.isWeekend && schedule.hour == 0"),
    ] {
        let verdict = door().at(now).ask(&gate_in(zone, expression));
        assert!(verdict.is_open(), "{zone} {now}: {}", verdict.reason);
    }
}
