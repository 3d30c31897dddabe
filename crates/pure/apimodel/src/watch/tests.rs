//! The watch log.

use serde_json::{Value, json};

use super::{Cursor, Filter, Limits, bookmark, event_line};
use crate::harness::{CM, CRDS, WIDGETS, World, config_map, widget, widget_crd};
use crate::selector::{LabelSelector, Selectors};

fn filter(namespace: &str, labels: &str) -> Filter {
    let labels = LabelSelector::parse(labels).unwrap();
    Filter { namespace: namespace.into(), selectors: Selectors { labels, ..Selectors::default() } }
}

fn labelled(name: &str, tier: &str) -> Value {
    let mut body = config_map(name);
    body["metadata"]["labels"] = json!({"tier": tier});
    body
}

/// The events after `from` as `TYPE name version`.
fn events(world: &World, from: u64, filter: &Filter) -> Vec<String> {
    let (events, cursor) = world.model.log().since("configmaps", Cursor(from), filter, 100).unwrap();
    assert_eq!(cursor.0, world.model.resource_version());
    let show = |e: &super::Event| {
        format!("{} {} {}", e.kind.as_str(), e.object.name(), e.object.resource_version() - from)
    };
    events.iter().map(show).collect()
}

#[test]
fn events_are_seen_through_selectors() {
    let mut world = World::new();
    let start = world.model.resource_version();
    world.ok(&format!("POST {CM}"), labelled("a", "web"));
    world.ok(&format!("MERGE {CM}/a"), json!({"data": {"k": "w"}}));
    world.ok(&format!("MERGE {CM}/a"), json!({"metadata": {"labels": {"tier": "db"}}}));
    world.ok(&format!("MERGE {CM}/a"), json!({"metadata": {"labels": {"tier": "web"}}}));
    world.ok(&format!("DELETE {CM}/a"), Value::Null);
    let check = |filter: Filter, expected: &[&str]| assert_eq!(events(&world, start, &filter), expected);
    check(filter("", ""), &["ADDED a 1", "MODIFIED a 2", "MODIFIED a 3", "MODIFIED a 4", "DELETED a 5"]);
    check(filter("", "tier=web"), &["ADDED a 1", "MODIFIED a 2", "DELETED a 3", "ADDED a 4", "DELETED a 5"]);
    check(filter("", "tier=db"), &["ADDED a 3", "DELETED a 4"]);
    check(filter("default", "tier=db"), &["ADDED a 3", "DELETED a 4"]);
    check(filter("kube-system", ""), &[]);
}

#[test]
fn a_departed_object_is_shown_as_it_was() {
    let mut world = World::new();
    let start = world.model.resource_version();
    world.ok(&format!("POST {CM}"), labelled("a", "web"));
    world.ok(&format!("MERGE {CM}/a"), json!({"metadata": {"labels": {"tier": "db"}}}));
    let (events, _) =
        world.model.log().since("configmaps", Cursor(start), &filter("", "tier=web"), 9).unwrap();
    assert_eq!(events[1].object.labels().get("tier"), Some("web"));
    assert_eq!(events[1].object.resource_version(), events[1].rv);
}

#[test]
fn pulling_goes_on_where_it_stopped() {
    let mut world = World::new();
    let mut cursor = Cursor(world.model.resource_version());
    for name in ["a", "b", "c"] {
        world.ok(&format!("POST {CM}"), config_map(name));
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (events, next) = world.model.log().since("configmaps", cursor, &filter("", ""), 1).unwrap();
        cursor = next;
        seen.extend(events.iter().map(|e| e.object.name().to_owned()));
    }
    assert_eq!(seen, ["a", "b", "c"]);
}

#[test]
fn the_window_is_bounded_and_says_so() {
    let mut world = World::with_limits(Limits { changes: 4, bytes: 1 << 20 });
    let start = world.model.resource_version();
    for n in 0..10 {
        world.ok(&format!("POST {CM}"), config_map(&format!("c{n}")));
    }
    assert_eq!(world.model.log().len(), 4);
    let log = world.model.log();
    let status = log.since("configmaps", Cursor(start), &filter("", ""), 9).unwrap_err();
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert_eq!(status.message, format!("too old resource version: {start} ({})", start + 6));
    assert!(log.since("configmaps", Cursor(start + 6), &filter("", ""), 9).is_ok());
    assert!(
        log.since("secrets", Cursor(start), &filter("", ""), 9).is_ok(),
        "a quiet resource stays watchable"
    );
    let future = log.since("configmaps", Cursor(start + 99), &filter("", ""), 9).unwrap_err();
    assert_eq!((future.code, future.reason.as_str()), (504, "Timeout"));
    assert_eq!(
        future.message,
        format!("Timeout: Too large resource version: {}, current: {}", start + 99, start + 10)
    );
}

#[test]
fn bytes_bound_the_window_too() {
    let mut world = World::with_limits(Limits { changes: 1000, bytes: 20_000 });
    for n in 0..50 {
        let mut body = config_map(&format!("c{n}"));
        body["data"]["k"] = json!("x".repeat(2000));
        world.ok(&format!("POST {CM}"), body);
    }
    assert!(world.model.log().len() < 12, "{}", world.model.log().len());
}

#[test]
fn lines_carry_the_version_that_was_asked_for() {
    let mut world = World::new();
    world.ok(&format!("POST {CRDS}"), widget_crd());
    let start = world.model.resource_version();
    world.ok(&format!("POST {WIDGETS}"), widget("w", json!({})));
    let (events, _) =
        world.model.log().since("widgets.example.com", Cursor(start), &filter("", ""), 9).unwrap();
    for version in ["example.com/v1", "example.com/v1beta1"] {
        let line = event_line(&events[0], version);
        assert_eq!(line.last(), Some(&b'\n'));
        let parsed: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&parsed["type"], &parsed["object"]["apiVersion"]), (&json!("ADDED"), &json!(version)));
        assert_eq!(parsed["object"]["metadata"]["name"], "w");
    }
}

#[test]
fn bookmarks() {
    let plain = bookmark("v1", "ConfigMap", 7, false);
    assert_eq!(
        plain,
        json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1",
               "metadata": {"resourceVersion": "7"}}})
    );
    let end = bookmark("v1", "ConfigMap", 7, true);
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
}
