//! Tests of managed fields after plain writes.

use serde_json::{Value, json};

use super::{MAX_UPDATE_MANAGERS, ManagedError, Manager, Managers, Operation, track_update};
use crate::merge::gadget_for_tests as gadget;

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g", "uid": "u", "generation": 1}, "spec": spec})
}

fn write(old: Option<&Value>, mut new: Value, name: &str, second: i64) -> Value {
    let writer = Manager { name, operation: Operation::Update, api_version: "v1", subresource: "" };
    track_update(&gadget(), old, &mut new, &writer, at(second));
    new
}

/// The object with another spec and its managed fields as they are.
fn edited(old: &Value, spec: Value) -> Value {
    let mut new = old.clone();
    new["spec"] = spec;
    new
}

fn entries(object: &Value) -> Vec<(String, Value, String)> {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (text("manager"), entry["fieldsV1"].clone(), text("time"))
        })
        .collect()
}

#[test]
fn a_create_is_owned_by_its_writer_without_what_the_server_sets() {
    let mut new = object(json!({"size": 1, "labels": {"a": "b"}}));
    new["metadata"]["labels"] = json!({"l": "1"});
    new["metadata"]["finalizers"] = json!(["f/x"]);
    new["metadata"]["resourceVersion"] = json!("5");
    new["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    let new = write(None, new, "c", 1);
    assert_eq!(
        new["metadata"]["managedFields"],
        json!([{
            "manager": "c", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": at(1).to_string(),
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:l": {}}, "f:finalizers": {".": {}, "v:\"f/x\"": {}}},
                "f:spec": {".": {}, "f:size": {}, "f:labels": {".": {}, "f:a": {}}},
            },
        }])
    );
}

#[test]
fn a_write_takes_changed_fields_and_leaves_the_rest() {
    let first = write(None, object(json!({"size": 1, "mode": "x"})), "a", 1);
    let second = write(Some(&first), edited(&first, json!({"size": 2, "mode": "x", "note": "n"})), "b", 2);
    assert_eq!(
        entries(&second),
        [
            ("a".to_owned(), json!({"f:spec": {".": {}, "f:mode": {}}}), at(1).to_string()),
            ("b".to_owned(), json!({"f:spec": {"f:size": {}, "f:note": {}}}), at(2).to_string()),
        ]
    );
    // A removed field has no owner, and the one who removed it gets no entry for that.
    let third = write(Some(&second), edited(&second, json!({"size": 2, "mode": "x"})), "c", 3);
    assert_eq!(
        entries(&third),
        [
            ("a".to_owned(), json!({"f:spec": {".": {}, "f:mode": {}}}), at(1).to_string()),
            ("b".to_owned(), json!({"f:spec": {"f:size": {}}}), at(2).to_string()),
        ]
    );
}

#[test]
fn a_write_that_changes_nothing_leaves_times_alone() {
    let first = write(None, object(json!({"size": 1})), "a", 1);
    let same = write(Some(&first), first.clone(), "a", 9);
    assert_eq!(same, first);
    let mut touched = first.clone();
    touched["metadata"]["resourceVersion"] = json!("77");
    assert_eq!(entries(&write(Some(&first), touched, "b", 9)), entries(&first));
}

#[test]
fn managed_fields_in_a_request_follow_the_rules_of_kube_apiserver() {
    let first = write(None, object(json!({"size": 1})), "a", 1);
    let with = |fields: Option<Value>| {
        let mut new = edited(&first, json!({"size": 2}));
        let metadata = new["metadata"].as_object_mut().unwrap();
        match fields {
            Some(fields) => metadata.insert("managedFields".to_owned(), fields),
            None => metadata.remove("managedFields"),
        };
        entries(&write(Some(&first), new, "b", 2)).into_iter().map(|(name, ..)| name).collect::<Vec<_>>()
    };
    // Leaving them out or sending nonsense keeps the stored ones.
    assert_eq!(with(None), ["a", "b"]);
    assert_eq!(with(Some(json!(null))), ["a", "b"]);
    assert_eq!(with(Some(json!("x"))), ["a", "b"]);
    assert_eq!(with(Some(json!([{"manager": "z"}]))), ["a", "b"]);
    // An empty list, or one empty entry, resets them and stops tracking.
    assert!(with(Some(json!([]))).is_empty());
    assert!(with(Some(json!([{}]))).is_empty());
    // Readable ones replace the stored ones.
    let entry = json!({"manager": "z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:mode": {}}}});
    assert_eq!(with(Some(json!([entry]))), ["z", "b"]);
}

#[test]
fn a_status_write_has_its_own_entry_and_cannot_set_managed_fields() {
    let first = write(None, object(json!({"size": 1})), "a", 1);
    let mut new = first.clone();
    new["status"] = json!({"phase": "Up"});
    new["metadata"]["managedFields"] = json!([]);
    let writer =
        Manager { name: "a", operation: Operation::Update, api_version: "v1", subresource: "status" };
    track_update(&gadget(), Some(&first), &mut new, &writer, at(2));
    let list = new["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[1]["subresource"], "status");
    assert_eq!(list[1]["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
}

#[test]
fn entries_sort_by_operation_time_and_name() {
    let entry = |manager: &str, operation: &str, second: i64| {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": at(second).to_string(), "fieldsV1": {"f:spec": {"f:size": {}}}})
    };
    let mut object = object(json!({"size": 1}));
    object["metadata"]["managedFields"] = json!([
        entry("u", "Update", 1),
        entry("z", "Apply", 5),
        entry("y", "Apply", 5),
        entry("x", "Apply", 3)
    ]);
    let managers = Managers::of(&object).unwrap();
    managers.write(&mut object);
    let names: Vec<String> = entries(&object).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["x", "y", "z", "u"]);
}

#[test]
fn the_oldest_plain_writers_are_joined() {
    let mut live = write(None, object(json!({"labels": {"l0": "0"}})), "m0", 0);
    for n in 1..=14 {
        let mut new = live.clone();
        new["spec"]["labels"][format!("l{n}")] = json!("x");
        live = write(Some(&live), new, &format!("m{n}"), n);
    }
    let found = entries(&live);
    assert_eq!(found.len(), MAX_UPDATE_MANAGERS);
    assert_eq!(found[0].0, "ancient-changes");
    assert_eq!(found[0].2, at(5).to_string());
    let labels = found[0].1["f:spec"]["f:labels"].as_object().unwrap();
    assert_eq!(labels.len(), 7, "six labels and the map itself: {labels:?}");
    let names: Vec<&str> = found[1..].iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["m6", "m7", "m8", "m9", "m10", "m11", "m12", "m13", "m14"]);
}

#[test]
fn a_nameless_writer_is_unknown() {
    assert_eq!(entries(&write(None, object(json!({"size": 1})), "", 0))[0].0, "unknown");
}

#[test]
fn unreadable_entries_are_named() {
    let good = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
    let check = |name: &str, value: Value, expected: &str| {
        let mut entry = good.clone();
        entry[name] = value;
        let error: ManagedError =
            Managers::of(&json!({"metadata": {"managedFields": [good, entry]}})).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    check("operation", json!("Patch"), "`metadata.managedFields[1].operation` must be `Apply` or `Update`");
    check("apiVersion", json!(""), "[1].apiVersion");
    check("fieldsType", json!("FieldsV2"), "[1].fieldsType");
    check("time", json!("yesterday"), "[1].time");
    check("manager", json!(5), "[1].manager");
    check("fieldsV1", json!({"f:a": 1}), "[1].fieldsV1");
    assert!(Managers::of(&json!({"metadata": {"managedFields": {}}})).is_err());
    assert!(Managers::of(&json!({"metadata": {"managedFields": [1]}})).is_err());
    assert!(Managers::of(&json!({"metadata": 5})).unwrap().entries.is_empty());
}
