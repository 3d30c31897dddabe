//! Lists: order, selectors, pages, versions.

use serde_json::{Value, json};

use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};
use crate::status::Status;
use crate::watch::Limits;

const ALL: &str = "/api/v1/configmaps";

fn filled() -> World {
    let mut world = World::new();
    for namespace in ["a", "a-b"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        world.ok("POST /api/v1/namespaces", body);
    }
    for (namespace, name, labels) in [
        ("default", "one", json!({"tier": "web", "n": "1"})),
        ("default", "two", json!({"tier": "db", "n": "2"})),
        ("a", "three", json!({"tier": "web"})),
        ("a-b", "four", json!({})),
    ] {
        let mut body = config_map(name);
        body["metadata"]["labels"] = labels;
        world.ok(&format!("POST /api/v1/namespaces/{namespace}/configmaps"), body);
    }
    world
}

#[test]
fn lists_are_ordered_by_key_and_filtered() {
    let world = filled();
    let check = |query: &str, expected: &[&str]| {
        let names = world.names(&format!("{ALL}?{query}"));
        assert_eq!(names, expected, "{query}");
    };
    check("", &["a-b/four", "a/three", "default/one", "default/two"]);
    check("labelSelector=tier=web", &["a/three", "default/one"]);
    check("labelSelector=tier==db", &["default/two"]);
    check("labelSelector=tier!=web", &["a-b/four", "default/two"]);
    check("labelSelector=tier in (web, db),n", &["default/one", "default/two"]);
    check("labelSelector=tier notin (web)", &["a-b/four", "default/two"]);
    check("labelSelector=!tier", &["a-b/four"]);
    check("labelSelector=tier", &["a/three", "default/one", "default/two"]);
    check("labelSelector=n>1", &["default/two"]);
    check("fieldSelector=metadata.name=one", &["default/one"]);
    check("fieldSelector=metadata.namespace!=default", &["a-b/four", "a/three"]);
    check("fieldSelector=metadata.namespace=a", &["a/three"]);
    assert_eq!(world.names(CM), ["default/one", "default/two"]);
    assert_eq!(world.names("/api/v1/namespaces/a/configmaps"), ["a/three"]);
}

#[test]
fn field_selectors_per_kind() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    for (name, color) in [("r", "red"), ("g", "green")] {
        world.ok(&format!("POST {WIDGETS}"), widget(name, json!({"color": color})));
    }
    assert_eq!(world.names(&format!("{WIDGETS}?fieldSelector=spec.color=red")), ["default/r"]);
    assert_eq!(world.names("/api/v1/namespaces?fieldSelector=status.phase=Active").len(), 4);
    let events = "/api/v1/namespaces/default/events";
    let event = |name: &str, component: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": "Normal", "reason": "R",
               "involvedObject": {"kind": "Widget", "name": "r", "namespace": "default"}, "source": {"component": component}})
    };
    world.ok(&format!("POST {events}"), event("e1", "x"));
    world.ok(&format!("POST {events}"), event("e2", "y"));
    let query = "fieldSelector=involvedObject.kind=Widget,source=y,type=Normal";
    assert_eq!(world.names(&format!("{events}?{query}")), ["default/e2"]);
    let check = |path: &str, message: &str| {
        let status = world.list(path).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, message));
    };
    check(&format!("{WIDGETS}?fieldSelector=spec.size=1"), "field label not supported: spec.size");
    check(&format!("{events}?fieldSelector=message=1"), "field label not supported: message");
    check(
        &format!("{CM}?fieldSelector=data.k=v"),
        "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    );
    check(&format!("{CM}?fieldSelector=what"), "invalid selector: 'what'; can't understand 'what'");
}

/// All names over pages of `limit`, with the page sizes.
fn pages(world: &World, path: &str, limit: usize) -> Result<(Vec<String>, Vec<usize>), Status> {
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    let mut token = String::new();
    loop {
        let (page, metadata) = world.list(&format!("{path}?limit={limit}&continue={token}"))?;
        sizes.push(page.len());
        names.extend(page);
        token = metadata["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Ok((names, sizes));
        }
    }
}

#[test]
fn pages_cover_the_list() {
    let world = filled();
    for (limit, expected) in
        [(1, vec![1, 1, 1, 1]), (2, vec![2, 2]), (3, vec![3, 1]), (4, vec![4]), (9, vec![4])]
    {
        let (names, sizes) = pages(&world, ALL, limit).unwrap();
        assert_eq!((names, sizes), (world.names(ALL), expected));
    }
    let (_, metadata) = world.list(&format!("{ALL}?limit=1")).unwrap();
    assert_eq!(metadata["remainingItemCount"], 3);
    let (_, metadata) = world.list(&format!("{ALL}?limit=1&labelSelector=tier")).unwrap();
    assert!(metadata.get("remainingItemCount").is_none());
}

#[test]
fn later_pages_show_the_snapshot_of_the_first() {
    let mut world = filled();
    let before = world.names(ALL);
    let (first, metadata) = world.list(&format!("{ALL}?limit=2")).unwrap();
    let token = metadata["continue"].as_str().unwrap().to_owned();
    world.ok(&format!("POST {CM}"), config_map("late"));
    world.ok(&format!("DELETE {CM}/two"), Value::Null);
    world.ok(&format!("DELETE {CM}/one"), Value::Null);
    world.ok(&format!("POST {CM}"), config_map("one"));
    let (second, page) = world.list(&format!("{ALL}?limit=9&continue={token}")).unwrap();
    assert_eq!([first, second].concat(), before);
    assert_eq!(page["resourceVersion"], metadata["resourceVersion"]);
    let rv = metadata["resourceVersion"].as_str().unwrap();
    let exact = format!("{ALL}?resourceVersion={rv}&resourceVersionMatch=Exact");
    assert_eq!(world.names(&exact), before);
    let newest = format!("{ALL}?resourceVersion={rv}&resourceVersionMatch=NotOlderThan");
    assert_eq!(world.names(&newest), world.names(ALL));
}

#[test]
fn expired_tokens_offer_an_inconsistent_one() {
    let mut world = World::with_limits(Limits { changes: 3, bytes: 1 << 20 });
    for name in ["a", "b", "c", "d"] {
        world.ok(&format!("POST {CM}"), config_map(name));
    }
    let (_, metadata) = world.list(&format!("{CM}?limit=2")).unwrap();
    for name in ["e", "f", "g", "h"] {
        world.ok(&format!("POST {CM}"), config_map(name));
    }
    let token = metadata["continue"].as_str().unwrap();
    let status = world.list(&format!("{CM}?continue={token}")).unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.starts_with("The provided continue parameter is too old"));
    let body = status.to_json();
    let fresh = body["metadata"]["continue"].as_str().unwrap();
    let rest = world.names(&format!("{CM}?continue={fresh}"));
    assert_eq!(rest, ["c", "d", "e", "f", "g", "h"].map(|n| format!("default/{n}")));
    let rv = metadata["resourceVersion"].as_str().unwrap();
    let status = world.list(&format!("{CM}?resourceVersion={rv}&resourceVersionMatch=Exact")).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (410, "The resourceVersion for the provided list is too old.")
    );
}

#[test]
fn list_options_that_are_refused() {
    let world = filled();
    let now = world.model.resource_version();
    let check = |query: &str, code: u16, message: &str| {
        let status = world.list(&format!("{CM}?{query}")).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (code, message), "{query}");
    };
    let options = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: ";
    check(
        "resourceVersionMatch=Exact",
        422,
        &format!("{options}Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
    );
    check(
        "resourceVersionMatch=Exact&resourceVersion=0",
        422,
        &format!("{options}Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""),
    );
    check(
        "resourceVersionMatch=Odd&resourceVersion=1",
        422,
        &format!("{options}Unsupported value: \"Odd\": supported values: \"Exact\", \"NotOlderThan\", \"\""),
    );
    check(
        "resourceVersion=x",
        400,
        "invalid resource version: resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
    );
    check(
        "resourceVersion=99999",
        504,
        &format!("Timeout: Too large resource version: 99999, current: {now}"),
    );
    check("labelSelector=a=b=c", 400, "found '=', expected: ',' or 'end of string'");
    check(
        "continue=%%%",
        400,
        "invalid continue token: continue key is not valid: Invalid symbol 37, offset 0.",
    );
}

#[test]
fn events_have_two_doors() {
    let mut world = World::new();
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let core = "/api/v1/namespaces/default/events";
    let body = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": {"kind": "Widget", "name": "w"}, "note": "hello", "reportingController": "c", "type": "Normal",
    });
    let made = world.ok(&format!("POST {new}"), body);
    assert_eq!((&made["apiVersion"], &made["note"]), (&json!("events.k8s.io/v1"), &json!("hello")));
    let seen = world.must(&format!("{core}/e"));
    assert_eq!((&seen["apiVersion"], &seen["message"]), (&json!("v1"), &json!("hello")));
    assert_eq!(seen["involvedObject"], json!({"kind": "Widget", "name": "w"}));
    let patched = world.ok(&format!("MERGE {new}/e"), json!({"note": "again"}));
    assert_eq!(patched["note"], "again");
    world.ok(&format!("JSON {new}/e"), json!([{"op": "replace", "path": "/regarding/name", "value": "x"}]));
    assert_eq!(world.names(&format!("{new}?fieldSelector=regarding.name=x")), ["default/e"]);
    assert_eq!(world.names(&format!("{core}?fieldSelector=involvedObject.name=x")), ["default/e"]);
    let start = crate::watch::Cursor(world.model.resource_version());
    world.ok(&format!("DELETE {core}/e"), Value::Null);
    let (events, _) = world.model.log().since("events.events.k8s.io", start, &Default::default(), 9).unwrap();
    let line = crate::watch::event_line(&events[0], "events.k8s.io/v1");
    let parsed: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!((&parsed["type"], &parsed["object"]["note"]), (&json!("DELETED"), &json!("again")));
    assert_eq!(world.get(&format!("{new}/e")), None);
}
