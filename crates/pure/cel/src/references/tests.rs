use super::*;
use crate::parser::parse;

fn found(source: &str) -> Vec<String> {
    let expr = parse(source).expect(source);
    let library = |namespace: &str, function: &str| {
        matches!((namespace, function), ("math", "greatest") | ("a.b", "f") | ("optional", "of"))
    };
    free_references(&expr, &library)
        .iter()
        .map(|reference| format!("{reference}{}", if reference.optional { "?" } else { "" }))
        .collect()
}

fn check(source: &str, expected: &[&str]) {
    assert_eq!(found(source), expected, "references of {source:?}");
}

#[test]
fn paths() {
    check("1 + 2", &[]);
    check("a", &["a"]);
    check(".a", &["a"]);
    check("a.b.c", &["a.b.c"]);
    check("a[0].b['c'].d", &["a[0].b[\"c\"].d"]);
    check("a[1u].b", &["a[1].b"]);
    check("a[-1]", &["a[-1]"]);
    check("a[18446744073709551615u]", &["a[*]"]);
    check("a[b.c].d", &["a[*].d", "b.c"]);
    check("a[b[c]]", &["a[*]", "b[*]", "c"]);
    check("a[true]", &["a[*]"]);
    check("(a).b", &["a.b"]);
    check("f(a.b).c", &["a.b"]);
    check("[a.b][0].c", &["a.b"]);
    check("a.`b-c`", &["a.b-c"]);
}

#[test]
fn every_form_is_searched() {
    check("!a && -b == c || d ? e : f", &["a", "b", "c", "d", "e", "f"]);
    check("[a, ?b]", &["a", "b"]);
    check("{a: b, ?c: d}", &["a", "b", "c", "d"]);
    check("M{x: a.b}", &["a.b"]);
    check("a.b.trim().f(c.d)", &["a.b", "c.d"]);
    check("f(a, g(b))", &["a", "b"]);
    check("has(a.b)", &["a.b"]);
}

#[test]
fn namespaces_of_functions_are_no_references() {
    check("math.greatest(a, b)", &["a", "b"]);
    check("math.other(a)", &["math", "a"]);
    check("a.b.f(c)", &["c"]);
    check("a.?b.f(c)", &["a.b?", "c"]);
    check("x.all(math, math.greatest(1))", &["x"]);
    check("optional.of(a).b", &["a"]);
}

#[test]
fn loop_variables_are_no_references() {
    check("items.all(i, i.x > a.y)", &["items", "a.y"]);
    check("i.all(i, i.x)", &["i"]);
    check("items.all(i, i.x) && i.y", &["items", "i.y"]);
    check("items.all(i, .i.x)", &["items", "i.x"]);
    check("items.exists(i, i.list.exists(j, i.x + j.x + k > 3))", &["items", "k"]);
    check("items.exists(i, i.list.exists(i, i.x)) && i", &["items", "i"]);
    check("m.transformMap(k, v, k != a, v + b)", &["m", "a", "b"]);
    check("cel.bind(x, x + a, x + b)", &["x", "a", "b"]);
    check("a.?b.optMap(v, v + c)", &["a.b?", "c"]);
    check("items.map(i, i.ok, i.v + d)", &["items", "d"]);
    check("items.sortBy(i, i.rank)", &["items"]);
    check("items.all(i, a[i].b)", &["items", "a[*].b"]);
    check("items.all(i, has(i.b) && has(c.d))", &["items", "c.d"]);
}

#[test]
fn only_a_guard_on_the_root_makes_a_reference_optional() {
    check("a.?b", &["a.b?"]);
    check("a.?b.c.d", &["a.b.c.d?"]);
    check("a[?0].b", &["a[0].b?"]);
    check("a[?b.c]", &["a[*]?", "b.c"]);
    check("a.b.?c", &["a.b.c"]);
    check("has(a.b)", &["a.b"]);
    check("has(a.?b)", &["a.b?"]);
    check("has(a.?b.c)", &["a.b.c?"]);
    check("a.?b.orValue(c)", &["a.b?", "c"]);
    check("[?a]", &["a"]);
}

#[test]
fn each_reference_once_in_the_order_of_the_source() {
    check("b + a + b + a.c + a", &["b", "a", "a.c"]);
    check("a.?b == a.b", &["a.b?", "a.b"]);
    check("f(z, y).g(x)", &["z", "y", "x"]);
    let expr = parse("x + a.b + a.b").expect("source");
    let spans: Vec<_> = free_references(&expr, &|_, _| false).iter().map(|found| found.span).collect();
    assert_eq!(spans, [Span::new(0, 1), Span::new(4, 7)]);
}
