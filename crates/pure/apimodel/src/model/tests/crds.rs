//! Kinds that come and go at run time.

use serde_json::{Value, json};

use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};

fn condition<'a>(crd: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    let list = crd.pointer("/status/conditions")?.as_array()?;
    let found = list.iter().find(|c| c["type"] == kind)?;
    Some((found["status"].as_str()?, found["reason"].as_str()?))
}

#[test]
fn a_created_crd_is_served_at_once_and_says_so() {
    let mut world = World::new();
    let answer = world.ok(&format!("POST {CRDS}"), widget_crd());
    assert_eq!(answer["spec"]["names"]["singular"], "widget");
    assert_eq!(answer["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(answer["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(answer["status"]["storedVersions"], json!(["v1"]));
    let stored = world.must(&format!("{CRDS}/widgets.example.com"));
    assert_eq!(condition(&stored, "NamesAccepted"), Some(("True", "NoConflicts")));
    assert_eq!(condition(&stored, "Established"), Some(("True", "InitialNamesAccepted")));
    assert_eq!(stored["status"]["acceptedNames"]["plural"], "widgets");
    assert_eq!(stored["metadata"]["generation"], 1);
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({})));
    assert_eq!(world.names(WIDGETS), ["default/w"]);
}

#[test]
fn crds_that_are_refused() {
    let mut world = World::new();
    let mut check = |change: fn(&mut Value), message: &str| {
        let mut crd = widget_crd();
        change(&mut crd);
        let status = world.err(&format!("POST {CRDS}"), crd);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{}", status.message);
        assert!(status.message.contains(message), "`{}` should contain `{message}`", status.message);
    };
    check(
        |crd| crd["metadata"]["name"] = json!("gadgets.example.com"),
        "metadata.name: Invalid value: \"gadgets.example.com\": must be spec.names.plural+\".\"+spec.group",
    );
    check(
        |crd| crd["spec"]["scope"] = json!("Galaxy"),
        "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
    );
    check(
        |crd| crd["spec"]["versions"][1]["storage"] = json!(true),
        "must have exactly one version marked as storage version",
    );
    check(
        |crd| crd["spec"]["versions"][0]["storage"] = json!(false),
        "must have exactly one version marked as storage version",
    );
    check(|crd| crd["spec"]["versions"][1]["name"] = json!("v1"), "must contain unique version names");
    check(
        |crd| crd["spec"]["names"]["kind"] = json!("Wid get"),
        "spec.names.kind: Invalid value: \"Wid get\": may have mixed case, but should otherwise match: a DNS-1035 label",
    );
    check(
        |crd| {
            crd["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
        },
        "spec.versions[0].schema.openAPIV3Schema: Required value",
    );
    check(
        |crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["bad"] =
                json!({})
        },
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[bad].type: Required value: must not be empty for specified object fields",
    );
    check(
        |crd| crd["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.nope"}]),
        "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.nope\": is an invalid path",
    );
    check(
        |crd| {
            crd["spec"]["versions"][0]["additionalPrinterColumns"] =
                json!([{"name": "A", "type": "stringy", "jsonPath": ".a"}])
        },
        "additionalPrinterColumns[0].type: Invalid value: \"stringy\": must be one of boolean,date,integer,number,string",
    );
    check(
        |crd| crd["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = json!(".status.n"),
        "scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec",
    );
}

#[test]
fn names_that_are_taken_are_not_accepted_until_they_are_free() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let mut other = widget_crd();
    other["metadata"]["name"] = json!("gizmos.example.com");
    other["spec"]["names"] = json!({"plural": "gizmos", "kind": "Widget"});
    world.ok(&format!("POST {CRDS}"), other);
    let stored = world.must(&format!("{CRDS}/gizmos.example.com"));
    assert_eq!(condition(&stored, "NamesAccepted"), Some(("False", "ListKindConflict")));
    assert_eq!(condition(&stored, "Established"), Some(("False", "NotAccepted")));
    assert!(world.model.registry().get("gizmos.example.com").is_none());
    world.ok(&format!("DELETE {CRDS}/widgets.example.com"), Value::Null);
    world.run_housekeeping();
    let stored = world.must(&format!("{CRDS}/gizmos.example.com"));
    assert_eq!(condition(&stored, "Established"), Some(("True", "InitialNamesAccepted")));
    assert!(world.model.registry().get("gizmos.example.com").is_some());
}

#[test]
fn every_served_version_shows_the_same_object() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let beta = WIDGETS.replace("/v1/", "/v1beta1/");
    let mut body = widget("w", json!({"size": 4}));
    body["apiVersion"] = json!("example.com/v1beta1");
    let made = world.ok(&format!("POST {beta}"), body);
    assert_eq!(made["apiVersion"], "example.com/v1beta1");
    let stable = world.must(&format!("{WIDGETS}/w"));
    assert_eq!(stable["apiVersion"], "example.com/v1");
    assert_eq!(stable["spec"], made["spec"]);
    let key = crate::Key::new("widgets.example.com", "default", "w");
    assert_eq!(world.model.object(&key).unwrap().api_version(), "example.com/v1", "one storage version");
    let mut again = world.must(&format!("{beta}/w"));
    again["spec"]["size"] = json!(4);
    let same = world.ok(&format!("PUT {beta}/w"), again);
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

#[test]
fn unserved_versions_and_stored_versions() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let path = format!("{CRDS}/widgets.example.com");
    world.ok(
        &format!("JSON {path}"),
        json!([
            {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
            {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
            {"op": "replace", "path": "/spec/versions/0/served", "value": false},
        ]),
    );
    assert_eq!(world.must(&path)["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    assert_eq!(world.err(&format!("POST {WIDGETS}"), widget("w", json!({}))).code, 404);
    let status = world.err(&format!("JSON {path}"), json!([{"op": "remove", "path": "/spec/versions/0"}]));
    assert!(
        status
            .message
            .contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{}",
        status.message
    );
    let status = world.err(&format!("MERGE {path}"), json!({"spec": {"scope": "Cluster"}}));
    assert!(
        status.message.contains("spec.scope: Invalid value: \"Cluster\": field is immutable"),
        "{}",
        status.message
    );
}

#[test]
fn a_changed_schema_holds_from_the_next_request_on() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let status = world.err(&format!("POST {WIDGETS}"), widget("w", json!({"color": "blue"})));
    assert_eq!(
        status.message,
        "Widget.example.com \"w\" is invalid: spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\""
    );
    let before = world.model.registry().get("widgets.example.com").unwrap().versions[1].schema();
    world.ok(
        &format!("JSON {CRDS}/widgets.example.com"),
        json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/enum/-", "value": "blue"}]),
    );
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({"color": "blue"})));
    let after = world.model.registry().get("widgets.example.com").unwrap().versions[1].schema();
    assert!(
        std::sync::Arc::ptr_eq(&before, &after),
        "the schema of the untouched version is not compiled again"
    );
}

#[test]
fn deleting_a_crd_takes_its_objects_along() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    world.ok(&format!("POST {WIDGETS}"), widget("free", json!({})));
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let held = world.ok(&format!("POST {WIDGETS}"), held);
    let mut dependent = config_map("d");
    dependent["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "held", "uid": held["metadata"]["uid"],
    }]);
    world.ok(&format!("POST {CM}"), dependent);
    let answer = world.ok(&format!("DELETE {CRDS}/widgets.example.com"), Value::Null);
    assert_eq!(condition(&answer, "Terminating"), Some(("True", "InstanceDeletionPending")));
    assert_eq!(answer["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let status = world.err(&format!("POST {WIDGETS}"), widget("new", json!({})));
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            403,
            "widgets.example.com \"new\" is forbidden: create not allowed while custom resource definition is terminating"
        )
    );
    world.run_housekeeping();
    assert_eq!(world.names(WIDGETS), ["default/held"], "a finalizer holds the CRD");
    world.ok(&format!("MERGE {WIDGETS}/held"), json!({"metadata": {"finalizers": null}}));
    world.run_housekeeping();
    assert_eq!(world.get(&format!("{CRDS}/widgets.example.com")), None);
    assert!(world.model.registry().get("widgets.example.com").is_none());
    assert_eq!(world.names(CM), Vec::<String>::new(), "dependents of its objects go as well");
}

#[test]
fn a_loaded_model_serves_what_was_stored() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({})));
    world.ok(&format!("DELETE {WIDGETS}/w"), Value::Null);
    world.ok(&format!("POST {WIDGETS}"), widget("x", json!({})));
    let rv = world.model.resource_version();
    let stored: Vec<_> = world
        .model
        .collections()
        .flat_map(|(resource, collection)| {
            collection.iter().map(|o| {
                let key = crate::Key::new(resource.clone(), o.namespace(), o.name());
                (key, crate::Object::from_json(o.json()).unwrap())
            })
        })
        .collect();
    world.model = crate::Model::load(crate::watch::Limits::default(), stored, rv);
    assert_eq!(world.model.resource_version(), rv);
    assert_eq!(world.names(WIDGETS), ["default/x"]);
    let next = world.ok(&format!("POST {WIDGETS}"), widget("y", json!({})));
    assert_eq!(next["metadata"]["resourceVersion"], (rv + 1).to_string());
}

#[test]
fn scale_reads_and_writes_through_its_paths() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({"replicas": 2})));
    world.ok(&format!("MERGE {WIDGETS}/w/status"), json!({"status": {"replicas": 1, "selector": "a=b"}}));
    world.ok(&format!("POST {WIDGETS}"), widget("bare", json!({})));
    let target = crate::model::Target {
        group: "example.com".into(),
        version: "v1".into(),
        resource: "widgets".into(),
        namespace: "default".into(),
        name: "w".into(),
        subresource: "scale".into(),
    };
    let bare =
        world.model.scale(&crate::model::Target { name: "bare".into(), ..target.clone() }).unwrap_err();
    assert_eq!(bare.message, "the spec replicas field \".spec.replicas\" does not exist");
    world.ok(&format!("MERGE {WIDGETS}/bare/scale"), json!({"spec": {"replicas": 1}}));
    assert_eq!(world.must(&format!("{WIDGETS}/bare"))["spec"]["replicas"], 1);
    let scale = world.model.scale(&target).unwrap();
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b"}));
    let mut next = scale.clone();
    next["spec"]["replicas"] = json!(5);
    let answer = world.ok(&format!("PUT {WIDGETS}/w/scale"), next.clone());
    assert_eq!((&answer["kind"], &answer["spec"]["replicas"]), (&json!("Scale"), &json!(5)));
    let object = world.must(&format!("{WIDGETS}/w"));
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(5), &json!(2)));
    assert_eq!(world.err(&format!("PUT {WIDGETS}/w/scale"), next).code, 409, "the version is stale by now");
    let answer = world.ok(&format!("MERGE {WIDGETS}/w/scale"), json!({"spec": {"replicas": 7}}));
    assert_eq!(answer["spec"]["replicas"], 7);
    assert_eq!(world.err(&format!("MERGE {WIDGETS}/w/scale"), json!({"spec": {"replicas": -1}})).code, 422);
}

#[test]
fn deployments_scale_too() {
    let mut world = World::new();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let made = world.ok(&format!("POST {path}"), body);
    assert_eq!((&made["spec"]["replicas"], &made["metadata"]["generation"]), (&json!(1), &json!(1)));
    let answer = world.ok(&format!("MERGE {path}/d/scale"), json!({"spec": {"replicas": 3}}));
    assert_eq!(answer["status"]["selector"], "app=d");
    assert_eq!(world.must(&format!("{path}/d"))["spec"]["replicas"], 3);
}
