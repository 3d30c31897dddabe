//! Writes that fail: who is blocked, who goes on, and when it is tried again.

use jiff::SignedDuration;
use serde_json::json;

use super::world::Story;
use crate::{NodeState, Outcome};

const NODES: &str = "
- {id: a, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: a}, spec: {x: 1}}}
- {id: b, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: b}, spec: {n: '${a.metadata.name}'}}}
- {id: c, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: c}, spec: {x: 1}}}
";

fn failing(outcome: Outcome) -> Story {
    let mut story = Story::new(NODES);
    story.world.answers.insert("a".to_owned(), outcome);
    story.run();
    story
}

/// One failing node: what states follow, after which delay it is tried again.
fn check(outcome: Outcome, states: &str, delay: Option<i64>) {
    let mut story = failing(outcome);
    assert_eq!(story.states(), states);
    assert_eq!(story.writes(), "apply a, apply c");
    let due = delay.map(|seconds| story.now + SignedDuration::from_secs(seconds));
    assert_eq!(story.wake, due);
    story.world.answers.clear();
    if let Some(seconds) = delay {
        story.pass(seconds);
        assert_eq!(story.states(), "a=Ready b=Ready c=Ready");
        assert_eq!(story.writes(), "apply a, apply b");
    }
}

#[test]
fn a_failure_blocks_only_its_dependents() {
    check(Outcome::Fault("503".to_owned()), "a=SystemError b=Blocked c=Ready", Some(1));
    check(Outcome::Gone, "a=SystemError b=Blocked c=Ready", Some(1));
    check(Outcome::Conflict("field spec.x".to_owned()), "a=Conflict b=Blocked c=Ready", Some(60));
    check(Outcome::Refused("spec.x is invalid".to_owned()), "a=Error b=Blocked c=Ready", None);
}

#[test]
fn the_message_of_the_server_is_shown() {
    let story = failing(Outcome::Refused("spec.x is invalid".to_owned()));
    assert_eq!(story.walker.report("a").unwrap().message, "spec.x is invalid");
    assert_eq!(story.walker.report("b").unwrap().message, "`a` is Error");
    assert_eq!(story.walker.worst(), Some(NodeState::Error));
}

#[test]
fn faults_are_tried_again_with_growing_delay() {
    let mut story = failing(Outcome::Fault("no route".to_owned()));
    let mut delays = Vec::new();
    for _ in 0..12 {
        let wake = story.wake.unwrap();
        delays.push(wake.duration_since(story.now).as_secs());
        story.now = wake;
        story.run();
    }
    assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    story.world.answers.clear();
    story.pass(300);
    assert_eq!(story.states(), "a=Ready b=Ready c=Ready");
}

#[test]
fn what_was_refused_is_tried_again_when_the_object_or_the_text_changes() {
    let mut story = failing(Outcome::Refused("immutable".to_owned()));
    story.writes();
    story.pass(3600);
    assert_eq!(story.writes(), "");
    story.put("{apiVersion: test.io/v1, kind: Thing, metadata: {name: a}}").run();
    assert_eq!(story.writes(), "apply a");
    story.world.answers.clear();
    story.revise(&NODES.replace("spec: {x: 1}", "spec: {x: 2}")).run();
    assert_eq!(story.states(), "a=Ready b=Ready c=Ready");
}

#[test]
fn a_failed_update_leaves_the_object_and_blocks_dependents() {
    let mut story = Story::new(NODES);
    story.run();
    story.writes();
    story.world.answers.insert("a".to_owned(), Outcome::Conflict("kubectl owns spec.x".to_owned()));
    story.set("a", "/spec/x", json!(9)).run();
    assert_eq!(story.states(), "a=Conflict b=Blocked c=Ready");
    assert_eq!(story.object("b")["spec"]["n"], json!("a"));
    // Whoever took the field gives it back: nothing is left to do.
    story.set("a", "/spec/x", json!(1)).run();
    assert_eq!(story.states(), "a=Ready b=Ready c=Ready");
}

#[test]
fn a_recorded_failure_is_due_at_once() {
    let mut story = Story::new(NODES);
    let step = story.step();
    for action in &step.actions {
        story.walker.record(action, Outcome::Fault("503".to_owned()), story.now);
    }
    assert_eq!(story.walker.wake(), Some(story.now));
    story.step();
    assert_eq!(story.walker.wake(), Some(story.now + SignedDuration::from_secs(1)));
}

#[test]
fn an_answered_write_that_is_not_seen_is_missed_after_a_while() {
    let mut story = Story::new(NODES);
    let step = story.step();
    for action in &step.actions {
        story.perform(action);
    }
    let id = story.find("a").unwrap();
    story.world.reap(&id);
    assert_eq!(story.step().actions, vec![]);
    story.pass(15);
    assert_eq!(story.states(), "a=Ready b=Ready c=Ready");
}

#[test]
fn a_stale_cache_causes_no_second_write() {
    let mut story = Story::new(NODES);
    let before = story.world.clone();
    let step = story.step();
    for action in &step.actions {
        story.perform(action);
    }
    // The caches have not caught up yet.
    let step = story.walker.step(&crate::Changed::All, &before, story.now);
    assert_eq!(step.actions, vec![]);
    story.run();
    assert_eq!(story.writes(), "apply a, apply c, apply b");
}

#[test]
fn a_failed_removal_is_tried_again() {
    let mut story = Story::new(NODES);
    story.run();
    story.writes();
    story.world.answers.insert("b".to_owned(), Outcome::Refused("a webhook says no".to_owned()));
    story.revise("[]").run();
    assert_eq!(story.writes(), "delete b");
    assert!(story.walker.removing()[0].detail.contains("a webhook says no"), "{:?}", story.walker.removing());
    story.world.answers.clear();
    story.pass(1);
    assert_eq!(story.writes(), "delete b, delete a, delete c");
}
