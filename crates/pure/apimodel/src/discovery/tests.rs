//! Discovery documents.

use serde_json::{Value, json};

use super::*;
use crate::harness::{CRDS, World, widget_crd};

fn find<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry[field] == name).unwrap_or(&Value::Null)
}

#[test]
fn legacy_documents() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let registry = world.model.registry();
    let groups = group_list(registry);
    let entry = find(&groups["groups"], "name", "example.com");
    assert_eq!(entry["preferredVersion"], json!({"groupVersion": "example.com/v1", "version": "v1"}));
    assert_eq!(entry["versions"].as_array().unwrap().len(), 2);
    assert_eq!(find(&groups["groups"], "name", ""), &Value::Null, "the core group is not listed here");
    assert_eq!(group(registry, "example.com").unwrap()["kind"], "APIGroup");
    assert_eq!(group(registry, "nowhere").unwrap_err().code, 404);
    let core = resource_list(registry, "", "v1").unwrap();
    let maps = find(&core["resources"], "name", "configmaps");
    assert_eq!(maps["shortNames"], json!(["cm"]));
    assert_eq!(maps["singularName"], "configmap");
    assert_eq!(find(&core["resources"], "name", "namespaces/finalize")["verbs"], json!(["update"]));
    let custom = resource_list(registry, "example.com", "v1beta1").unwrap();
    assert_eq!(custom["groupVersion"], "example.com/v1beta1");
    assert_eq!(find(&custom["resources"], "name", "widgets")["shortNames"], json!(["wd"]));
    assert_eq!(
        find(&custom["resources"], "name", "widgets/scale"),
        &json!({"name": "widgets/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get", "patch", "update"]})
    );
    assert_eq!(resource_list(registry, "example.com", "v9").unwrap_err().code, 404);
}

#[test]
fn aggregated_documents() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let registry = world.model.registry();
    let core = aggregated(registry, true, "v2");
    assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(core["items"].as_array().unwrap().len(), 1);
    let others = aggregated(registry, false, "v2beta1");
    assert_eq!(others["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    let items = others["items"].as_array().unwrap();
    let group = items.iter().find(|item| item["metadata"]["name"] == "example.com").unwrap();
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    let widgets = &group["versions"][0]["resources"][0];
    assert_eq!(widgets["responseKind"], json!({"group": "example.com", "version": "v1", "kind": "Widget"}));
    assert_eq!(widgets["scope"], "Namespaced");
    assert_eq!(
        find(&widgets["subresources"], "subresource", "status")["verbs"],
        json!(["get", "patch", "update"])
    );
}

#[test]
fn the_version_can_be_parsed_by_kubectl() {
    let version = version();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("36")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.36."));
}
