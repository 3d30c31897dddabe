//! Selector texts that parse, and those that do not.

use proptest::prelude::*;
use serde_json::json;

use super::{FieldSelector, LabelSelector};
use crate::object::Object;

fn object() -> Object {
    Object::new(&json!({
        "metadata": {"name": "n", "namespace": "ns", "labels": {"a": "1", "b.c/d": "x-y", "empty": ""}},
        "spec": {"nodeName": "node=1,2", "hostNetwork": true},
    }))
}

#[test]
fn label_selectors_match() {
    let object = object();
    let check = |text: &str, expected: bool| {
        let selector = LabelSelector::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(selector.matches(object.labels()), expected, "{text}");
    };
    for text in [
        "",
        " ",
        "a",
        "a=1",
        "a == 1",
        "a!=2",
        "a in (1)",
        "a in (0,1 , 2)",
        "a notin (2)",
        "!z",
        "z!=1",
        "z notin (1)",
        "b.c/d=x-y",
        "a=1,b.c/d",
        "empty=",
        "empty in ()",
        "empty in (,x)",
        "a>0",
        "a<2",
        "in notin (x)",
        "!in",
        "a in (1,in)",
    ] {
        check(text, true);
    }
    for text in ["z", "a=2", "!a", "a in (2)", "a notin (1)", "a=1,z", "empty=x", "a>1", "a<1", "empty>0"] {
        check(text, false);
    }
}

#[test]
fn label_selectors_that_are_refused() {
    let check = |text: &str, message: &str| {
        let status = LabelSelector::parse(text).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, message), "{text}");
    };
    check(",", "found ',', expected: !, identifier, or 'end of string'");
    check("a,", "found '', expected: identifier after ','");
    check("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
    check("a in 1", "unable to parse requirement: found '1' expected: '('");
    check("a in (1", "unable to parse requirement: found '', expected: ',' or ')'");
    check("!", "unable to parse requirement: found '', expected: identifier");
    check("!a=1", "found '=', expected: ',' or 'end of string'");
    check("a=(", "unable to parse requirement: found '(', expected: identifier");
    let status = LabelSelector::parse("-a=1").unwrap_err();
    assert!(
        status.message.starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"
        ),
        "{}",
        status.message
    );
    let status = LabelSelector::parse("a=-").unwrap_err();
    assert!(
        status.message.starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be"
        ),
        "{}",
        status.message
    );
}

#[test]
fn field_selectors_match() {
    let object = object();
    let check = |text: &str, expected: bool| {
        let selector = FieldSelector::parse(text).unwrap();
        assert_eq!(selector.matches(&object), expected, "{text}");
    };
    for text in [
        "",
        "metadata.name=n",
        "metadata.name==n",
        "metadata.namespace!=x",
        "metadata.name=n,metadata.namespace=ns",
        "spec.nodeName=node\\=1\\,2",
        "spec.hostNetwork=true",
        "status.phase=",
        ",",
    ] {
        check(text, true);
    }
    for text in ["metadata.name=m", "metadata.name!=n", "spec.hostNetwork!=true", "status.phase=Running"] {
        check(text, false);
    }
}

#[test]
fn field_selectors_that_are_refused() {
    let check = |text: &str, message: &str| {
        let status = FieldSelector::parse(text).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, message));
    };
    check("x", "invalid selector: 'x'; can't understand 'x'");
    check("a=b=c", "invalid field selector: unescaped character in value: 61");
    check("a=\\x", "invalid field selector: invalid escape sequence: \\x");
    check("a=\\", "invalid field selector: invalid escape sequence: \\");
}

proptest! {
    #[test]
    fn any_text_parses_or_is_refused(text in "[a-z!=(),<> /.\\\\-]{0,24}|\\PC{0,24}") {
        let object = object();
        if let Ok(selector) = LabelSelector::parse(&text) {
            selector.matches(object.labels());
        }
        if let Ok(selector) = FieldSelector::parse(&text) {
            selector.matches(&object);
        }
    }
}
