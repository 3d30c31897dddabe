//! Expressions and their values: a table per topic. The public conformance data covers the language; this covers what is
//! particular to this engine: JSON, errors with kinds and places, hints, folding, lazy parts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its own functions too"
)]

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_cel::{Env, EvalError, EvalErrorKind, Limits, MapScope};
use serde_json::{Value as Json, json};

fn variables() -> BTreeMap<String, Json> {
    let document = json!({
        "bundle": {"soak": 45, "labels": {"hotfix": "true", "a.b/c": "d"}, "big": 18446744073709551615u64, "none": null},
        "items": [{"x": 1, "tags": ["a", "b"]}, {"x": 2, "tags": []}, {"x": 3}],
        "text": "Grüße, 世界",
        "price": 1.5,
        "when": "2026-01-31T12:00:00Z",
    });
    document.as_object().unwrap().clone().into_iter().collect()
}

fn env() -> Env {
    variables().keys().fold(Env::standard().declare("absent"), |env, name| env.declare(name.clone()))
}

fn eval(source: &str) -> Result<Json, EvalError> {
    let variables = variables();
    let now: Timestamp = "2026-02-01T00:00:00Z".parse().unwrap();
    let scope = MapScope::new(&variables, now);
    let program = env().compile(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    program.evaluate(&scope, &Limits::default())?.to_json()
}

fn check(source: &str, expected: Json) {
    assert_eq!(eval(source), Ok(expected), "{source}");
}

fn fails(source: &str, kind: EvalErrorKind, at: &str, message: &str) {
    let error = eval(source).expect_err(source);
    assert_eq!(error.kind, kind, "{source}: {error}");
    assert_eq!(error.span.text(source), at, "{source}: {error}");
    assert!(error.message.contains(message), "{source}: {error}");
}

fn refused(source: &str, at: &str, message: &str, hint: Option<&str>) {
    let errors = env().compile(source).map(|_| ()).expect_err(source);
    let found = errors.iter().find(|error| error.message == message);
    let error = found.unwrap_or_else(|| panic!("{source}: {errors:?}"));
    assert_eq!(error.span.text(source), at, "{source}");
    assert_eq!(error.hint.as_deref(), hint, "{source}");
}

#[test]
fn json_is_read_in_place() {
    check("bundle.soak >= 30 && bundle.labels['hotfix'] == 'true'", json!(true));
    check("bundle.labels['a.b/c']", json!("d"));
    check("bundle.labels.`a.b/c`", json!("d"));
    check("bundle.big", json!(18446744073709551615u64));
    check("bundle.big > 1", json!(true));
    check("items[1].x", json!(2));
    check("items[1u].x + items[2.0].x", json!(5));
    check("items", variables()["items"].clone());
    check("items.map(i, i.x)", json!([1, 2, 3]));
    check("items.filter(i, has(i.tags) && size(i.tags) > 0)", json!([{"x": 1, "tags": ["a", "b"]}]));
    check("items[0] == {'x': 1.0, 'tags': ['a', 'b']}", json!(true));
    check("bundle.labels == {'hotfix': 'true', 'a.b/c': 'd'}", json!(true));
    check("bundle.labels.map(k, k)", json!(["a.b/c", "hotfix"]));
    check("bundle.labels.transformMap(k, v, v + '!')", json!({"a.b/c": "d!", "hotfix": "true!"}));
    check("'hotfix' in bundle.labels && !('x' in bundle.labels) && !(1 in bundle.labels)", json!(true));
    check("price * 2.0", json!(3.0));
    check("text.size()", json!(9));
    check("text.substring(7)", json!("世界"));
    check("[text].exists(t, t.contains('üße'))", json!(true));
}

#[test]
fn absent_data_is_missing_and_not_wrong() {
    fails("absent.x", EvalErrorKind::Missing, "absent", "`absent` has no value yet");
    fails("bundle.status.ready", EvalErrorKind::Missing, "bundle.status", "no such key `status`");
    fails("bundle.none.ready", EvalErrorKind::Missing, "bundle.none.ready", "null has no field `ready`");
    fails("bundle['nope']", EvalErrorKind::Missing, "bundle['nope']", "no such key `nope`");
    fails("items[3]", EvalErrorKind::Missing, "items[3]", "out of range of a list of 3");
    fails("items[-1]", EvalErrorKind::Missing, "items[-1]", "`-1`");
    fails("optional.none().value()", EvalErrorKind::Missing, "optional.none().value()", "");
    check("has(bundle.none.x) || has(bundle.nope)", json!(false));
    check("bundle.?status.?ready.orValue('unknown')", json!("unknown"));
    check("bundle.?none.?ready.hasValue()", json!(false));
    check("bundle[?'nope'].orValue(1) + items[?9].optMap(i, i.x).orValue(2)", json!(3));
    check("{'a': 1, ?'b': bundle.?nope, ?'c': bundle.?soak}", json!({"a": 1, "c": 45}));
    check("[?bundle.?nope, ?bundle.?soak]", json!([45]));
    check("optional.none()", Json::Null);
}

#[test]
fn errors_have_a_kind_and_a_place() {
    fails("1 + (2 / (1 - 1))", EvalErrorKind::DivideByZero, "(2 / (1 - 1))", "division by zero");
    fails(
        "9223372036854775807 + items[0].x",
        EvalErrorKind::Overflow,
        "9223372036854775807 + items[0].x",
        "",
    );
    fails("price + 1", EvalErrorKind::Type, "price + 1", "`+` does not work on double and int; convert");
    fails("when < timestamp(when)", EvalErrorKind::Type, "when < timestamp(when)", "`timestamp()`");
    fails(
        "text.matches(text + '(')",
        EvalErrorKind::Argument,
        "text.matches(text + '(')",
        "not a regular expression",
    );
    fails("timestamp(text)", EvalErrorKind::Argument, "timestamp(text)", "write it like");
    fails("duration(text)", EvalErrorKind::Argument, "duration(text)", "write it like");
    fails(
        "timestamp(when).getHours('Nowhere/City')",
        EvalErrorKind::Argument,
        "timestamp(when).getHours('Nowhere/City')",
        "`Nowhere/City` is not a time zone",
    );
    fails("items.map(i, i.x / 0)", EvalErrorKind::DivideByZero, "i.x / 0", "");
    fails("bundle.soak ? 1 : 2", EvalErrorKind::Type, "bundle.soak", "a condition must be a bool, not int");
    fails(
        "size(1 + bundle.soak)",
        EvalErrorKind::Type,
        "size(1 + bundle.soak)",
        "`size` does not work on (int)",
    );
    fails("{text: 1, 'Grüße, ' + '世界': 2}", EvalErrorKind::Argument, "'Grüße, ' + '世界'", "stands twice");
    fails("b'abc'", EvalErrorKind::Type, "", "base64.encode");
    fails("{1: 2}", EvalErrorKind::Type, "", "must be a string, not int");
    fails("double('NaN')", EvalErrorKind::Argument, "", "JSON number");
}

#[test]
fn failing_parts_do_not_matter_when_others_decide() {
    check("absent.x == 1 || bundle.soak == 45", json!(true));
    check("bundle.soak == 45 || absent.x == 1", json!(true));
    check("absent.x == 1 && bundle.soak == 0", json!(false));
    check("bundle.soak == 45 ? 'yes' : absent.x", json!("yes"));
    check("items.exists(i, i.tags[0] == 'a')", json!(true));
    check("items.all(i, i.tags.size() > 1)", json!(false));
    check("bundle.?soak.orValue(absent.x)", json!(45));
    check("optional.of(1).or(absent.y).value()", json!(1));
    fails("items.all(i, i.tags.size() >= 0)", EvalErrorKind::Missing, "i.tags", "no such key `tags`");
    fails("absent.x || 1 / 0 == 1", EvalErrorKind::Missing, "absent", "");
}

#[test]
fn unknown_names_are_told_when_compiling() {
    refused("bundel.soak > 1", "bundel", "undeclared name `bundel`", Some("did you mean `bundle`?"));
    refused("items.all(item, itme.x > 1)", "itme", "undeclared name `itme`", Some("did you mean `item`?"));
    refused("zzzzzzzz", "zzzzzzzz", "undeclared name `zzzzzzzz`", None);
    refused(
        "text.startswith('a')",
        "text.startswith('a')",
        "unknown function `startswith`",
        Some("did you mean `startsWith`?"),
    );
    refused(
        "math.graetest(1, 2)",
        "math.graetest(1, 2)",
        "unknown function `math.graetest`",
        Some("did you mean `math.greatest`?"),
    );
    refused(
        "startsWith(text, 'a')",
        "startsWith(text, 'a')",
        "unknown function `startsWith`",
        Some("call it on a value: `x.startsWith(…)`"),
    );
    refused(
        "text.timestamp()",
        "text.timestamp()",
        "unknown function `timestamp`",
        Some("call it as `timestamp(…)`"),
    );
    refused("text.replace('a')", "text.replace('a')", "`replace` takes 2 to 3 arguments, not 1", None);
    refused("size()", "size()", "`size` takes 1 arguments, not 0", None);
    refused("text.matches('a(')", "'a('", "`a(` is not a regular expression: unclosed group", None);
    refused("foo.Bar{a: 1}", "foo.Bar{a: 1}", "unknown message type `foo.Bar`", None);
    let both = env().compile("one + two").unwrap_err();
    assert_eq!(both.len(), 2);
    let many = env().compile(&vec!["x"; 200].join(" && ")).unwrap_err();
    assert_eq!(many.len(), 20);
}

#[test]
fn references_are_data_and_nothing_else() {
    let source =
        "items.exists(i, i.x > math.abs(bundle.soak)) && type(text) == string && bundle.?labels.x == ''";
    let program = env().compile(source).unwrap();
    let found: Vec<String> = program.references().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["items", "bundle.soak", "text", "bundle.labels.x"]);
    assert!(!program.uses_now());
    assert!(env().compile("now() > timestamp(when)").unwrap().uses_now());
}

#[test]
fn times_become_text_in_json() {
    check("timestamp(when) + duration('90m')", json!("2026-01-31T13:30:00Z"));
    check("[timestamp(when) - duration('1ms')]", json!(["2026-01-31T11:59:59.999Z"]));
    check("now() - timestamp(when)", json!("43200s"));
    check("duration('-1.5s')", json!("-1.5s"));
    check("timestamp('2026-07-01T12:00:00+02:00').getHours('America/New_York')", json!(6));
    check("timestamp('2026-03-29T00:30:00Z').getHours('Europe/Vienna')", json!(1));
    check("timestamp('2026-03-29T01:30:00Z').getHours('Europe/Vienna')", json!(3));
    check("string(1e6) + ' ' + string(0.00001) + ' ' + string(1.5)", json!("1e+06 1e-05 1.5"));
}

#[test]
fn libraries_that_the_conformance_data_leaves_out() {
    check("sets.contains([1, 2, 3], [2.0, 1u]) && !sets.contains([1], [2])", json!(true));
    check("sets.equivalent([1, 2, 2], [2, 1]) && !sets.equivalent([1], [1, 2])", json!(true));
    check("sets.intersects(items.map(i, i.x), [3]) && !sets.intersects([], [1])", json!(true));
    check("['b', 'a'].first().value() + [1, 2].last().optMap(x, string(x)).value()", json!("b2"));
    check("[].first().hasValue() || [].last().hasValue()", json!(false));
    check("optional.unwrap([optional.of(1), optional.none()]) + [optional.of(2)].unwrapOpt()", json!([1, 2]));
    check("'a,b,,c'.split(',')", json!(["a", "b", "", "c"]));
    check("'héé'.split('')", json!(["h", "é", "é"]));
    check("''.split('') + ''.split(',')", json!([""]));
    check("'abc'.split('', 2)", json!(["a", "bc"]));
    check("'aaa'.replace('', '-')", json!("-a-a-a-"));
    check("items.sortBy(i, -i.x).map(i, i.x)", json!([3, 2, 1]));
    check("text.lowerAscii().reverse()", json!("界世 ,eßürg"));
    check("base64.encode(bytes(text))", json!("R3LDvMOfZSwg5LiW55WM"));
    check("string(base64.decode('R3LDvMOfZSwg5LiW55WM'))", json!("Grüße, 世界"));
    check("math.sqrt(9) + math.least(1.5, 2)", json!(4.5));
    check("cel.bind(a, items.size(), a * a)", json!(9));
    check("lists.range(4).slice(1, 3)", json!([1, 2]));
    check("items.slice(0, 1).map(i, i.x)", json!([1]));
}
