//! Names and metadata.

use serde_json::json;

use super::*;
use crate::builtin::NameRule;

#[test]
fn names() {
    let long = "a".repeat(64);
    let check = |rule: NameRule, name: &str, prefix: bool, fine: bool| {
        let problems = name_problems(rule, name, prefix);
        assert_eq!(problems.is_empty(), fine, "{rule:?} {name}: {problems:?}");
    };
    for (name, subdomain, label, label1035) in [
        ("a", true, true, true),
        ("0a", true, true, false),
        ("a.b", true, false, false),
        ("a-", false, false, false),
        ("A", false, false, false),
        ("a..b", false, false, false),
        ("", false, false, false),
        (long.as_str(), true, false, false),
        ("ä", false, false, false),
    ] {
        check(NameRule::Subdomain, name, false, subdomain);
        check(NameRule::Label, name, false, label);
        check(NameRule::Label1035, name, false, label1035);
    }
    check(NameRule::Subdomain, "job-", true, true);
    check(NameRule::Subdomain, "-", true, false);
    check(NameRule::PathSegment, "system:Node_x", false, true);
    for name in [".", "..", "a/b", "a%b"] {
        check(NameRule::PathSegment, name, false, false);
    }
}

#[test]
fn label_keys_and_values() {
    let long = "a".repeat(64);
    for (key, fine) in [
        ("a", true),
        ("a.b/c", true),
        ("A_b-c.D", true),
        ("/a", false),
        ("a/", false),
        ("a/b/c", false),
        ("-a", false),
        ("", false),
        (long.as_str(), false),
        ("A.b/c", false),
    ] {
        assert_eq!(label_key_problems(key).is_empty(), fine, "{key}");
    }
    for (value, fine) in
        [("", true), ("a", true), ("A_b.c", true), ("a b", false), ("-", false), (long.as_str(), false)]
    {
        assert_eq!(label_value_problems(value).is_empty(), fine, "{value}");
    }
}

#[test]
fn metadata_problems_name_their_field() {
    let check = |metadata: Value, field: &str, detail: &str| {
        let object = json!({"metadata": metadata});
        let found: Vec<String> =
            problems(&object, true, NameRule::Subdomain).iter().map(ToString::to_string).collect();
        let hit = found.iter().any(|p| p.starts_with(&format!("{field}: ")) && p.contains(detail));
        assert!(hit, "{found:?} should have {field}: …{detail}");
    };
    let meta = |field: &str, value: Value| json!({"name": "a", "namespace": "n", field: value});
    check(meta("annotations", json!({"a b": "x"})), "metadata.annotations", "name part must consist of");
    check(
        meta("annotations", json!({"a": "x".repeat(300_000)})),
        "metadata.annotations",
        "may not be more than 262144 bytes",
    );
    check(meta("finalizers", json!(["a b"])), "metadata.finalizers", "name part must consist of");
    check(
        meta("finalizers", json!(["orphan", "foregroundDeletion"])),
        "metadata.finalizers",
        "cannot be both set",
    );
    let owner = |name: &str, controller: bool| json!({"apiVersion": "v1", "kind": "K", "name": name, "uid": "u", "controller": controller});
    check(
        meta("ownerReferences", json!([owner("a", true), owner("b", true)])),
        "metadata.ownerReferences",
        "Only one reference can have Controller set to true. Found \"true\" in references for K/a and K/b",
    );
    check(
        meta("ownerReferences", json!([{"kind": "K", "name": "a", "uid": "u"}])),
        "metadata.ownerReferences.apiVersion",
        "version must not be empty",
    );
    check(json!({"name": "a"}), "metadata.namespace", "Required value");
}

#[test]
fn times_have_whole_seconds() {
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    assert_eq!(stamp(now), "2026-01-02T03:04:05Z");
}
