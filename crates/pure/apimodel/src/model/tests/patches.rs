//! PATCH in its four forms, as the model dispatches them.

use serde_json::{Value, json};

use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};

#[test]
fn the_three_plain_forms() {
    let mut world = World::new();
    world.ok(&format!("POST {CM}"), config_map("a"));
    let merged = world.ok(&format!("MERGE {CM}/a"), json!({"data": {"k": null, "m": "1"}}));
    assert_eq!(merged["data"], json!({"m": "1"}));
    let patched = world.ok(&format!("JSON {CM}/a"), json!([{"op": "add", "path": "/data/j", "value": "2"}]));
    assert_eq!(patched["data"], json!({"m": "1", "j": "2"}));
    let strategic = world.ok(&format!("STRATEGIC {CM}/a"), json!({"data": {"s": "3"}}));
    assert_eq!(strategic["data"], json!({"m": "1", "j": "2", "s": "3"}));
    let same = world.ok(&format!("MERGE {CM}/a"), json!({"data": {"s": "3"}}));
    assert_eq!(same, strategic, "a patch without effect keeps the version");
}

#[test]
fn patches_that_are_refused() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    world.ok(&format!("POST {CM}"), config_map("a"));
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({})));
    let mut check = |line: &str, body: Value, code: u16, message: &str| {
        let before = world.model.resource_version();
        let status = world.err(line, body);
        assert_eq!((status.code, status.message.as_str()), (code, message), "{line}");
        assert_eq!(world.model.resource_version(), before);
    };
    check(&format!("MERGE {CM}/zz"), json!({}), 404, "configmaps \"zz\" not found");
    check(
        &format!("STRATEGIC {WIDGETS}/w"),
        json!({}),
        415,
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
    );
    check(
        &format!("MERGE {CM}/a"),
        json!({"metadata": {"resourceVersion": "1"}}),
        409,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again",
    );
    check(
        &format!("MERGE {CM}/a"),
        json!({"metadata": {"name": "b"}}),
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    );
    check(
        &format!("APPLY {CM}/a"),
        config_map("a"),
        422,
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
    check(
        &format!("MERGE {CM}/a?force=true"),
        json!({}),
        422,
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
    );
    check(
        &format!("APPLY {CM}/new/status?fieldManager=m"),
        config_map("new"),
        404,
        "the server could not find the requested resource",
    );
    check(
        &format!("APPLY {WIDGETS}/new/status?fieldManager=m"),
        widget("new", json!({})),
        404,
        "widgets.example.com \"new\" not found",
    );
    check(
        &format!("MERGE {WIDGETS}/w"),
        json!({"spec": {"size": -1}}),
        422,
        "Widget.example.com \"w\" is invalid: spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0",
    );
}

#[test]
fn strict_patches_report_on_the_patch() {
    let mut world = World::new();
    world.ok(&format!("POST {CM}"), config_map("a"));
    let status = world.err(&format!("MERGE {CM}/a?fieldValidation=Strict"), json!({"dta": {}}));
    assert_eq!((status.code, status.causes[0].field.as_str()), (422, "patch"));
    assert!(status.message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{}", status.message);
    assert!(status.message.ends_with("strict decoding error: unknown field \"dta\""), "{}", status.message);
}

#[test]
fn apply_creates_updates_and_gives_up_fields() {
    let mut world = World::new();
    let apply = format!("APPLY {CM}/a?fieldManager=m");
    let first = world.outcome(&apply, config_map("a")).unwrap();
    assert_eq!(first.code, 201);
    let made = first.value().into_owned();
    assert_eq!(made["metadata"]["managedFields"][0]["operation"], "Apply");
    world.tick(60);
    let again = world.outcome(&apply, config_map("a")).unwrap();
    assert_eq!(again.code, 200);
    assert_eq!(again.value().into_owned(), made, "applying the same again changes nothing");
    let mut next = config_map("a");
    next["data"] = json!({"other": "1"});
    let changed = world.ok(&apply, next);
    assert_eq!(changed["data"], json!({"other": "1"}), "what is no longer applied goes");
}

#[test]
fn apply_conflicts_name_manager_and_field() {
    let mut world = World::new();
    world.ok(&format!("APPLY {CM}/a?fieldManager=one"), config_map("a"));
    let mut mine = config_map("a");
    mine["data"]["k"] = json!("mine");
    let status = world.err(&format!("APPLY {CM}/a?fieldManager=two"), mine.clone());
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.k");
    assert_eq!(status.causes[0].reason, "FieldManagerConflict");
    assert_eq!(status.causes[0].field, ".data.k");
    assert_eq!(status.causes[0].message, "conflict with \"one\"");
    let forced = world.ok(&format!("APPLY {CM}/a?fieldManager=two&force=true"), mine);
    assert_eq!(forced["data"]["k"], "mine");
}

#[test]
fn status_is_applied_through_its_own_door_only() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let mut body = widget("w", json!({"size": 2}));
    body["status"] = json!({"phase": "A"});
    let made = world.ok(&format!("APPLY {WIDGETS}/w?fieldManager=m"), body.clone());
    assert!(made.get("status").is_none());
    body["spec"]["size"] = json!(9);
    let reported = world.ok(&format!("APPLY {WIDGETS}/w/status?fieldManager=m"), body);
    assert_eq!(reported["status"], json!({"phase": "A"}));
    assert_eq!(reported["spec"]["size"], 2);
    let entries: Vec<(&str, &str)> = reported["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["manager"].as_str().unwrap(), e["subresource"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(entries, [("m", ""), ("m", "status")]);
}

#[test]
fn unknown_fields_cannot_be_applied() {
    let mut world = World::new();
    let mut body = config_map("a");
    body["dta"] = json!({});
    let status = world.err(&format!("APPLY {CM}/a?fieldManager=m"), body);
    assert_eq!(status.code, 400);
    assert!(
        status.message.starts_with("failed to create typed patch object (/a; /v1, Kind=ConfigMap): "),
        "{}",
        status.message
    );
    assert!(
        status.message.ends_with(", Kind=ConfigMap): .dta: field not declared in schema"),
        "{}",
        status.message
    );
}
