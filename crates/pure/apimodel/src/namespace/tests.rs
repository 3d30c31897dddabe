//! How namespaces begin and end.

use serde_json::{Value, json};

use crate::harness::{World, config_map};

const ALL: &str = "/api/v1/namespaces";

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

#[test]
fn new_namespaces_are_active_and_labelled() {
    let mut world = World::new();
    assert_eq!(world.names(ALL), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let made = world.ok(&format!("POST {ALL}"), namespace("n"));
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(made["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(made["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "n"}));
    let status = world.err(&format!("POST {ALL}"), namespace("a.b"));
    assert_eq!(
        status.message,
        "Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots"
    );
    assert!(super::initial(&world.model).is_empty());
}

#[test]
fn termination_removes_the_content_first() {
    let mut world = World::new();
    world.ok(&format!("POST {ALL}"), namespace("n"));
    let inside = format!("{ALL}/n/configmaps");
    world.ok(&format!("POST {inside}"), config_map("free"));
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.ok(&format!("POST {inside}"), held);
    let answer = world.ok(&format!("DELETE {ALL}/n"), Value::Null);
    assert_eq!(answer["status"]["phase"], "Terminating");
    assert!(answer["metadata"]["deletionTimestamp"].is_string());
    let status = world.err(&format!("POST {inside}"), config_map("late"));
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(status.causes[0].reason, "NamespaceTerminating");
    world.run_housekeeping();
    assert_eq!(world.names(&inside), ["n/held"]);
    let stuck = world.must(&format!("{ALL}/n"));
    let says = |kind: &str| {
        let list = stuck["status"]["conditions"].as_array().unwrap();
        list.iter().find(|c| c["type"] == kind).unwrap()["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        says("NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(
        says("NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    world.ok(&format!("MERGE {inside}/held"), json!({"metadata": {"finalizers": null}}));
    world.run_housekeeping();
    assert_eq!(world.get(&format!("{ALL}/n")), None);
}

#[test]
fn an_empty_namespace_goes_at_once_and_can_come_back() {
    let mut world = World::new();
    world.ok(&format!("POST {ALL}"), namespace("n"));
    world.ok(&format!("DELETE {ALL}/n"), Value::Null);
    world.run_housekeeping();
    assert_eq!(world.get(&format!("{ALL}/n")), None);
    world.ok(&format!("POST {ALL}"), namespace("n"));
    world.ok(&format!("POST {ALL}/n/configmaps"), config_map("a"));
}

#[test]
fn some_namespaces_stay() {
    let mut world = World::new();
    let status = world.err(&format!("DELETE {ALL}/default"), Value::Null);
    assert_eq!(
        (status.code, status.message.as_str()),
        (403, "namespaces \"default\" is forbidden: this namespace may not be deleted")
    );
}

#[test]
fn finalize_is_the_only_way_to_change_spec_finalizers() {
    let mut world = World::new();
    world.ok(&format!("POST {ALL}"), namespace("n"));
    let mut body = world.must(&format!("{ALL}/n"));
    body["spec"]["finalizers"] = json!([]);
    let kept = world.ok(&format!("PUT {ALL}/n"), body.clone());
    assert_eq!(kept["spec"]["finalizers"], json!(["kubernetes"]));
    let changed = world.ok(&format!("PUT {ALL}/n/finalize"), body);
    assert!(changed["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty));
    assert!(world.get(&format!("{ALL}/n")).is_some(), "nobody deleted it yet");
}
