//! What holds after any sequence of requests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{World, config_map};
use crate::watch::{Cursor, EventKind, Filter, Limits};

/// One random step, about one of a few names in two namespaces.
#[derive(Clone, Debug)]
enum Step {
    Create { name: usize, tier: usize, owner: Option<usize>, hold: bool },
    Replace { name: usize, value: u8, stale: bool },
    Label { name: usize, tier: usize },
    Apply { name: usize, value: u8, manager: usize },
    Release { name: usize },
    Delete { name: usize, policy: usize },
    DeleteAll { tier: usize },
    DryRun { name: usize },
    Housekeeping,
}

const NAMES: usize = 6;

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES;
    prop_oneof![
        4 => (name.clone(), 0..3_usize, proptest::option::of(0..NAMES), any::<bool>())
            .prop_map(|(name, tier, owner, hold)| Step::Create { name, tier, owner, hold: hold && tier == 0 }),
        2 => (name.clone(), any::<u8>(), any::<bool>()).prop_map(|(name, value, stale)| Step::Replace { name, value, stale }),
        2 => (name.clone(), 0..3_usize).prop_map(|(name, tier)| Step::Label { name, tier }),
        2 => (name.clone(), 0..2_u8, 0..2_usize).prop_map(|(name, value, manager)| Step::Apply { name, value, manager }),
        2 => name.clone().prop_map(|name| Step::Release { name }),
        3 => (name.clone(), 0..4_usize).prop_map(|(name, policy)| Step::Delete { name, policy }),
        1 => (0..3_usize).prop_map(|tier| Step::DeleteAll { tier }),
        1 => name.prop_map(|name| Step::DryRun { name }),
        2 => Just(Step::Housekeeping),
    ]
}

fn namespace(name: usize) -> &'static str {
    if name.is_multiple_of(2) { "default" } else { "kube-system" }
}

fn collection(name: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(name))
}

fn path(name: usize) -> String {
    format!("{}/c{name}", collection(name))
}

fn run(world: &mut World, step: &Step) -> Option<Value> {
    let answer = match step {
        Step::Create { name, tier, owner, hold } => {
            let mut body = config_map(&format!("c{name}"));
            body["metadata"]["labels"] = json!({"tier": tier.to_string()});
            if let Some(owner) = owner.and_then(|o| world.get(&path(o))) {
                let name = &owner["metadata"]["name"];
                body["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]);
            }
            if *hold {
                body["metadata"]["finalizers"] = json!(["example.com/hold"]);
            }
            world.send(&format!("POST {}", collection(*name)), body)
        }
        Step::Replace { name, value, stale } => {
            let mut body = world.get(&path(*name))?;
            body["data"] = json!({"k": value.to_string()});
            if *stale {
                body["metadata"]["resourceVersion"] = json!("1");
            }
            world.send(&format!("PUT {}", path(*name)), body)
        }
        Step::Label { name, tier } => world.send(
            &format!("MERGE {}", path(*name)),
            json!({"metadata": {"labels": {"tier": tier.to_string()}}}),
        ),
        Step::Apply { name, value, manager } => {
            let mut body = config_map(&format!("c{name}"));
            body["data"] = json!({"k": value.to_string()});
            world.send(&format!("APPLY {}?fieldManager=m{manager}", path(*name)), body)
        }
        Step::Release { name } => {
            world.send(&format!("MERGE {}", path(*name)), json!({"metadata": {"finalizers": null}}))
        }
        Step::Delete { name, policy } => {
            let policy = [
                "",
                "?propagationPolicy=Background",
                "?propagationPolicy=Foreground",
                "?propagationPolicy=Orphan",
            ][*policy];
            world.send(&format!("DELETE {}{policy}", path(*name)), Value::Null)
        }
        Step::DeleteAll { tier } => {
            world.send(&format!("DELETE {}?labelSelector=tier={tier}", collection(0)), Value::Null)
        }
        Step::DryRun { name } => {
            let before = world.model.resource_version();
            let answer = world.send(&format!("DELETE {}?dryRun=All", path(*name)), Value::Null);
            assert_eq!(world.model.resource_version(), before);
            answer
        }
        Step::Housekeeping => {
            world.run_housekeeping();
            return None;
        }
    };
    answer.ok()
}

/// The state as the list shows it.
fn state(world: &World) -> BTreeMap<String, Value> {
    let target =
        crate::model::Target { version: "v1".into(), resource: "configmaps".into(), ..Default::default() };
    let list = world.model.list(&target, &Default::default()).unwrap();
    list.items.iter().map(|o| (format!("{}/{}", o.namespace(), o.name()), o.value())).collect()
}

/// Plays the log from `from` on top of `state`.
fn replay(world: &World, from: u64, state: &mut BTreeMap<String, Value>) {
    let mut cursor = Cursor(from);
    loop {
        let (events, next) = world.model.log().since("configmaps", cursor, &Filter::default(), 3).unwrap();
        for event in &events {
            let key = format!("{}/{}", event.object.namespace(), event.object.name());
            match event.kind {
                EventKind::Added => assert!(state.insert(key, event.object.value()).is_none()),
                EventKind::Modified => assert!(state.insert(key, event.object.value()).is_some()),
                EventKind::Deleted => assert!(state.remove(&key).is_some()),
            }
        }
        if events.is_empty() {
            return;
        }
        cursor = next;
    }
}

fn check_sequence(steps: &[Step]) {
    let mut world = World::new();
    let mut snapshots = vec![(world.model.resource_version(), state(&world))];
    for step in steps {
        let answer = run(&mut world, step);
        if let (
            Step::Replace { name, .. } | Step::Label { name, .. } | Step::Apply { name, .. },
            Some(answer),
        ) = (step, answer)
        {
            let found = world.get(&path(*name));
            assert!(found.is_none_or(|found| found == answer), "a read shows the last write");
        }
        snapshots.push((world.model.resource_version(), state(&world)));
    }
    let versions: Vec<u64> = world.history.iter().map(|c| c.rv).collect();
    assert!(versions.windows(2).all(|w| w[0] < w[1]), "every change has a version of its own: {versions:?}");
    let end = state(&world);
    for (rv, snapshot) in &snapshots {
        let mut rebuilt = snapshot.clone();
        replay(&world, *rv, &mut rebuilt);
        assert_eq!(rebuilt, end, "the log from {rv} leads to the present");
        let exact =
            world.names(&format!("/api/v1/configmaps?resourceVersion={rv}&resourceVersionMatch=Exact"));
        assert_eq!(exact, snapshot.keys().cloned().collect::<Vec<String>>(), "the list of {rv}");
    }
    check_selection(&world, &end);
    world.run_housekeeping();
    check_owners(&world);
}

fn check_selection(world: &World, all: &BTreeMap<String, Value>) {
    for tier in ["0", "1", "2"] {
        let expected: Vec<String> = all
            .iter()
            .filter(|(_, o)| o["metadata"]["labels"]["tier"] == tier)
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(world.names(&format!("/api/v1/configmaps?labelSelector=tier={tier}")), expected);
    }
}

/// After housekeeping nothing is left whose owners are all gone, unless it is on its way out and held.
fn check_owners(world: &World) {
    let all = state(world);
    let alive = |namespace: &Value, reference: &Value| {
        all.values()
            .any(|o| o["metadata"]["uid"] == reference["uid"] && &o["metadata"]["namespace"] == namespace)
    };
    for (key, object) in &all {
        let Some(owners) = object["metadata"]["ownerReferences"].as_array() else { continue };
        let orphaned = !owners.iter().any(|r| alive(&object["metadata"]["namespace"], r));
        assert!(!orphaned || object["metadata"]["deletionTimestamp"].is_string(), "{key} has no owner left");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_requests_keeps_the_promises(steps in proptest::collection::vec(step(), 1..40)) {
        check_sequence(&steps);
    }

    #[test]
    fn pages_of_any_size_cover_any_snapshot(steps in proptest::collection::vec(step(), 1..20), limit in 1..5_usize) {
        let mut world = World::with_limits(Limits::default());
        for name in 0..NAMES {
            run(&mut world, &Step::Create { name, tier: 1, owner: None, hold: false });
        }
        let expected = world.names("/api/v1/configmaps");
        let mut seen: Vec<String> = Vec::new();
        let mut token = String::new();
        let mut steps = steps.iter();
        loop {
            let query = format!("/api/v1/configmaps?limit={limit}&continue={token}");
            let (page, metadata) = world.list(&query).unwrap();
            seen.extend(page);
            token = metadata["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
            for step in steps.by_ref().take(3) {
                run(&mut world, step);
            }
        }
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn any_json_is_answered(verb in 0..6_usize, path in 0..4_usize, body in arbitrary_json()) {
        let mut world = World::new();
        world.ok("POST /api/v1/namespaces/default/configmaps", config_map("a"));
        let path = [
            "/api/v1/namespaces/default/configmaps",
            "/api/v1/namespaces/default/secrets",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/apps/v1/namespaces/default/deployments",
        ][path];
        let verb = ["POST", "PUT", "MERGE", "JSON", "STRATEGIC", "APPLY"][verb];
        let name = if verb == "POST" { "" } else { "/a" };
        let _answer = world.send(&format!("{verb} {path}{name}?fieldManager=m"), body);
        world.run_housekeeping();
    }
}

/// JSON that uses the words the server looks for, in places where they do not belong.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("status"),
        Just("name"),
        Just("labels"),
        Just("finalizers"),
        Just("ownerReferences"),
        Just("versions"),
        Just("names"),
        Just("managedFields"),
        Just("data"),
        Just("template"),
        Just("selector"),
        Just("resourceVersion"),
        Just("op"),
        Just("path"),
        Just("value"),
        Just("stringData"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z./-]{0,6}".prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    });
    (tree, any::<bool>()).prop_map(|(mut value, named)| {
        if let (Value::Object(map), true) = (&mut value, named) {
            let metadata = map.entry("metadata").or_insert_with(|| json!({}));
            if let Value::Object(metadata) = metadata {
                metadata.insert("name".into(), "a".into());
            }
        }
        value
    })
}
