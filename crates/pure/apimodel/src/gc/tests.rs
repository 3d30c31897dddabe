//! Who goes when an owner goes.

use serde_json::{Value, json};

use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};

fn reference(owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
    })
}

fn owned(name: &str, owners: &[Value]) -> Value {
    let mut body = config_map(name);
    body["metadata"]["ownerReferences"] = owners.to_vec().into();
    body
}

/// A chain `top` → `middle` → `leaf` with and without finalizers on the leaf.
fn chain(world: &mut World, block: bool, hold: bool) {
    let top = world.ok(&format!("POST {CM}"), config_map("top"));
    let middle = world.ok(&format!("POST {CM}"), owned("middle", &[reference(&top, block)]));
    let mut leaf = owned("leaf", &[reference(&middle, block)]);
    if hold {
        leaf["metadata"]["finalizers"] = json!(["example.com/hold"]);
    }
    world.ok(&format!("POST {CM}"), leaf);
    world.run_housekeeping();
    assert_eq!(world.names(CM).len(), 3);
}

#[test]
fn background_deletion_cascades() {
    let mut world = World::new();
    chain(&mut world, true, false);
    world.ok(&format!("DELETE {CM}/top?propagationPolicy=Background"), Value::Null);
    assert_eq!(world.names(CM), ["default/leaf", "default/middle"], "the owner goes at once");
    world.run_housekeeping();
    assert!(world.names(CM).is_empty());
}

#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    let mut world = World::new();
    chain(&mut world, true, true);
    let answer = world.ok(&format!("DELETE {CM}/top?propagationPolicy=Foreground"), Value::Null);
    assert_eq!(answer["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    world.run_housekeeping();
    assert_eq!(world.names(CM).len(), 3, "the held leaf holds the whole chain");
    for name in ["top", "middle", "leaf"] {
        assert!(world.must(&format!("{CM}/{name}"))["metadata"]["deletionTimestamp"].is_string(), "{name}");
    }
    world.ok(&format!("MERGE {CM}/leaf"), json!({"metadata": {"finalizers": null}}));
    world.run_housekeeping();
    assert!(world.names(CM).is_empty());
    let gone: Vec<&str> =
        world.history.iter().filter(|c| c.new.is_none()).map(|c| c.key.name.as_str()).collect();
    assert_eq!(gone, ["leaf", "middle", "top"], "dependents first");
}

#[test]
fn foreground_deletion_does_not_wait_for_the_others() {
    let mut world = World::new();
    chain(&mut world, false, true);
    world.ok(&format!("DELETE {CM}/top?propagationPolicy=Foreground"), Value::Null);
    world.run_housekeeping();
    assert_eq!(world.names(CM), ["default/leaf"], "only the held leaf is left");
}

#[test]
fn orphans_lose_the_reference_and_stay() {
    let mut world = World::new();
    chain(&mut world, true, false);
    let answer = world.ok(&format!("DELETE {CM}/top?propagationPolicy=Orphan"), Value::Null);
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
    world.run_housekeeping();
    assert_eq!(world.names(CM), ["default/leaf", "default/middle"]);
    assert!(world.must(&format!("{CM}/middle"))["metadata"].get("ownerReferences").is_none());
    assert_eq!(world.must(&format!("{CM}/leaf"))["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    world.ok(&format!("POST {CM}"), config_map("old-style"));
    let answer = world.ok(&format!("DELETE {CM}/old-style"), json!({"orphanDependents": true}));
    assert_eq!(answer["metadata"]["finalizers"], json!(["orphan"]));
}

#[test]
fn an_object_lives_while_one_owner_does() {
    let mut world = World::new();
    let one = world.ok(&format!("POST {CM}"), config_map("one"));
    let two = world.ok(&format!("POST {CM}"), config_map("two"));
    world.ok(&format!("POST {CM}"), owned("child", &[reference(&one, false), reference(&two, false)]));
    world.ok(&format!("DELETE {CM}/one"), Value::Null);
    world.run_housekeeping();
    let child = world.must(&format!("{CM}/child"));
    assert_eq!(
        child["metadata"]["ownerReferences"],
        json!([reference(&two, false)]),
        "the dangling one is dropped"
    );
    world.ok(&format!("DELETE {CM}/two"), Value::Null);
    world.run_housekeeping();
    assert!(world.names(CM).is_empty());
}

#[test]
fn owners_are_known_by_uid_and_place() {
    let mut world = World::new();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    let namespace = world.ok("POST /api/v1/namespaces", body);
    let owner = world.ok(&format!("POST {CM}"), config_map("owner"));
    let mut impostor = reference(&owner, false);
    impostor["uid"] = json!("another-uid");
    let unserved = json!({"apiVersion": "nowhere.io/v1", "kind": "Ghost", "name": "g", "uid": "u"});
    let other = "/api/v1/namespaces/other/configmaps";
    world.ok(&format!("POST {CM}"), owned("recreated-owner", &[impostor]));
    world.ok(&format!("POST {CM}"), owned("unserved-owner", &[unserved]));
    world.ok(&format!("POST {CM}"), owned("cluster-owner", &[reference(&namespace, false)]));
    world.ok(&format!("POST {other}"), owned("cross-namespace", &[reference(&owner, false)]));
    let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "c"}});
    role["metadata"]["ownerReferences"] = json!([reference(&owner, false)]);
    world.ok("POST /apis/rbac.authorization.k8s.io/v1/clusterroles", role);
    world.run_housekeeping();
    assert_eq!(world.names(CM), ["default/cluster-owner", "default/owner", "default/unserved-owner"]);
    assert!(world.names(other).is_empty(), "a reference across namespaces leads nowhere");
    world.ok(&format!("DELETE {CM}/owner"), Value::Null);
    world.run_housekeeping();
    let roles = world.names("/apis/rbac.authorization.k8s.io/v1/clusterroles");
    assert_eq!(roles, ["c"], "a namespaced owner of a cluster-scoped object cannot be judged");
}

#[test]
fn custom_resources_own_and_are_owned() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let top = world.ok(&format!("POST {WIDGETS}"), widget("top", json!({})));
    let mut beta = reference(&top, true);
    beta["apiVersion"] = json!("example.com/v1beta1");
    world.ok(&format!("POST {CM}"), owned("child", &[beta]));
    world.run_housekeeping();
    assert_eq!(world.names(CM), ["default/child"], "any served version names the owner");
    world.ok(&format!("DELETE {WIDGETS}/top"), Value::Null);
    world.run_housekeeping();
    assert!(world.names(CM).is_empty());
}

#[test]
fn a_new_collector_finds_what_was_left_undone() {
    let mut world = World::new();
    chain(&mut world, true, false);
    world.ok(&format!("DELETE {CM}/top"), Value::Null);
    world.collector = super::Collector::new(&world.model);
    world.run_housekeeping();
    assert!(world.names(CM).is_empty());
}
