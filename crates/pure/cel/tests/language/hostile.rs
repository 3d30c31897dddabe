//! Expressions that want too much end in an error of kind `Budget`, soon and without much memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its own functions too"
)]

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_cel::{Env, EvalErrorKind, Limits, MapScope};
use serde_json::{Value as Json, json};

fn kind(source: &str) -> Result<String, EvalErrorKind> {
    let text = "x".repeat(10_000);
    let variables: BTreeMap<String, Json> =
        BTreeMap::from([("text".to_owned(), json!(text)), ("items".to_owned(), json!(vec![1; 100]))]);
    let env = Env::standard().declare("text").declare("items");
    let program = env.compile(source).unwrap_or_else(|errors| panic!("{errors:?}: {source}"));
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    let value = program.evaluate(&scope, &Limits::default()).map_err(|error| error.kind)?;
    value.to_json().map(|json| json.to_string()).map_err(|error| error.kind)
}

fn stops(source: &str) {
    assert_eq!(kind(source), Err(EvalErrorKind::Budget), "{}", source.chars().take(200).collect::<String>());
}

/// `seed` bound to `a`, then doubled again and again by `step`, which refers to it as `a`.
fn doubled(seed: &str, step: &str, times: usize) -> String {
    let mut source = "a".to_owned();
    for _ in 0..times {
        source = format!("cel.bind(a, {step}, {source})");
    }
    format!("cel.bind(a, {seed}, {source})")
}

#[test]
fn nested_loops_stop() {
    let loops = |name: &str| {
        format!("items.{name}(a, items.{name}(b, items.{name}(c, items.{name}(d, a + b + c + d > 0))))")
    };
    stops(&loops("all"));
    stops(&loops("map"));
    stops("items.filter(a, items.filter(b, items.filter(c, items.filter(d, a + b > 0) != []) != []) != [])");
    stops("items.exists_one(a, !items.exists_one(b, !items.exists_one(c, !items.exists_one(d, a == b))))");
    stops("items.transformList(i, v, items.transformMap(j, w, items.map(x, items.size() + j)))");
    // A loop whose elements fail is no way around the budget, though failures are absorbed.
    stops("items.exists(a, items.exists(b, items.exists(c, items.exists(d, a / 0 == 1)))) || true");
    stops("lists.range(1000).sortBy(a, lists.range(1000).size() + a)");
}

#[test]
fn growth_stops_before_memory_does() {
    stops(&doubled("text", "a + a", 40));
    stops(&doubled("items", "a + a", 40));
    stops(&doubled("bytes(text)", "a + a", 40));
    stops(&doubled("text", "a.replace('x', 'xx')", 40));
    stops(&doubled("text", "[a, a].join(a)", 40));
    stops(&doubled("text", "'%s%s'.format([a, a])", 40));
    stops(&doubled("text", "a.replace('', a)", 3));
    stops(&doubled("text", "strings.quote(a + a)", 40));
    stops(&doubled("items", "[a, a].flatten()", 40));
    stops("lists.range(1000000).map(a, lists.range(1000000))");
    stops("items.map(a, text + text).map(b, items.map(c, b + text)).size()");
}

#[test]
fn sharing_is_no_way_around_the_limit() {
    // In memory this is one list per level; as JSON, as text or compared it would be two to the power of sixty.
    let tree = doubled("[1]", "[a, a]", 60);
    stops(&tree);
    stops(&format!("{tree} == {tree}"));
    stops(&format!("'%s'.format([{tree}])"));
    stops(&format!("{tree}.flatten(100).size()"));
    stops(&doubled("{'k': 1}", "{'a': a, 'b': a}", 60));
    let program = Env::standard().compile(&format!("[now() > timestamp(0), {tree}]")).unwrap();
    let variables = BTreeMap::new();
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    assert!(program.evaluate_until(&scope, &Limits::default()).is_err());
}

#[test]
fn patterns_are_bounded() {
    assert_eq!(kind("text.matches('(x+x+)+y')"), Ok("false".to_owned()));
    assert_eq!(kind("text.matches('(x|x)*' + 'y')"), Ok("false".to_owned()));
    assert_eq!(
        kind("'x'.matches(text.substring(0, 1) + '{1000}{1000}{1000}')"),
        Err(EvalErrorKind::Argument)
    );
    stops("lists.range(1000).exists(i, text.matches('x' + string(i) + 'y*'))");
    stops("lists.range(100000).exists(i, text.matches('(x?){30}x{30}y'))");
    let errors = Env::standard().compile(r"'a'.matches('(\\w{100}){100}{100}')").map(|_| ()).unwrap_err();
    assert!(errors[0].message.contains("too large"), "{errors:?}");
}

#[test]
fn the_deepest_expression_fits_on_a_small_stack() {
    let run = || {
        for source in [
            format!("{}1{}", "(1 + ".repeat(120), ")".repeat(120)),
            format!("{}items{}", "[".repeat(200), "]".repeat(200)),
            format!("{}text{}", "dyn(".repeat(200), ")".repeat(200)),
            format!("items{}", ".map(x, x)".repeat(100)),
            (0..100).fold("items[0]".to_owned(), |inner, _| format!("items.map(a, {inner})[0]")),
            (0..100).fold("true".to_owned(), |inner, _| format!("items[0] == 2 ? false : {inner}")),
        ] {
            let result = kind(&source);
            assert!(result.is_ok() || result == Err(EvalErrorKind::Budget), "{source}: {result:?}");
        }
    };
    // Tests and workers run with two megabytes; half of that has to do.
    spawn(run);
}

fn spawn(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn limits_are_what_they_say() {
    let program = Env::standard().compile("[1, 2, 3].map(x, x + now().getHours()).size()").unwrap();
    let variables = BTreeMap::new();
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    assert!(program.evaluate(&scope, &Limits { cost: 40 }).is_ok());
    let error = program.evaluate(&scope, &Limits { cost: 10 }).unwrap_err();
    assert_eq!(error.kind, EvalErrorKind::Budget);
    assert_eq!(error.message, "the evaluation cost more than its limit of 10");
}

#[test]
fn sorting_survives_what_has_no_order() {
    let sorted = kind("lists.range(100).map(i, i % 3 == 0 ? 0.0 / 0.0 : double(i * 7 % 11)).sort().size()");
    assert_eq!(sorted, Ok("100".to_owned()));
    stops("lists.range(200000).map(i, text).sort()");
    stops("lists.range(1000).sortBy(i, text + string(i)).map(i, text + text)");
}

#[test]
fn compiling_is_bounded_too() {
    let wide = format!("[{}]", vec!["lists.range(900)"; 3000].join(","));
    assert!(Env::standard().compile(&wide).is_ok());
    let patterns: Vec<String> = (0..200).map(|number| format!("'a'.matches('a{number}')")).collect();
    let errors = Env::standard().compile(&patterns.join("||")).map(|_| ()).unwrap_err();
    assert_eq!(errors[0].message, "an expression may have at most 100 regular expressions");
    let same = vec!["'a'.matches('a+')"; 500].join("&&");
    assert_eq!(kind(&same), Ok("true".to_owned()));
}

#[test]
fn looking_ahead_is_bounded_too() {
    // Every second something changes, and every look costs nearly all of the budget.
    let source = "items.all(a, items.all(b, items.all(c, c < 9))) && int(now()) != 7 && items.size() == 100";
    let program = Env::standard().declare("items").compile(source).unwrap();
    let variables = BTreeMap::from([("items".to_owned(), json!(vec![1; 50]))]);
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    let source_of_time =
        Env::standard().declare("items").compile(&source.replace("== 100", "== 50")).unwrap();
    let (_, until) = program.evaluate_until(&scope, &Limits::default()).unwrap();
    assert!(until.is_some_and(|until| until > Timestamp::UNIX_EPOCH && until.as_second() < 40), "{until:?}");
    let (_, until) = source_of_time.evaluate_until(&scope, &Limits::default()).unwrap();
    assert_eq!(until.map(|until| until.as_second()), Some(7));
}

#[test]
fn programs_can_be_shared_and_values_are_small() {
    fn shared<T: Send + Sync>() {}
    shared::<kardinal_cel::Program>();
    shared::<kardinal_cel::Value<'static>>();
    assert!(size_of::<kardinal_cel::Value<'static>>() <= 32);
}
