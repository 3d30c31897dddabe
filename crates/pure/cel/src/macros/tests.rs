use crate::parser::parse;
use crate::show::show;

fn check(source: &str, expected: &str) {
    match parse(source) {
        Ok(expr) => assert_eq!(show(&expr), expected, "tree of {source:?}"),
        Err(error) => panic!("{source:?} does not parse: {error} at {}", error.span),
    }
}

fn check_error(source: &str, place: (u32, u32), message: &str) {
    let error = parse(source).expect_err(source);
    assert!(error.message.contains(message), "{source:?} says {:?}, not {message:?}", error.message);
    assert_eq!((error.span.start, error.span.end), place, "place of the error in {source:?}");
}

#[test]
fn one_variable() {
    check("a.all(x, x > 1)", "<All x of a: (> x 1)>");
    check("a.exists(x, x)", "<Exists x of a: x>");
    check("a.exists_one(x, x)", "<ExistsOne x of a: x>");
    check("a.existsOne(x, x)", "<ExistsOne x of a: x>");
    check("a.map(x, x + 1)", "<Map x of a: (+ x 1)>");
    check("a.map(x, x > 1, x + 1)", "<Map x of a if (> x 1): (+ x 1)>");
    check("a.filter(x, x)", "<Filter x of a: x>");
    check("a.sortBy(x, x.b)", "<SortBy x of a: x.b>");
    check("a.?b.optMap(x, x)", "<OptMap x of a.?b: x>");
    check("a.optFlatMap(x, x.?y)", "<OptFlatMap x of a: x.?y>");
    check("cel.bind(x, a + b, x * x)", "<Bind x of (+ a b): (* x x)>");
}

#[test]
fn two_variables() {
    check("a.all(k, v, k < v)", "<All k,v of a: (< k v)>");
    check("a.exists(k, v, k == v)", "<Exists k,v of a: (== k v)>");
    check("a.existsOne(k, v, v)", "<ExistsOne k,v of a: v>");
    check("a.exists_one(k, v, v)", "<ExistsOne k,v of a: v>");
    check("a.transformList(k, v, v)", "<TransformList k,v of a: v>");
    check("a.transformList(k, v, k, v)", "<TransformList k,v of a if k: v>");
    check("a.transformMap(k, v, v)", "<TransformMap k,v of a: v>");
    check("a.transformMap(k, v, k, v)", "<TransformMap k,v of a if k: v>");
    check("a.transformMapEntry(k, v, {v: k})", "<TransformMapEntry k,v of a: {v:k}>");
    check("a.transformMapEntry(k, v, k, {v: k})", "<TransformMapEntry k,v of a if k: {v:k}>");
}

#[test]
fn nested() {
    check("a.all(x, x.b.exists(y, y == x))", "<All x of a: <Exists y of x.b: (== y x)>>");
    check("a.map(x, x).filter(y, y)", "<Filter y of <Map x of a: x>: y>");
    check("[1].all(x, has(x.b))", "<All x of [1]: has(x.b)>");
}

#[test]
fn has() {
    check("has(a.b)", "has(a.b)");
    check("has(a.b.c)", "has(a.b.c)");
    check("has(a.?b)", "has(a.?b)");
    check("has(a.`b-c`)", "has(a.b-c)");
    check("has({'a': 1}.a)", "has({\"a\":1}.a)");
    check("!has(a[0].b)", "(! has(a[0].b))");
    check_error("has(a)", (4, 5), "field selection");
    check_error("has(a['b'])", (4, 10), "field selection");
    check_error("has(a.f())", (4, 9), "field selection");
    check_error("has('a')", (4, 7), "field selection");
}

#[test]
fn other_arities_are_calls() {
    check("has()", "has()");
    check("has(a, b)", "has(a b)");
    check("a.has(b.c)", "a.has(b.c)");
    check("all(a, b)", "all(a b)");
    check("a.all(b)", "a.all(b)");
    check("a.all(b, c, d, e)", "a.all(b c d e)");
    check("a.map(b, c, d, e)", "a.map(b c d e)");
    check("a.filter(k, v, v)", "a.filter(k v v)");
    check("a.transformList(k, v)", "a.transformList(k v)");
    check("a.sortBy(k)", "a.sortBy(k)");
    check("bind(x, a, b)", "bind(x a b)");
    check("b.bind(x, a, b)", "b.bind(x a b)");
    check("cel.bind(x, a)", "cel.bind(x a)");
    check(".has(a.b)", "has(a.b)");
}

#[test]
fn variables_are_simple_names() {
    check_error("a.all(x.y, true)", (6, 9), "`all` needs a simple name");
    check_error("a.map(1, true)", (6, 7), "`map` needs a simple name");
    check_error("a.filter(.x, true)", (9, 11), "`filter` needs a simple name");
    check_error("a.exists(k, v.w, true)", (12, 15), "`exists` needs a simple name");
    check_error("cel.bind(f(), 1, 2)", (9, 12), "`bind` needs a simple name");
    check_error("a.all(x, x, true)", (9, 10), "two different variables");
    check_error("a.all(for, true)", (6, 9), "reserved word `for`");
}
