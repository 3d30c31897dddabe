use proptest::prelude::*;

use super::*;

/// The segments as text: expressions in angle brackets.
fn shown(text: &str) -> Result<Vec<String>, CompileError> {
    Ok(scan(text)?
        .into_iter()
        .map(|segment| match segment {
            Segment::Text(plain) => plain.into_owned(),
            Segment::Expression(range) => format!("<{}>", &text[range]),
        })
        .collect())
}

fn check(text: &str, expected: &[&str]) {
    match shown(text) {
        Ok(found) => assert_eq!(found, expected, "segments of {text:?}"),
        Err(error) => panic!("{text:?} is refused: {error} at {}", error.span),
    }
}

fn check_error(text: &str, place: (u32, u32), message: &str) {
    let error = scan(text).expect_err(text);
    assert_eq!((error.span.start, error.span.end), place, "place of the error in {text:?}");
    assert!(error.message.contains(message), "{text:?} says {:?}", error.message);
}

#[test]
fn text_and_expressions() {
    check("", &[]);
    check("abc", &["abc"]);
    check("$ $$ } { $x $$x {}", &["$ $$ } { $x $$x {}"]);
    check("${a}", &["<a>"]);
    check("${ a }", &["< a >"]);
    check("${}", &["<>"]);
    check("a${b}c", &["a", "<b>", "c"]);
    check("${a}${b}", &["<a>", "<b>"]);
    check("é${a}é", &["é", "<a>", "é"]);
    check("${a}\n", &["<a>", "\n"]);
}

#[test]
fn nesting() {
    check("${ {'a': {'b': 1}} }x", &["< {'a': {'b': 1}} >", "x"]);
    check("${[{}, ({})]}", &["<[{}, ({})]>"]);
    check("${f(}", &["<f(>"]);
    check("${a}}", &["<a>", "}"]);
    check("${${a}}", &["<${a}>"]);
    check_error("${{}", (0, 4), "not closed");
}

#[test]
fn strings_hide_braces() {
    check(r#"${"}"}"#, &[r#"<"}">"#]);
    check("${'}'}", &["<'}'>"]);
    check(r#"${"${x}"}"#, &[r#"<"${x}">"#]);
    check(r#"${"\"}"}"#, &[r#"<"\"}">"#]);
    check(r"${'\'}'}", &[r"<'\'}'>"]);
    check(r#"${"""a"}" b"""}"#, &[r#"<"""a"}" b""">"#]);
    check("${'''it's }\n'''}", &["<'''it's }\n'''>"]);
    check(r"${r'\'}", &[r"<r'\'>"]);
    check(r"${br'\' + R'}\'}", &[r"<br'\' + R'}\'>"]);
    check(r"${b'\'}'}", &[r"<b'\'}'>"]);
    check(r"${xr'\'}'}", &[r"<xr'\'}'>"]);
    check(r"${1r'\'}", &[r"<1r'\'>"]);
    check("${a.`b//c`}", &["<a.`b//c`>"]);
    check("it's ${a} isn't", &["it's ", "<a>", " isn't"]);
}

#[test]
fn comments_hide_braces() {
    check("${a // don't }\n}", &["<a // don't }\n>"]);
    check_error("x${a // b}", (1, 10), "not closed");
    check("${a / b}", &["<a / b>"]);
    check("http://x/${a}", &["http://x/", "<a>"]);
}

#[test]
fn unclosed_is_an_error() {
    check_error("${", (0, 2), "not closed");
    check_error("ab ${c", (3, 6), "not closed");
    check_error("${a} ${b", (5, 8), "not closed");
    check_error("$${b", (1, 4), "not closed");
    check_error("${'a}", (2, 5), "string is not closed");
    check_error("${\"a\n\"}", (2, 4), "string is not closed");
}

#[test]
fn a_second_dollar_defers() {
    check("$${a}", &["${a}"]);
    check("$$${a}", &["$${a}"]);
    check("x$${a}y", &["x${a}y"]);
    check("${a}$${b}${c}", &["<a>", "${b}", "<c>"]);
    check("$${a}$${b}", &["${a}${b}"]);
    check("$${a + \"${b}\"}", &["${a + \"${b}\"}"]);
    check("$${'}'}", &["${'}'}"]);
    check("$ ${a}", &["$ ", "<a>"]);
    check("${a}$", &["<a>", "$"]);
}

fn expression() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,3}",
        "[0-9]{1,3}",
        Just("'}'".to_owned()),
        Just("\"${\"".to_owned()),
        Just(r"r'\'".to_owned()),
        Just("'''a'}'''".to_owned()),
        Just(r#""\"{""#.to_owned()),
        Just(" + ".to_owned()),
        Just("// { '\n".to_owned()),
    ];
    piece.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inside| format!("{{'k': {inside}}}")),
            inner.clone().prop_map(|inside| format!("[{inside}]")),
            (inner.clone(), inner).prop_map(|(left, right)| format!("({left} + {right})")),
        ]
    })
}

fn plain() -> impl Strategy<Value = String> {
    "[^$]{0,8}"
}

proptest! {
    #[test]
    fn text_without_expressions_is_one_segment(text in any::<String>()) {
        prop_assume!(!text.contains("${"));
        let expected = if text.is_empty() { vec![] } else { vec![text.clone()] };
        prop_assert_eq!(shown(&text).expect("plain"), expected);
    }

    #[test]
    fn arbitrary_text_never_panics_and_errors_lie_in_it(text in "[a'\"r`/$${}\\\\\n é]{0,30}") {
        if let Err(error) = scan(&text) {
            prop_assert!(text.get(error.span.range()).is_some(), "{:?} at {}", text, error.span);
        }
    }

    #[test]
    fn what_is_put_together_is_taken_apart(
        pairs in proptest::collection::vec((plain(), expression()), 0..5),
        last in plain(),
    ) {
        let mut text = String::new();
        let mut expected = Vec::new();
        for (plain, inside) in &pairs {
            text.push_str(&format!("{plain}${{{inside}}}"));
            if !plain.is_empty() {
                expected.push(plain.clone());
            }
            expected.push(format!("<{inside}>"));
        }
        text.push_str(&last);
        if !last.is_empty() {
            expected.push(last);
        }
        prop_assert_eq!(shown(&text).expect("well formed"), expected);
    }

    #[test]
    fn deferring_undoes_itself(plain in plain(), inside in expression(), dollars in 1_usize..4) {
        let written = format!("{plain}{}{{{inside}}}", "$".repeat(dollars));
        let deferred = format!("{plain}{}{{{inside}}}", "$".repeat(dollars + 1));
        prop_assert_eq!(shown(&deferred).expect("deferred"), vec![written]);
    }
}
