use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fault::EvalErrorKind;
use crate::program::MapScope;

const NAMES: [&str; 6] = ["a", "b", "text", "items", "flag", "missing"];

fn env() -> Env {
    NAMES.iter().fold(Env::standard(), |env, name| env.declare(*name))
}

fn data() -> BTreeMap<String, Json> {
    BTreeMap::from([
        (
            "a".to_owned(),
            json!({"b": 1, "s": "é", "d": 1.5, "n": null, "list": [1, 2], "hostile": "${a.b} $${x} ${"}),
        ),
        ("b".to_owned(), json!("bee")),
        ("text".to_owned(), json!("${a.b}")),
        ("items".to_owned(), json!([{"x": 1}, {"x": 2}])),
        ("flag".to_owned(), json!(true)),
    ])
}

fn moment(text: &str) -> Timestamp {
    text.parse().expect(text)
}

fn rendered(template: Json) -> Result<Json, RenderError> {
    let template = Template::compile(&env(), &template).expect("template compiles");
    let data = data();
    let scope = MapScope::new(&data, moment("2026-01-01T00:00:00Z"));
    template.render(&scope, &Limits::default())
}

fn check(template: Json, expected: Json) {
    assert_eq!(rendered(template.clone()), Ok(expected), "rendering of {template}");
}

fn check_failure(template: Json, path: &str, kind: EvalErrorKind, message: &str) {
    let error = rendered(template.clone()).expect_err("rendering fails");
    assert_eq!((error.path.to_string().as_str(), error.source.kind), (path, kind), "failure of {template}");
    assert!(error.to_string().contains(message), "{template} says {error}");
}

fn compile_errors(template: &Json) -> Vec<TemplateError> {
    Template::compile(&env(), template).expect_err("template does not compile")
}

#[test]
fn standalone_keeps_the_type() {
    check(json!("${a.b}"), json!(1));
    check(json!("${ a.b }"), json!(1));
    check(json!("${a.list}"), json!([1, 2]));
    check(json!("${a.d}"), json!(1.5));
    check(json!("${a.n}"), json!(null));
    check(json!("${flag}"), json!(true));
    check(json!("${{'k': [a.b, 'x']}}"), json!({"k": [1, "x"]}));
    check(json!("${duration('600s')}"), json!("600s"));
    check(json!("${timestamp('2026-01-02T03:04:05Z')}"), json!("2026-01-02T03:04:05Z"));
    check(json!({"x": ["${a.b}", {"y": "${b}"}]}), json!({"x": [1, {"y": "bee"}]}));
}

#[test]
fn embedded_becomes_text() {
    check(json!("x-${b}-${a.b}"), json!("x-bee-1"));
    check(json!("${a.b}\n"), json!("1\n"));
    check(json!("${a.b}${a.s}"), json!("1é"));
    check(json!("${flag}/${a.d}/${2u}/${1.0}/${1500000.5}"), json!("true/1.5/2/1/1500000.5"));
    check(
        json!("in ${duration('1m')} at ${timestamp('2026-01-02T03:04:05Z')}"),
        json!("in 60s at 2026-01-02T03:04:05Z"),
    );
    check(json!("${a.?s} and ${a.?zz.orValue('none')}"), json!("é and none"));
    check(json!("${'}'}${\"{\"} ${ {'k': 'v'}['k'] }"), json!("}{ v"));
}

#[test]
fn what_has_no_text_is_refused() {
    for (source, ty) in [
        ("a.n", "null_type"),
        ("a.list", "list"),
        ("a", "map"),
        ("a.?zz", "optional_type"),
        ("b'x'", "bytes"),
        ("type(1)", "type"),
        ("0.0 / 0.0", "double"),
    ] {
        let template = json!({"spec": {"args": [format!("x ${{{source}}}")]}});
        check_failure(
            template,
            "spec.args[0]",
            EvalErrorKind::Type,
            &format!("`${{{source}}}` is a value of type {ty}"),
        );
    }
}

#[test]
fn nothing_is_evaluated_in_constants_keys_and_deferred_text() {
    for constant in
        [json!(null), json!(1), json!("a.b"), json!("$ $$ {} $x"), json!({"k": [true, {"l": "}"}]})]
    {
        let template = Template::compile(&env(), &constant).expect("constant");
        assert!(template.is_constant(), "{constant}");
        check(constant.clone(), constant);
    }
    check(json!({"${a.b}": "x", "${": 1}), json!({"${a.b}": "x", "${": 1}));
    check(json!({"${a.b}": "${a.b}"}), json!({"${a.b}": 1}));
    check(json!("$${a.b}"), json!("${a.b}"));
    check(json!("$$${a.b}"), json!("$${a.b}"));
    check(json!("$${no.such(} and ${b}"), json!("${no.such(} and bee"));
    check(json!("${'${a.b}'}"), json!("${a.b}"));
}

#[test]
fn text_from_data_is_never_scanned() {
    check(json!("${text}"), json!("${a.b}"));
    check(json!("<${text}>"), json!("<${a.b}>"));
    check(json!("${a.hostile}"), json!("${a.b} $${x} ${"));
    check(json!("${a.hostile}${a.hostile}"), json!("${a.b} $${x} ${${a.b} $${x} ${"));
    check(json!("$${x}${text}"), json!("${x}${a.b}"));
}

#[test]
fn absent_optionals_leave_their_place_out() {
    check(json!({"x": "${a.?zz}", "y": 1}), json!({"y": 1}));
    check(json!({"x": "${a.?b}", "y": 1}), json!({"x": 1, "y": 1}));
    check(json!(["${a.?zz}", "${a.?b}", 3]), json!([1, 3]));
    check(json!({"x": {"y": "${optional.none()}"}}), json!({"x": {}}));
    check(json!({"x": "${a.n}"}), json!({"x": null}));
    check(json!("${a.?zz}"), json!(null));
}

#[test]
fn failures_name_the_field() {
    check_failure(
        json!({"spec": {"x": ["a", "${a.zz}"]}}),
        "spec.x[1]",
        EvalErrorKind::Missing,
        "`spec.x[1]`: ",
    );
    check_failure(json!("${missing.x}"), "", EvalErrorKind::Missing, "missing");
    check_failure(
        json!({"labels": {"a.b/c": "${1 / 0}"}}),
        "labels[\"a.b/c\"]",
        EvalErrorKind::DivideByZero,
        "zero",
    );
    check_failure(json!({"x": "n${'a' + 1}"}), "x", EvalErrorKind::Type, "`x`: ");
}

#[test]
fn errors_are_positioned_in_the_string() {
    let template = json!({"spec": {"url": "https://${b} + ${ a. }", "ok": "${b}"}, "z": ["${zz.y}"]});
    let errors = compile_errors(&template);
    let found: Vec<_> = errors.iter().map(|error| (error.path.to_string(), error.offset)).collect();
    assert_eq!(found, [("spec.url".to_owned(), 18), ("z[0]".to_owned(), 2)]);
    assert_eq!(errors[0].text, "https://${b} + ${ a. }");
    assert_eq!(errors[0].span(), Span::new(20, 20));
    assert!(errors[0].to_string().starts_with("`spec.url`: expected a field name"), "{}", errors[0]);
    assert_eq!(errors[1].span().text(&errors[1].text), "zz");
    let shown = errors[0].render();
    assert!(shown.contains("--> spec.url:1:21"), "{shown}");
    assert!(shown.contains("| https://${b} + ${ a. }\n  |                     ^"), "{shown}");
}

#[test]
fn errors_of_the_scanner_are_positioned_too() {
    for (text, offset, place) in
        [("ab ${c", 3, "${c"), ("${a} ${'x}", 7, "'x}"), ("é$${", 3, "${"), ("${}", 2, "")]
    {
        let errors = compile_errors(&json!({"x": text}));
        assert_eq!(errors.len(), 1, "{text}");
        assert_eq!((errors[0].offset, errors[0].span().text(text)), (offset, place), "{text}");
    }
}

#[test]
fn every_error_is_reported() {
    let errors = compile_errors(&json!({"x": "${u} ${v}", "y": ["${w +}", "${"]}));
    let paths: Vec<_> = errors.iter().map(|error| error.path.to_string()).collect();
    assert_eq!(paths, ["x", "x", "y[0]", "y[1]"]);
}

#[test]
fn trees_have_a_bound() {
    let nested = |depth: usize| (0..depth).fold(json!("${a.b}"), |inside, _| Json::Array(vec![inside]));
    assert!(Template::compile(&env(), &nested(100)).is_ok());
    let errors = compile_errors(&nested(101));
    assert!(errors[0].error.message.contains("at most 100 levels"), "{}", errors[0]);
    let wrap = |inside: Json| Json::Object(serde_json::Map::from_iter([("k".to_owned(), inside)]));
    let errors = compile_errors(&(0..1_000).fold(json!({}), |inside, _| wrap(inside)));
    assert_eq!(errors.len(), 1);
}

#[test]
fn conditions_are_exactly_one_expression() {
    let compile = |text: &str| Template::compile_expression(&env(), text);
    for text in ["${a.b == 1}", " ${ a.b == 1 }\n"] {
        assert_eq!(
            compile(text).map(|program| program.source().to_owned()).ok().as_deref(),
            Some("a.b == 1")
        );
    }
    for text in ["", "a.b", "x ${a}", "${a} ${b}", "${a}.", "$${a}"] {
        let error = compile(text).expect_err(text);
        assert_eq!(error.to_string(), "expected exactly one expression `${…}`", "{text}");
    }
    let error = compile("${a.b == }").expect_err("unfinished");
    assert_eq!((error.offset, error.error.span), (2, Span::new(6, 6)));
    assert!(compile("${zz}").is_err());
    assert!(compile("${a").expect_err("unclosed").to_string().contains("not closed"));
}

#[test]
fn references_know_their_field() {
    let value = json!({"x": "${a.b} ${a.?s}", "l": ["y", "${items.all(i, i.x > a.d)}"]});
    let template = Template::compile(&env(), &value).expect("compiles");
    let found: Vec<_> = template
        .references()
        .into_iter()
        .map(|(path, reference)| format!("{path}: {reference}{}", if reference.optional { "?" } else { "" }))
        .collect();
    assert_eq!(found, ["l[1]: items", "l[1]: a.d", "x: a.b", "x: a.s?"]);
    let sources: Vec<_> = template.programs().map(Program::source).collect();
    assert_eq!(sources, ["items.all(i, i.x > a.d)", "a.b", "a.?s"]);
    assert!(!template.is_constant());
}

#[test]
fn the_earliest_change_counts() {
    let value = json!({
        "x": "${now() > timestamp('2026-01-01T02:00:00Z')}",
        "y": "${now() > timestamp('2026-01-01T01:00:00Z') ? 'late' : 'early'} ${b}",
        "z": "${a.b}",
    });
    let template = Template::compile(&env(), &value).expect("compiles");
    let data = data();
    let at = |text: &str| template.render_until(&MapScope::new(&data, moment(text)), &Limits::default());
    let (value, until) = at("2026-01-01T00:00:00Z").expect("renders");
    assert_eq!(value, json!({"x": false, "y": "early bee", "z": 1}));
    let until = until.expect("changes");
    assert!(until >= moment("2026-01-01T01:00:00Z") && until < moment("2026-01-01T01:00:01Z"), "{until}");
    let (value, until) = at("2026-01-01T03:00:00Z").expect("renders");
    assert_eq!((value, until), (json!({"x": true, "y": "late bee", "z": 1}), None));
}

#[test]
fn the_budget_holds_for_every_expression() {
    let value = json!({"x": "${items.map(i, items.map(j, items.map(k, i.x + j.x + k.x)))}"});
    let template = Template::compile(&env(), &value).expect("compiles");
    let data = data();
    let scope = MapScope::new(&data, moment("2026-01-01T00:00:00Z"));
    let error = template.render(&scope, &Limits { cost: 10 }).expect_err("too expensive");
    assert_eq!((error.path.to_string().as_str(), error.source.kind), ("x", EvalErrorKind::Budget));
}

#[test]
fn many_errors_and_large_results_have_a_bound() {
    assert_eq!(compile_errors(&json!("${zz}".repeat(20_000))).len(), 100);
    let data = BTreeMap::from([("b".to_owned(), json!("x".repeat(1_000_000)))]);
    let scope = MapScope::new(&data, moment("2026-01-01T00:00:00Z"));
    for template in [
        json!({"x": "${b}".repeat(20)}),
        json!({"x": vec!["${b}"; 20]}),
        json!({"x": vec!["${[{'k': b}]}"; 20]}),
    ] {
        let compiled = Template::compile(&env(), &template).expect("compiles");
        let error = compiled.render(&scope, &Limits { cost: u64::MAX }).expect_err("too large");
        assert_eq!(error.source.kind, EvalErrorKind::Budget, "{error}");
        assert!(error.to_string().contains("more than 16777216 bytes together"), "{error}");
    }
}

#[test]
fn paths_read_as_they_are_written() {
    let path = |steps: &[FieldStep]| FieldPath::from(steps.to_vec()).to_string();
    let field = |name: &str| FieldStep::Field(name.to_owned());
    assert_eq!(path(&[]), "");
    assert_eq!(path(&[field("spec"), field("git"), field("url")]), "spec.git.url");
    assert_eq!(path(&[field("items"), FieldStep::Index(0), field("x-y")]), "items[0].x-y");
    assert_eq!(path(&[FieldStep::Index(2)]), "[2]");
    assert_eq!(path(&[field("a.b"), field(""), field("q\"")]), r#"["a.b"][""]["q\""]"#);
}

/// JSON trees of a few levels with arbitrary text.
fn tree() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
        "[$a{}]{0,4}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

fn holds_expression(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains("${"),
        Json::Array(elements) => elements.iter().any(holds_expression),
        Json::Object(fields) => fields.values().any(holds_expression),
        _ => false,
    }
}

proptest! {
    #[test]
    fn trees_without_expressions_come_back_unchanged(value in tree()) {
        prop_assume!(!holds_expression(&value));
        let template = Template::compile(&env(), &value).expect("constant");
        prop_assert!(template.is_constant());
        prop_assert_eq!(rendered(value.clone()), Ok(value));
    }

    #[test]
    fn data_passes_through_as_it_is(value in tree(), text in "[$a.b{}'\"]{0,12}") {
        let data = BTreeMap::from([("a".to_owned(), value.clone()), ("b".to_owned(), Json::from(text.clone()))]);
        let scope = MapScope::new(&data, moment("2026-01-01T00:00:00Z"));
        let written = json!({"whole": "${a}", "text": "<${b}>"});
        let template = Template::compile(&env(), &written).expect("compiles");
        let expected = json!({"whole": value, "text": format!("<{text}>")});
        prop_assert_eq!(template.render(&scope, &Limits::default()), Ok(expected));
    }

    #[test]
    fn arbitrary_templates_never_panic(value in tree()) {
        if let Err(errors) = Template::compile(&env(), &value) {
            for error in errors {
                prop_assert!(error.text.get(error.span().range()).is_some(), "{:?}", error);
                prop_assert!(!error.render().is_empty());
            }
        }
    }
}
