//! Apply on whole objects: identities, times, conflicts, the kubectl bridge and built-in kinds.

use serde_json::{Value, json};

use super::{at, gadget, manager};
use crate::builtin;
use crate::managed::{Manager, Operation, track_update};
use crate::merge::{ApplyError, server_side_apply};
use crate::schema::Schema;

fn config(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec})
}

/// A world of one object and its writers.
struct World {
    live: Option<Value>,
    now: i64,
}

impl World {
    fn new() -> Self {
        Self { live: None, now: 0 }
    }

    fn try_apply(&mut self, name: &str, spec: Value, force: bool) -> Result<(), ApplyError> {
        self.now += 1;
        let writer = manager(name, Operation::Apply);
        let out =
            server_side_apply(&gadget(), self.live.as_mut(), &config(spec), &writer, force, at(self.now))?;
        self.live = Some(out);
        Ok(())
    }

    fn apply(&mut self, name: &str, spec: Value) {
        self.try_apply(name, spec, false).unwrap();
    }

    fn update(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.now += 1;
        let mut new = self.live.clone().unwrap_or_else(|| config(json!({})));
        change(&mut new);
        let writer = manager(name, Operation::Update);
        track_update(&gadget(), self.live.as_ref(), &mut new, &writer, at(self.now));
        self.live = Some(new);
    }

    fn live(&self) -> &Value {
        self.live.as_ref().unwrap()
    }

    fn spec(&self) -> Value {
        self.live()["spec"].clone()
    }

    /// The fields below `spec` that a manager owns.
    fn owned(&self, name: &str) -> Value {
        self.entry(name).map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
    }

    fn entry(&self, name: &str) -> Option<Value> {
        let entries = self.live()["metadata"]["managedFields"].as_array()?;
        entries.iter().find(|entry| entry["manager"] == name).cloned()
    }

    fn conflicts(&mut self, name: &str, spec: Value) -> Vec<(String, String)> {
        match self.try_apply(name, spec, false) {
            Err(ApplyError::Conflicts(list)) => list.into_iter().map(|c| (c.manager, c.field)).collect(),
            other => panic!("expected conflicts, found {other:?}"),
        }
    }
}

#[test]
fn apply_creates_with_the_fields_it_sets() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "tags": ["x"]}));
    let live = world.live();
    assert_eq!(live["spec"], json!({"size": 1, "tags": ["x"]}));
    assert_eq!(
        live["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": at(1).to_string(),
            "fieldsV1": {"f:spec": {"f:size": {}, "f:tags": {"v:\"x\"": {}}}},
        }])
    );
}

#[test]
fn applying_the_same_again_changes_nothing() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "labels": {"x": "y"}, "ports": [{"port": 1}]}));
    let before = world.live().clone();
    world.apply("a", json!({"size": 1, "labels": {"x": "y"}, "ports": [{"port": 1}]}));
    assert_eq!(*world.live(), before);
}

#[test]
fn equal_values_are_shared_without_conflict() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "mode": "x"}));
    world.apply("b", json!({"size": 1}));
    assert_eq!(world.owned("a"), json!({"f:size": {}, "f:mode": {}}));
    assert_eq!(world.owned("b"), json!({"f:size": {}}));
    // The field stays as long as one of them applies it.
    world.apply("a", json!({"mode": "x"}));
    assert_eq!(world.spec(), json!({"size": 1, "mode": "x"}));
    world.apply("b", json!({}));
    assert_eq!(world.spec(), json!({"mode": "x"}));
    // An empty struct that is applied is owned itself.
    assert_eq!(world.owned("b"), json!({}));
}

#[test]
fn a_conflict_names_manager_and_field_and_changes_nothing() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "ports": [{"port": 80, "name": "x"}]}));
    world.update("ctl", |live| live["spec"]["mode"] = json!("auto"));
    let before = world.live().clone();
    let found = world.conflicts("b", json!({"size": 2, "mode": "m", "ports": [{"port": 80, "name": "y"}]}));
    let pair = |manager: &str, field: &str| (manager.to_owned(), field.to_owned());
    assert_eq!(
        found,
        [
            pair("a", ".spec.ports[port=80,protocol=\"TCP\"].name"),
            pair("a", ".spec.size"),
            pair("ctl", ".spec.mode"),
        ]
    );
    assert_eq!(*world.live(), before);
}

#[test]
fn conflict_messages_are_those_of_kube_apiserver() {
    let mut world = World::new();
    world.update("ctl", |live| live["spec"] = json!({"size": 1, "mode": "x"}));
    let message = |world: &mut World, spec: Value| world.try_apply("b", spec, false).unwrap_err().to_string();
    assert_eq!(
        message(&mut world, json!({"size": 2})),
        "Apply failed with 1 conflict: conflict with \"ctl\" using v1: .spec.size"
    );
    world.apply("a", json!({"note": "n"}));
    assert_eq!(
        message(&mut world, json!({"size": 2, "mode": "y", "note": "m"})),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .spec.note\nconflicts with \"ctl\" using v1:\n\
         - .spec.mode\n- .spec.size"
    );
}

#[test]
fn force_takes_the_field_from_its_owner() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "mode": "x"}));
    world.try_apply("b", json!({"size": 2}), true).unwrap();
    assert_eq!(world.spec(), json!({"size": 2, "mode": "x"}));
    assert_eq!(world.owned("a"), json!({"f:mode": {}}));
    assert_eq!(world.owned("b"), json!({"f:size": {}}));
    // The loser's next apply conflicts in turn.
    assert_eq!(world.conflicts("a", json!({"size": 1, "mode": "x"})).len(), 1);
}

#[test]
fn an_update_takes_fields_from_appliers_and_the_next_apply_conflicts() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1, "mode": "x"}));
    world.update("edit", |live| live["spec"]["size"] = json!(5));
    assert_eq!(world.owned("a"), json!({"f:mode": {}}));
    assert_eq!(world.owned("edit"), json!({"f:size": {}}));
    assert_eq!(
        world.conflicts("a", json!({"size": 1, "mode": "x"})),
        [("edit".to_owned(), ".spec.size".to_owned())]
    );
    // Giving the field up leaves it to the other.
    world.apply("a", json!({"mode": "x"}));
    assert_eq!(world.spec(), json!({"size": 5, "mode": "x"}));
    // Applying the present value shares it.
    world.apply("a", json!({"mode": "x", "size": 5}));
    assert_eq!(world.owned("a"), json!({"f:mode": {}, "f:size": {}}));
}

#[test]
fn what_is_no_longer_applied_is_removed_with_its_containers() {
    let check = |first: Value, second: Value, expected: Value| {
        let mut world = World::new();
        world.apply("a", first);
        world.apply("a", second);
        assert_eq!(world.spec(), expected);
    };
    check(json!({"size": 1, "mode": "x"}), json!({"mode": "x"}), json!({"mode": "x"}));
    check(
        json!({"labels": {"a": "1", "b": "2"}}),
        json!({"labels": {"b": "2"}}),
        json!({"labels": {"b": "2"}}),
    );
    check(json!({"labels": {"a": "1"}, "size": 1}), json!({"size": 1}), json!({"size": 1}));
    check(json!({"tags": ["a", "b"]}), json!({"tags": ["b"]}), json!({"tags": ["b"]}));
    check(json!({"tags": ["a"], "size": 1}), json!({"size": 1}), json!({"size": 1}));
    check(
        json!({"ports": [{"port": 1}, {"port": 2, "name": "x"}]}),
        json!({"ports": [{"port": 2}]}),
        json!({"ports": [{"port": 2}]}),
    );
    check(json!({"nested": {"inner": {"a": "1"}}, "size": 1}), json!({"size": 1}), json!({"size": 1}));
    check(
        json!({"nested": {"inner": {"a": "1", "b": "2"}}}),
        json!({"nested": {"inner": {"b": "2"}}}),
        json!({"nested": {"inner": {"b": "2"}}}),
    );
    check(
        json!({"free": {"a": {"b": 1, "c": 2}}}),
        json!({"free": {"a": {"c": 2}}}),
        json!({"free": {"a": {"c": 2}}}),
    );
    check(json!({"steps": ["a", "b"]}), json!({"steps": ["b"]}), json!({"steps": ["b"]}));
    check(json!({"selector": {"a": "1"}}), json!({"selector": {"b": "1"}}), json!({"selector": {"b": "1"}}));
}

#[test]
fn what_others_put_into_a_container_keeps_it() {
    let mut world = World::new();
    world.apply("a", json!({"labels": {"a": "1"}, "ports": [{"port": 1, "name": "x"}]}));
    world.apply("b", json!({"labels": {"b": "1"}, "ports": [{"port": 1, "hosts": ["h"]}]}));
    world.update("ctl", |live| live["spec"]["free"] = json!({"k": 1}));
    world.apply("a", json!({}));
    assert_eq!(
        world.spec(),
        json!({"labels": {"b": "1"}, "ports": [{"port": 1, "hosts": ["h"]}], "free": {"k": 1}})
    );
    world.apply("b", json!({}));
    assert_eq!(world.spec(), json!({"free": {"k": 1}}));
}

#[test]
fn a_removed_list_item_takes_its_parts_along() {
    let mut world = World::new();
    world.apply("a", json!({"ports": [{"port": 1}, {"port": 2}]}));
    world.update("ctl", |live| live["spec"]["ports"][0]["name"] = json!("set-by-ctl"));
    world.apply("a", json!({"ports": [{"port": 2}]}));
    // The controller owns a part of the item but not the item, which its applier may take away.
    assert_eq!(world.spec()["ports"], json!([{"port": 2}]));
    assert_eq!(world.entry("ctl"), None);
}

#[test]
fn list_items_stand_in_the_applied_order_with_live_ones_kept() {
    let check = |live: &[&str], applied: &[&str], expected: &[&str]| {
        let mut world = World::new();
        world.update("other", |object| object["spec"]["tags"] = json!(live));
        world.apply("a", json!({"tags": applied}));
        assert_eq!(world.spec()["tags"], json!(expected), "{live:?} {applied:?}");
    };
    check(&["a", "b", "c"], &["b"], &["a", "b", "c"]);
    check(&["a", "b", "c"], &["c", "a"], &["b", "c", "a"]);
    check(&["a", "b"], &["c"], &["a", "b", "c"]);
    check(&["a", "b"], &["c", "a"], &["c", "a", "b"]);
    check(&[], &["b", "a"], &["b", "a"]);
    check(&["a", "c"], &["a", "b", "c"], &["a", "b", "c"]);
}

#[test]
fn live_duplicates_are_tolerated_and_applied_ones_refused() {
    let mut world = World::new();
    world.update("other", |object| object["spec"]["tags"] = json!(["a", "a", "b"]));
    world.apply("x", json!({"tags": ["c"]}));
    assert_eq!(world.spec()["tags"], json!(["a", "a", "b", "c"]));
    let error = world.try_apply("x", json!({"tags": ["c", "c"]}), false).unwrap_err();
    let expected = "failed to create typed patch object (/g; /v1, Kind=Gadget): .spec.tags: duplicate entries for key \
                    [=\"c\"]";
    assert_eq!(error, ApplyError::Invalid(expected.to_owned()));
    let error = world.try_apply("x", json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}), false);
    assert!(error.unwrap_err().to_string().contains("duplicate entries for key [port=1,protocol=\"TCP\"]"));
}

#[test]
fn malformed_configurations_are_invalid() {
    let check = |object: Value, expected: &str| {
        let writer = manager("a", Operation::Apply);
        match server_side_apply(&gadget(), None, &object, &writer, false, at(0)) {
            Err(ApplyError::Invalid(message)) => assert!(message.contains(expected), "{message}"),
            other => panic!("expected an error with {expected}, found {other:?}"),
        }
    };
    check(json!([]), "must be an object");
    check(json!({"apiVersion": "v1", "metadata": 5}), "`metadata`");
    check(json!({"apiVersion": "v2"}), "Specified patch version: v2, expected: v1");
    check(
        json!({"apiVersion": "v1", "metadata": {"managedFields": []}}),
        "metadata.managedFields must be nil",
    );
    check(config(json!({"sise": 1})), ".spec.sise: field not declared in schema");
    check(config(json!({"size": "1"})), ".spec.size: expected numeric (int or float), got a string");
    check(config(json!({"mode": 1})), ".spec.mode: expected string, got `1`");
    check(config(json!({"labels": []})), ".spec.labels: expected map, got a list");
    check(config(json!({"tags": {}})), ".spec.tags: expected list, got a map");
    check(
        config(json!({"tags": [null]})),
        "element 0: associative list without keys has an element that's an explicit null",
    );
    check(config(json!({"ports": [{"name": "x", "hosts": 1}]})), ".hosts: expected list");
}

#[test]
fn null_means_absent_unless_the_schema_allows_it() {
    let mut world = World::new();
    world.apply("a", json!({"size": null, "note": null, "labels": null, "mode": "x"}));
    assert_eq!(world.spec(), json!({"note": null, "mode": "x"}));
    let before = world.live().clone();
    world.apply("a", json!({"size": null, "note": null, "labels": null, "mode": "x"}));
    assert_eq!(*world.live(), before);
}

#[test]
fn an_object_without_owners_gets_one_before_the_first_apply() {
    let mut world = World::new();
    world.live = Some(config(json!({"size": 1, "mode": "x"})));
    assert_eq!(
        world.conflicts("a", json!({"size": 2})),
        [("before-first-apply".to_owned(), ".spec.size".to_owned())]
    );
    world.apply("a", json!({"size": 1}));
    assert_eq!(world.owned("before-first-apply"), json!({".": {}, "f:size": {}, "f:mode": {}}));
    assert_eq!(world.owned("a"), json!({"f:size": {}}));
}

#[test]
fn appliers_keep_their_entry_across_versions_and_subresources_are_apart() {
    let mut world = World::new();
    world.apply("a", json!({"size": 1}));
    let writer = Manager { name: "a", operation: Operation::Apply, api_version: "v2", subresource: "" };
    let mut second = config(json!({"mode": "x"}));
    second["apiVersion"] = json!("v2");
    let live = server_side_apply(&gadget(), world.live.as_mut(), &second, &writer, false, at(9)).unwrap();
    assert_eq!(live["spec"], json!({"mode": "x"}));
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["apiVersion"], "v2");

    let status = Manager { subresource: "status", ..writer };
    let applied =
        json!({"apiVersion": "v2", "kind": "Gadget", "metadata": {"name": "g"}, "status": {"phase": "Up"}});
    let live =
        server_side_apply(&gadget(), Some(&mut live.clone()), &applied, &status, false, at(10)).unwrap();
    let entries = live["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1]["subresource"], "status");
    assert_eq!(entries[1]["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

#[test]
fn kubectl_moves_from_client_side_to_server_side_without_conflict() {
    let mut last = config(json!({"size": 1, "mode": "x"}));
    last["metadata"]["annotations"] = json!({});
    let mut world = World::new();
    world.update("kubectl-client-side-apply", |live| {
        live["spec"] = json!({"size": 1, "mode": "x"});
        live["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    });
    // Another manager conflicts, kubectl does not.
    assert_eq!(world.conflicts("argo", json!({"size": 2})).len(), 1);
    world.apply("kubectl", json!({"size": 2, "mode": "x"}));
    assert_eq!(world.spec(), json!({"size": 2, "mode": "x"}));
    let annotation =
        &world.live()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    let annotation: Value = serde_json::from_str(annotation.as_str().unwrap()).unwrap();
    assert_eq!(annotation, config(json!({"size": 2, "mode": "x"})));
    // What somebody else changed since is still a conflict.
    world.update("edit", |live| live["spec"]["size"] = json!(9));
    assert_eq!(
        world.conflicts("kubectl", json!({"size": 3})),
        [("edit".to_owned(), ".spec.size".to_owned())]
    );
}

fn deployment() -> (std::sync::Arc<Schema>, Value) {
    let schema = builtin::schema("apps", "v1", "Deployment").unwrap();
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%"}, "type": "RollingUpdate"},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i:1", "ports": [{"containerPort": 80}], "resources": {}}]},
            },
        },
    });
    (schema, object)
}

#[test]
fn a_created_deployment_is_owned_as_on_a_real_server() {
    let (schema, mut object) = deployment();
    let writer = Manager {
        name: "kubectl-create",
        operation: Operation::Update,
        api_version: "apps/v1",
        subresource: "",
    };
    track_update(&schema, None, &mut object, &writer, at(0));
    assert_eq!(
        object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
                        "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                    }}},
                },
            },
        })
    );
}

#[test]
fn built_in_lists_merge_by_their_keys_with_defaults() {
    let (schema, object) = deployment();
    let writer = Manager { name: "a", operation: Operation::Apply, api_version: "apps/v1", subresource: "" };
    let live = server_side_apply(&schema, None, &object, &writer, false, at(0)).unwrap();
    let second = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]},
            {"name": "sidecar", "image": "s"},
        ]}}},
    });
    let other = Manager { name: "b", ..writer };
    let live = server_side_apply(&schema, Some(&mut live.clone()), &second, &other, false, at(1)).unwrap();
    let containers = &live["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().unwrap().len(), 2);
    assert_eq!(containers[0]["ports"], json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}]));
    assert_eq!(containers[0]["image"], "i:1");
    let third = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}},
    });
    let error =
        server_side_apply(&schema, Some(&mut live.clone()), &third, &other, false, at(2)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.template.spec.containers[name=\"c\"].image"
    );
}

#[test]
fn lists_of_ten_thousand_items_merge_in_time() {
    let spec = |from: usize, to: usize| {
        let ports: Vec<Value> =
            (from..to).map(|port| json!({"port": port, "name": port.to_string()})).collect();
        json!({"ports": ports})
    };
    let mut world = World::new();
    world.apply("a", spec(0, 10_000));
    world.apply("b", spec(5_000, 15_000));
    world.apply("a", spec(0, 1));
    assert_eq!(world.spec()["ports"].as_array().unwrap().len(), 10_001);
}
