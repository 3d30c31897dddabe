//! Tests of paths, sets and their wire form.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Path, PathElement, Set, compare, compare_values, field_set};
use crate::schema::Schema;

fn read(fields: Value) -> Set {
    Set::from_fields(&fields).unwrap()
}

fn shown(set: &Set) -> Vec<String> {
    set.paths().iter().map(Path::to_string).collect()
}

#[test]
fn the_wire_form_round_trips() {
    let check = |fields: Value| assert_eq!(read(fields.clone()).to_fields(), fields);
    check(json!({}));
    check(json!({"f:spec": {"f:replicas": {}}}));
    check(json!({"f:labels": {".": {}, "f:a": {}, "f:b.c/d": {}}}));
    check(json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}));
    check(json!({"f:finalizers": {".": {}, "v:\"a\"": {}, "v:1": {}, "v:true": {}}}));
    check(json!({"f:list": {"i:0": {}, "i:12": {"f:x": {}}}}));
    check(json!({"f:": {}, "f:f:x": {}, "f:ü\"\\": {}}));
}

#[test]
fn the_wire_form_is_read_leniently_where_upstream_is() {
    let check = |fields: Value, normal: Value| assert_eq!(read(fields).to_fields(), normal);
    check(json!({"f:a": {}, "r:b": {}}), json!({"f:a": {}}));
    check(json!({"f:a": {"r:b": {}}}), json!({"f:a": {}}));
    check(json!({"f:a": {".": {}}}), json!({"f:a": {}}));
    check(json!({"f:a": null}), json!({"f:a": {}}));
    check(json!({".": {}}), json!({}));
    check(Value::Null, json!({}));
    check(json!({"k:{\"b\":1,\"a\":2}": {}}), json!({"k:{\"a\":2,\"b\":1}": {}}));
    check(json!({"v:1": {}, "v:1.0": {"f:x": {}}}), json!({"v:1": {".": {}, "f:x": {}}}));
}

#[test]
fn a_malformed_wire_form_is_an_error() {
    let check = |fields: Value| assert!(Set::from_fields(&fields).is_err(), "{fields}");
    check(json!([]));
    check(json!(42));
    check(json!("f:a"));
    check(json!({"f:a": 1}));
    check(json!({"f:a": []}));
    check(json!({"": {}}));
    check(json!({"x": {}}));
    check(json!({":": {}}));
    check(json!({"v:": {}}));
    check(json!({"v:{": {}}));
    check(json!({"i:x": {}}));
    check(json!({"i:99999999999999999999": {}}));
    check(json!({"k:[]": {}}));
    check(json!({"k:{\"a\"}": {}}));
}

#[test]
fn paths_read_as_kubectl_shows_them() {
    let check = |fields: Value, expected: &str| assert_eq!(shown(&read(fields)), [expected]);
    check(json!({"f:spec": {"f:replicas": {}}}), ".spec.replicas");
    check(
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {"f:image": {}}}}}),
        ".spec.containers[name=\"x\"].image",
    );
    check(
        json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}}),
        ".ports[port=80,protocol=\"TCP\"].name",
    );
    check(json!({"f:finalizers": {"v:\"a/b\"": {}}}), ".finalizers[=\"a/b\"]");
    check(json!({"f:list": {"i:3": {}}}), ".list[3]");
}

#[test]
fn numbers_order_by_magnitude_without_rounding() {
    use std::cmp::Ordering;
    let check = |left: Value, right: Value, order: Ordering| {
        assert_eq!(compare_values(&left, &right), order, "{left} {right}");
        assert_eq!(compare_values(&right, &left), order.reverse(), "{right} {left}");
    };
    check(json!(1), json!(1.0), Ordering::Equal);
    check(json!(1), json!(1.5), Ordering::Less);
    check(json!(-1), json!(-1.5), Ordering::Greater);
    check(json!(2), json!(1.5), Ordering::Greater);
    check(json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0), Ordering::Greater);
    check(json!(u64::MAX), json!(i64::MIN), Ordering::Greater);
    check(json!(1e300), json!(i64::MAX), Ordering::Greater);
    check(json!(1e300), json!(1e301), Ordering::Less);
    check(json!(5), json!("5"), Ordering::Less);
    check(json!("a"), json!(true), Ordering::Less);
    check(json!([1, 2]), json!([1, 2, 3]), Ordering::Less);
    check(json!({"a": 1}), json!({"a": 2}), Ordering::Less);
    check(Value::Null, json!({}), Ordering::Greater);
}

#[test]
fn set_algebra_on_known_sets() {
    let a = read(json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {"f:e": {}}}));
    let b = read(json!({"f:b": {}, "f:d": {".": {}, "f:e": {}, "f:f": {}}}));
    let check = |set: Set, expected: Value| assert_eq!(set.to_fields(), expected);
    check(
        a.union(&b),
        json!({"f:a": {}, "f:b": {".": {}, "f:c": {}}, "f:d": {".": {}, "f:e": {}, "f:f": {}}}),
    );
    check(a.intersection(&b), json!({"f:b": {}, "f:d": {"f:e": {}}}));
    check(a.difference(&b), json!({"f:a": {}, "f:b": {"f:c": {}}}));
    check(a.recursive_difference(&b), json!({"f:a": {}}));
    check(b.recursive_difference(&a), json!({"f:d": {".": {}, "f:f": {}}}));
    check(a.leaves(), json!({"f:a": {}, "f:b": {"f:c": {}}, "f:d": {"f:e": {}}}));
    check(a.with_prefix(&PathElement::field("b")), json!({"f:c": {}}));
    check(a.with_prefix(&PathElement::field("x")), json!({}));
    assert_eq!(a.len(), 4);
    let path = |names: &[&str]| Path(names.iter().map(|name| PathElement::field(*name)).collect());
    assert!(a.has(&path(&["b", "c"])) && a.has(&path(&["b"])));
    assert!(!a.has(&path(&["d"])) && !a.has(&path(&["d", "x"])) && !a.has(&path(&[])));
}

fn gadget() -> std::sync::Arc<Schema> {
    crate::merge::gadget_for_tests()
}

#[test]
fn the_set_of_an_object_follows_its_schema() {
    let schema = gadget();
    let check = |spec: Value, expected: Value| {
        let set = field_set(&schema, &json!({"spec": spec}));
        assert_eq!(set.to_fields(), json!({"f:spec": expected}));
    };
    check(json!({}), json!({}));
    check(json!(null), json!({}));
    check(json!({"size": 1, "mode": "x"}), json!({"f:size": {}, "f:mode": {}}));
    check(json!({"labels": {}}), json!({"f:labels": {}}));
    check(json!({"labels": {"a": "b"}}), json!({"f:labels": {"f:a": {}}}));
    check(json!({"selector": {"a": "b"}}), json!({"f:selector": {}}));
    check(json!({"steps": ["a"]}), json!({"f:steps": {}}));
    check(json!({"tags": ["b", "a"]}), json!({"f:tags": {"v:\"a\"": {}, "v:\"b\"": {}}}));
    check(
        json!({"ports": [{"port": 80, "name": "http"}]}),
        json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:name": {}}}}),
    );
    check(
        json!({"ports": [{"port": 80, "hosts": ["a"]}]}),
        json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}":
            {".": {}, "f:port": {}, "f:hosts": {"v:\"a\"": {}}}}}),
    );
    check(json!({"nested": {"inner": {"a": "x"}}}), json!({"f:nested": {"f:inner": {"f:a": {}}}}));
    check(json!({"nested": {"inner": {}}}), json!({"f:nested": {"f:inner": {}}}));
    check(json!({"nested": null}), json!({"f:nested": {}}));
    check(
        json!({"free": {"a": {"b": 1}, "list": [{"x": 1}]}}),
        json!({"f:free": {"f:a": {".": {}, "f:b": {}}, "f:list": {}}}),
    );
    // What does not fit the schema is owned as a whole, and never a panic.
    check(
        json!({"ports": [{"name": "keyless"}]}),
        json!({"f:ports": {"k:{\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}),
    );
    check(json!({"ports": [{"port": 1}, "x"]}), json!({"f:ports": {}}));
    check(json!({"tags": [{"a": 1}]}), json!({"f:tags": {}}));
    check(json!({"tags": ["a", "a"]}), json!({"f:tags": {"v:\"a\"": {}}}));
    check(json!({"labels": 5, "size": {"a": 1}}), json!({"f:labels": {}, "f:size": {}}));
}

#[test]
fn an_object_without_a_schema_has_granular_maps_and_atomic_lists() {
    let set = field_set(&Schema::untyped(), &json!({"spec": {"a": {"b": 1}, "list": [{"x": 1}], "e": {}}}));
    assert_eq!(
        set.to_fields(),
        json!({"f:spec": {".": {}, "f:a": {".": {}, "f:b": {}}, "f:list": {}, "f:e": {}}})
    );
}

#[test]
fn comparison_tells_added_modified_and_removed_apart() {
    let schema = gadget();
    let check = |old: Value, new: Value, added: Value, modified: Value, removed: Value| {
        let found = compare(&schema, &json!({"spec": old}), &json!({"spec": new}));
        let expect = |set: &Set, fields: Value| {
            let fields = if fields == json!({}) { json!({}) } else { json!({"f:spec": fields}) };
            assert_eq!(set.to_fields(), fields, "{found:?}");
        };
        expect(&found.added, added);
        expect(&found.modified, modified);
        expect(&found.removed, removed);
    };
    let none = || json!({});
    check(json!({"size": 1}), json!({"size": 1}), none(), none(), none());
    check(json!({"size": 1}), json!({"size": 1.0}), none(), none(), none());
    check(json!({"size": 1}), json!({"size": 2}), none(), json!({"f:size": {}}), none());
    check(json!({"size": 1}), json!({"mode": "x"}), json!({"f:mode": {}}), none(), json!({"f:size": {}}));
    check(
        json!({"labels": {"a": "1"}}),
        json!({"labels": {"a": "2", "b": "1"}}),
        json!({"f:labels": {"f:b": {}}}),
        json!({"f:labels": {"f:a": {}}}),
        none(),
    );
    check(
        json!({}),
        json!({"labels": {"a": "1"}}),
        json!({"f:labels": {".": {}, "f:a": {}}}),
        none(),
        none(),
    );
    check(json!({"steps": ["a"]}), json!({"steps": ["b"]}), none(), json!({"f:steps": {}}), none());
    check(
        json!({"tags": ["a", "b"]}),
        json!({"tags": ["c", "b"]}),
        json!({"f:tags": {"v:\"c\"": {}}}),
        none(),
        json!({"f:tags": {"v:\"a\"": {}}}),
    );
    // Order alone is no change of ownership.
    check(json!({"tags": ["a", "b"]}), json!({"tags": ["b", "a"]}), none(), none(), none());
    check(
        json!({"ports": [{"port": 1}, {"port": 2, "name": "x"}]}),
        json!({"ports": [{"port": 2, "name": "y"}]}),
        none(),
        json!({"f:ports": {"k:{\"port\":2,\"protocol\":\"TCP\"}": {"f:name": {}}}}),
        json!({"f:ports": {"k:{\"port\":1,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}),
    );
    check(
        json!({"free": {"a": [1]}}),
        json!({"free": {"a": {"b": 1}}}),
        json!({"f:free": {"f:a": {"f:b": {}}}}),
        json!({"f:free": {"f:a": {}}}),
        none(),
    );
}

#[test]
fn a_list_that_became_atomic_is_owned_as_a_whole() {
    let schema = gadget();
    let before = read(
        json!({"f:spec": {"f:steps": {"v:\"a\"": {}}, "f:selector": {"f:a": {}}, "f:tags": {"v:\"a\"": {}}}}),
    );
    let after = super::reconcile(super::TypeRef::root(&schema), before);
    assert_eq!(
        after.to_fields(),
        json!({"f:spec": {"f:steps": {}, "f:selector": {}, "f:tags": {"v:\"a\"": {}}}})
    );
}

#[test]
fn large_lists_are_not_quadratic_in_the_codec() {
    let fields: serde_json::Map<String, Value> = (0..10_000).map(|n| (format!("v:{n}"), json!({}))).collect();
    assert_eq!(read(Value::Object(fields)).len(), 10_000);
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-d]{1,2}".prop_map(PathElement::Field),
        (0..3i64).prop_map(|n| PathElement::key([("name".to_owned(), json!(n))])),
        prop_oneof![Just(json!("x")), Just(json!(1)), Just(json!(true)), Just(json!(1.5))]
            .prop_map(PathElement::Value),
        (0..3i64).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    let path = prop::collection::vec(element(), 1..4).prop_map(Path);
    prop::collection::vec(path, 0..12).prop_map(Set::from_paths)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_set_survives_the_wire(set in set()) {
        prop_assert_eq!(&Set::from_fields(&set.to_fields()).unwrap(), &set);
        prop_assert_eq!(Set::from_paths(set.paths()), set);
    }

    #[test]
    fn sets_obey_the_laws(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.union(&a), a.clone());
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.difference(&b.union(&c)), a.difference(&b).difference(&c));
        prop_assert!(a.recursive_difference(&b).is_subset(&a.difference(&b)));
        prop_assert_eq!(a.is_subset(&b), a.difference(&b).is_empty());
        let mut rest = a.clone();
        rest.subtract(&b);
        prop_assert_eq!(rest, a.difference(&b));
        prop_assert_eq!(a.leaves().leaves(), a.leaves());
        prop_assert!(a.leaves().is_subset(&a));
        for path in a.union(&b).paths() {
            prop_assert!(a.has(&path) || b.has(&path));
        }
    }

    #[test]
    fn arbitrary_json_never_panics_the_codec(text in "\\PC{0,40}") {
        let _ = Set::from_fields(&json!({ text.clone(): {} }));
        let _ = Set::from_fields(&json!({ format!("k:{text}"): {"v:1": {}} }));
    }
}
