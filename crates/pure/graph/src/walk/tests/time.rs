//! Wake-ups: exact where an expression looks at the clock, none where it does not.

use jiff::SignedDuration;
use serde_json::json;

use super::world::{Story, at};

const SOAK: &str = "
- id: a
  propagateWhen: ['${now() - timestamp(a.status.since) >= duration(\"30m\")}']
  template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}
- {id: b, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: b}, spec: {n: '${a.metadata.name}'}}}
";

#[test]
fn a_soak_time_opens_exactly_when_it_is_over() {
    let mut story = Story::new(SOAK);
    story.run();
    assert_eq!(story.wake, None, "without a start there is nothing to wait for");
    story.set("a", "/status/since", json!("2026-04-09T11:45:00Z")).run();
    assert_eq!(story.wake, Some(at("2026-04-09T12:15:00Z")));
    let wait = story.walker.report("b").unwrap().waits[0].clone();
    assert_eq!(wait.until, Some(at("2026-04-09T12:15:00Z")));
    story.writes();
    story.pass(14 * 60 + 59);
    assert_eq!(story.writes(), "");
    story.pass(1);
    assert_eq!(story.writes(), "apply b");
    assert_eq!(story.wake, None);
}

#[test]
fn calendar_expressions_wake_at_their_boundary() {
    let nodes = "
- {id: day, def: {weekend: '${now().getDayOfWeek() in [0, 6]}'}}
- {id: a, includeWhen: ['${!day.weekend}'], template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}}
";
    let mut story = Story::new(nodes);
    story.run();
    // 9 April 2026 is a Thursday.
    assert_eq!(story.wake, Some(at("2026-04-11T00:00:00Z")));
    assert_eq!(story.states(), "day=Ready a=Ready");
    story.pass(2 * 86400);
    assert_eq!(story.states(), "day=Ready a=Excluded");
    assert_eq!(story.writes(), "apply a, delete a");
    assert_eq!(story.wake, Some(at("2026-04-13T00:00:00Z")));
}

#[test]
fn recheck_after_looks_again() {
    let nodes =
        "- {id: a, recheckAfter: 5m, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}}";
    let mut story = Story::new(nodes);
    story.run();
    assert_eq!(story.wake, Some(story.now + SignedDuration::from_secs(300)));
    story.pass(1000);
    assert_eq!(story.writes(), "apply a");
    assert_eq!(story.wake, Some(story.now + SignedDuration::from_secs(200)));
}

#[test]
fn a_steady_graph_never_wakes() {
    let nodes = SOAK
        .replace("propagateWhen", "readyWhen")
        .replace("now() - timestamp(a.status.since) >= duration(\"30m\")", "has(a.status)");
    let mut story = Story::new(&nodes);
    story.run();
    assert_eq!(story.wake, None);
}

#[test]
fn a_value_that_moves_with_the_clock_does_not_spin() {
    let nodes = "- {id: a, def: {t: '${string(now())}'}}";
    let mut story = Story::new(nodes);
    story.run();
    assert!(
        story.wake.unwrap().duration_since(story.now) >= SignedDuration::from_millis(1),
        "{:?}",
        story.wake
    );
}
