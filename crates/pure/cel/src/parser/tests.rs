use proptest::prelude::*;

use super::*;
use crate::show::show;

fn check(source: &str, expected: &str) {
    match parse(source) {
        Ok(expr) => assert_eq!(show(&expr), expected, "tree of {source:?}"),
        Err(error) => panic!("{source:?} does not parse: {error} at {}", error.span),
    }
}

fn check_error(source: &str, place: (u32, u32), message: &str) {
    match parse(source) {
        Ok(expr) => panic!("{source:?} parses as {}", show(&expr)),
        Err(error) => {
            assert!(error.message.contains(message), "{source:?} says {:?}, not {message:?}", error.message);
            assert_eq!((error.span.start, error.span.end), place, "place of the error in {source:?}");
        }
    }
}

#[test]
fn literals() {
    check("null", "null");
    check("true", "true");
    check("false", "false");
    check("42", "42");
    check("0x2A", "42");
    check("42u", "42u");
    check("0xffU", "255u");
    check("1.5", "1.5");
    check(".5", "0.5");
    check("1e3", "1000.0");
    check("'a\\n'", "\"a\\n\"");
    check("b'a'", "b[97]");
    check("r'\\n'", "\"\\\\n\"");
}

#[test]
fn bounds_of_numbers() {
    check("9223372036854775807", "9223372036854775807");
    check("-9223372036854775808", "-9223372036854775808");
    check("- 9223372036854775808", "-9223372036854775808");
    check("-0x8000000000000000", "-9223372036854775808");
    check("18446744073709551615u", "18446744073709551615u");
    check("0xffffffffffffffffu", "18446744073709551615u");
    check("1.7976931348623157e308", "1.7976931348623157e308");
    check("-0.0", "-0.0");
    check_error("9223372036854775808", (0, 19), "does not fit into an int");
    check_error("-9223372036854775809", (0, 20), "`-9223372036854775809` does not fit");
    check_error("0x8000000000000000", (0, 18), "does not fit into an int");
    check_error("18446744073709551616u", (0, 21), "does not fit into a uint");
    check_error("1e999", (0, 5), "does not fit into a double");
    check_error("1 - 9223372036854775808", (4, 23), "does not fit into an int");
}

#[test]
fn signs() {
    check("-1", "-1");
    check("--1", "(- -1)");
    check("-a", "(- a)");
    check("--a", "(- (- a))");
    check("-1u", "(- 1u)");
    check("1-1", "(- 1 1)");
    check("1--1", "(- 1 -1)");
    check("a - -1", "(- a -1)");
    check("-1.f()", "-1.f()");
    check("-a.f()", "(- a.f())");
    check("-(1)", "(- 1)");
    check("!a", "(! a)");
    check("!!a", "(! (! a))");
    check("!a.b", "(! a.b)");
    check("!a && b", "(&& (! a) b)");
    check("-a * b", "(* (- a) b)");
    check_error("!-a", (1, 2), "expected an expression, found `-`");
}

#[test]
fn precedence() {
    check("1 + 2 * 3", "(+ 1 (* 2 3))");
    check("1 * 2 + 3", "(+ (* 1 2) 3)");
    check("(1 + 2) * 3", "(* (+ 1 2) 3)");
    check("1 - 2 - 3", "(- (- 1 2) 3)");
    check("8 / 4 % 3 * 2", "(* (% (/ 8 4) 3) 2)");
    check("a + b < c * d", "(< (+ a b) (* c d))");
    check("a < b == c", "(== (< a b) c)");
    check("a in b == c in d", "(in (== (in a b) c) d)");
    check("a == b && c != d || e", "(|| (&& (== a b) (!= c d)) e)");
    check("a || b && c", "(|| a (&& b c))");
    check("a <= b || c >= d || e > f", "(|| (<= a b) (>= c d) (> e f))");
    check("a + b == c && d - e * f == g", "(&& (== (+ a b) c) (== (- d (* e f)) g))");
}

#[test]
fn logical_chains_are_flat() {
    check("a && b && c && d", "(&& a b c d)");
    check("a || b || c", "(|| a b c)");
    check("a && b || c && d || e && f", "(|| (&& a b) (&& c d) (&& e f))");
    check("(a && b) && c", "(&& (&& a b) c)");
    check("a && (b && c)", "(&& a (&& b c))");
    check("a && b == c && d", "(&& a (== b c) d)");
}

#[test]
fn conditionals() {
    check("a ? b : c", "(? a b c)");
    check("a ? b : c ? d : e", "(? a b (? c d e))");
    check("(a ? b : c) ? d : e", "(? (? a b c) d e)");
    check("a ? (b ? c : d) : e", "(? a (? b c d) e)");
    check("a || b ? c && d : e", "(? (|| a b) (&& c d) e)");
    check("a?[?b]:{?c:d}", "(? a [?b] {?c:d})");
    check("a ? .b : .5", "(? a .b 0.5)");
    check_error("a ? b ? c : d : e", (6, 7), "expected `:` of the conditional, found `?`");
    check_error("a ? b", (5, 5), "found the end of the expression");
}

#[test]
fn names_and_selections() {
    check("a", "a");
    check(".a", ".a");
    check(".a.b", ".a.b");
    check("a.b.c", "a.b.c");
    check("a . b", "a.b");
    check("a.?b", "a.?b");
    check("a.?b.c", "a.?b.c");
    check("a[0]", "a[0]");
    check("a['b']", "a[\"b\"]");
    check("a[?0]", "a[?0]");
    check("a[b ? c : d]", "a[(? b c d)]");
    check("a.b[0].?c[?'d'].e", "a.b[0].?c[?\"d\"].e");
    check("a.`b-c`", "a.b-c");
    check("a.?`b.c/d e`", "a.?b.c/d e");
    check("a.for.namespace", "a.for.namespace");
    check("'a'.b", "\"a\".b");
    check("[1][0]", "[1][0]");
    check("{'a': 1}.a", "{\"a\":1}.a");
    check("1.b", "1.b");
    check_error("for", (0, 3), "the reserved word `for`");
    check_error("a.", (2, 2), "expected a field name");
    check_error("a.in", (2, 4), "expected a field name, found `in`");
    check_error("a.true", (2, 6), "found `true`");
    check_error("a.1", (1, 3), "found `.1`");
    check_error("`a`", (0, 3), "expected an expression");
    check_error(".`a`", (1, 4), "expected a name");
    check_error(".for", (1, 4), "the reserved word `for`");
    check_error("..a", (1, 2), "expected a name");
    check_error("a.`b`()", (5, 6), "found `(`");
    check_error("a.?b()", (4, 5), "found `(`");
    check_error("a[]", (2, 3), "expected an expression");
    check_error("a[0", (3, 3), "expected `]`");
    check_error("a b", (2, 3), "expected an operator");
}

#[test]
fn calls() {
    check("f()", "f()");
    check(".f(a)", "f(a)");
    check("f(a, b + 1)", "f(a (+ b 1))");
    check("a.f()", "a.f()");
    check("a.b.f(c).g(d)", "a.b.f(c).g(d)");
    check("math.greatest(1, 2)", "math.greatest(1 2)");
    check("f(a)[0].b", "f(a)[0].b");
    check("a.return(b)", "a.return(b)");
    check_error("f(", (2, 2), "expected an expression");
    check_error("f(a", (3, 3), "expected `,` or `)`");
    check_error("f(a,)", (4, 5), "expected an expression, found `)`");
    check_error("f(,)", (2, 3), "expected an expression");
    check_error("f(a)(b)", (4, 5), "found `(`");
    check_error("for(a)", (0, 3), "reserved");
}

#[test]
fn collections() {
    check("[]", "[]");
    check("[,]", "[]");
    check("[1, 2]", "[1 2]");
    check("[1, 2,]", "[1 2]");
    check("[?a, b, ?c]", "[?a b ?c]");
    check("{}", "{}");
    check("{,}", "{}");
    check("{'a': 1, b: c,}", "{\"a\":1 b:c}");
    check("{?'a': b}", "{?\"a\":b}");
    check("{1: {2: [3]}}", "{1:{2:[3]}}");
    check("{a ? b : c : d ? e : f}", "{(? a b c):(? d e f)}");
    check_error("[1 2]", (3, 4), "expected `,` or `]`");
    check_error("[,1]", (2, 3), "expected `,` or `]`");
    check_error("[1,,2]", (3, 4), "expected an expression");
    check_error("[1", (2, 2), "expected `,` or `]`");
    check_error("{1}", (2, 3), "expected `:` after the key");
    check_error("{1: 2", (5, 5), "expected `,` or `}`");
}

#[test]
fn messages() {
    check("A{}", "A{}");
    check("a.b.C{x: 1, y: 'z',}", "a.b.C{x:1 y:\"z\"}");
    check(".a.B{?x: y}", ".a.B{?x:y}");
    check("A{`b-c`: 1}.d", "A{b-c:1}.d");
    check("A{for: 1}", "A{for:1}");
    check("A{b: C{}}", "A{b:C{}}");
    check_error("(A){}", (3, 4), "found `{`");
    check_error("a.?B{}", (4, 5), "found `{`");
    check_error("a.`B`{}", (5, 6), "found `{`");
    check_error("f(){}", (3, 4), "found `{`");
    check_error("A{1: 2}", (2, 3), "expected a field name");
    check_error("A{b}", (3, 4), "expected `:` after the field name");
}

#[test]
fn blanks_and_ends() {
    check("  a // note\n  + b // end", "(+ a b)");
    check_error("", (0, 0), "found the end of the expression");
    check_error("  ", (2, 2), "found the end of the expression");
    check_error("// a", (4, 4), "found the end of the expression");
    check_error("a +", (3, 3), "found the end of the expression");
    check_error("(a", (2, 2), "expected `)`");
    check_error("a)", (1, 2), "expected an operator or the end of the expression, found `)`");
    check_error("a 'b'", (2, 5), "found a string");
    check_error("a == 'b", (5, 7), "not closed");
    check_error("a + '\\q'", (5, 7), "invalid escape");
}

#[test]
fn spans_cover_what_they_name() {
    fn collect(expr: &Expr, source: &str, found: &mut Vec<String>) {
        found.push(expr.span.text(source).to_owned());
        match &expr.kind {
            ExprKind::Binary { left, right, .. } => {
                collect(left, source, found);
                collect(right, source, found);
            }
            ExprKind::Select { operand, .. } | ExprKind::Not(operand) => collect(operand, source, found),
            ExprKind::Call { target, args, .. } => {
                target.iter().for_each(|target| collect(target, source, found));
                args.iter().for_each(|arg| collect(arg, source, found));
            }
            ExprKind::And(terms) => terms.iter().for_each(|term| collect(term, source, found)),
            _ => {}
        }
    }
    let source = " (a + 'é') * -1 == b.c . d && !x.f( y ,z) && has(a.b) ";
    let mut found = Vec::new();
    collect(&parse(source).expect(source), source, &mut found);
    assert_eq!(
        found,
        [
            "(a + 'é') * -1 == b.c . d && !x.f( y ,z) && has(a.b)",
            "(a + 'é') * -1 == b.c . d",
            "(a + 'é') * -1",
            "(a + 'é')",
            "a",
            "'é'",
            "-1",
            "b.c . d",
            "b.c",
            "b",
            "!x.f( y ,z)",
            "x.f( y ,z)",
            "x",
            "y",
            "z",
            "has(a.b)",
        ]
    );
}

/// Runs a test on a stack of less than half of what threads usually have, so that what passes has room to spare.
fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(768 * 1024).spawn(test).expect("thread starts");
    thread.join().expect("test passes");
}

#[test]
fn nesting_has_a_bound() {
    on_small_stack(|| {
        let nested =
            |open: &str, close: &str, times: usize| format!("{}a{}", open.repeat(times), close.repeat(times));
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("{1:", "}"),
            ("f(", ")"),
            ("a.f(", ")"),
            ("a[", "]"),
            ("1<1+1*(", ")"),
            ("a&&b||(", ")"),
            ("!(", ")"),
            ("-a[", "]"),
            ("A{b:", "}"),
            ("x ? y : ", ""),
            ("[].all(x, ", ")"),
            ("cel.bind(x, a, ", ")"),
            ("has(a.b) ? [1, {'k': 1 + -f(", ")}] : 2"),
        ] {
            let error = parse(&nested(open, close, 1_500)).expect_err(open);
            assert!(error.message.contains("nested too deeply"), "{open}: {}", error.message);
            assert!(error.span.end > error.span.start && error.span.start > 40, "{open}: {}", error.span);
            assert!(parse(&nested(open, close, 40)).is_ok(), "{open} forty times");
        }
        for open in ["(", "[", "f(", "a["] {
            let unclosed = parse(&open.repeat(60_000 / open.len())).expect_err(open);
            assert!(unclosed.message.contains("nested too deeply"), "{open}: {}", unclosed.message);
        }
        assert!(parse(&nested("(", ")", 249)).is_ok());
        assert!(parse(&nested("[", "]", 249)).is_ok());
        assert!(parse(&nested("(", ")", 250)).is_err());
    });
}

#[test]
fn a_hundred_thousand_parentheses_are_too_long() {
    let source = "(".repeat(100_000);
    check_error(&source, (65_536, 100_000), "expression has 100000 bytes, at most 65536 are allowed");
}

#[test]
fn chains_have_a_bound() {
    on_small_stack(|| {
        for (first, link) in [
            ("1", "+1"),
            ("1", "*1"),
            ("1", "<1"),
            ("a", ".b"),
            ("a", ".?b"),
            ("a", "[0]"),
            ("a", "[?0]"),
            ("a", ".f()"),
            ("a", " ? b : a"),
            ("a", " in a"),
            ("1", "+1*1"),
        ] {
            let chain = |times: usize| format!("{first}{}", link.repeat(times));
            let error = parse(&chain(60_000 / link.len())).expect_err(link);
            assert!(error.message.contains("nested too deeply"), "{link}: {}", error.message);
            assert!(parse(&chain(200)).is_ok(), "{link} two hundred times");
        }
        for prefix in ["!", "-"] {
            let error = parse(&format!("{}a", prefix.repeat(10_000))).expect_err(prefix);
            assert!(error.message.contains("nested too deeply"), "{prefix}: {}", error.message);
            assert_eq!(error.span, Span::new(250, 251));
            assert!(parse(&format!("{}a", prefix.repeat(249))).is_ok());
        }
        let error = parse(&format!("a{}", ".trim()".repeat(9_000))).expect_err("chain of calls");
        assert!(error.message.contains("nested too deeply"), "{}", error.message);
    });
}

#[test]
fn the_deepest_tree_can_be_cloned_compared_and_dropped() {
    on_small_stack(|| {
        for (link, references) in [("+1", 1), (".b", 1), ("[0]", 1), (".f()", 1), (".all(x, y)", 2)] {
            let source = format!("a{}", link.repeat(249));
            let expr = parse(&source).expect(link);
            assert_eq!(expr.clone(), expr);
            assert_eq!(crate::references::free_references(&expr, &|_, _| false).len(), references);
        }
    });
}

#[test]
fn nodes_have_a_bound() {
    let flat = |count: usize| format!("a{}", "&&a".repeat(count - 1));
    assert!(
        matches!(parse(&flat(10_000)).expect("flat").kind, ExprKind::And(terms) if terms.len() == 10_000)
    );
    assert!(parse(&flat(19_999)).is_ok());
    check_error(&flat(20_000), (59_997, 59_998), "at most 20000 terms are allowed");
    let list = format!("[{}]", "1,".repeat(25_000));
    assert!(parse(&list).expect_err("long list").message.contains("at most 20000 terms"));
}

/// Pieces of which random sources are put together that are nearly expressions.
const PIECES: [&str; 44] = [
    "a",
    "b",
    "1",
    "1u",
    "1.5",
    "'s'",
    "b'x'",
    "r'\\'",
    "\"\"\"t\"\"\"",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ".?",
    "[?",
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "==",
    "<",
    "in",
    "&&",
    "||",
    "has(",
    ".all(",
    ".map(x,",
    "f(",
    "`q`",
    " ",
    "//c\n",
    "null",
    "cel.bind(",
    "'",
    "\\",
    "for",
];

proptest! {
    #[test]
    fn arbitrary_text_never_panics(source in "\\PC*") {
        let _ = parse(&source);
    }

    #[test]
    fn arbitrary_pieces_never_panic_and_errors_lie_in_the_source(
        picks in proptest::collection::vec(0..PIECES.len(), 0..40),
    ) {
        let source: String = picks.into_iter().map(|pick| PIECES[pick]).collect();
        if let Err(error) = parse(&source) {
            prop_assert!(error.span.start <= error.span.end);
            prop_assert!(source.get(error.span.range()).is_some(), "{:?} at {}", source, error.span);
            prop_assert!(!crate::error::render_error(&source, "test", &[error]).is_empty());
        }
    }

    #[test]
    fn every_string_can_be_written_as_a_literal(text in any::<String>()) {
        let quoted: String = text.chars().map(|letter| format!("\\U{:08x}", u32::from(letter))).collect();
        let expr = parse(&format!("'{quoted}'")).expect("literal");
        prop_assert_eq!(expr.kind, ExprKind::String(text));
    }

    #[test]
    fn every_int_reads_back(number in any::<i64>()) {
        prop_assert_eq!(parse(&number.to_string()).expect("int").kind, ExprKind::Int(number));
    }

    #[test]
    fn every_double_reads_back(number in proptest::num::f64::NORMAL) {
        prop_assert_eq!(parse(&format!("{number:e}")).map(|expr| expr.kind), match format!("{number:e}") {
            text if text.contains('.') || text.contains('e') => Ok(ExprKind::Double(number)),
            text => Ok(ExprKind::Int(text.parse().expect("int"))),
        });
    }
}
