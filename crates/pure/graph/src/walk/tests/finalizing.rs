//! Nodes that run before another one goes.

use serde_json::json;

use super::world::Story;
use crate::WaitReason;

const NODES: &str = "
- {id: flags, ref: {apiVersion: test.io/v1, kind: Flags, metadata: {name: flags}}}
- id: db
  includeWhen: ['${flags.spec.on}']
  template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: db}, spec: {x: 1}}
- id: backup
  finalizes: db
  readyWhen: ['${backup.status.done}']
  template: {apiVersion: test.io/v1, kind: Job, metadata: {name: backup}, spec: {of: '${db.metadata.name}', kind: '${flags.kind}'}}
";

fn running() -> Story {
    let mut story = Story::new(NODES);
    story.put("{apiVersion: test.io/v1, kind: Flags, metadata: {name: flags}, spec: {on: true}}");
    story.expect("flags=Ready db=Ready backup=Excluded", "apply db");
    story
}

#[test]
fn runs_before_its_target_is_pruned_and_goes_after_it() {
    let mut story = running();
    story.set("flags", "/spec/on", json!(false)).run();
    assert_eq!(story.writes(), "apply backup");
    assert_eq!(story.object("backup")["spec"], json!({ "of": "db", "kind": "Flags" }));
    assert_eq!(story.walker.removing()[0].why, WaitReason::Finalizing);
    story.restart().run();
    assert_eq!(story.writes(), "");
    story.world.linger = true;
    story.set("backup", "/status/done", json!(true)).run();
    assert_eq!(story.writes(), "delete db");
    let db = story.find("db").unwrap();
    story.world.reap(&db);
    story.run();
    assert_eq!(story.writes(), "delete backup");
}

#[test]
fn is_dropped_when_the_target_stays_after_all() {
    let mut story = running();
    story.set("flags", "/spec/on", json!(false)).run();
    story.writes();
    story
        .set("flags", "/spec/on", json!(true))
        .expect("flags=Ready db=Ready backup=Excluded", "delete backup");
}

#[test]
fn is_not_made_again_while_the_target_is_going() {
    let mut story = running();
    story.set("flags", "/spec/on", json!(false)).run();
    story.world.linger = true;
    story.set("backup", "/status/done", json!(true)).run();
    story.writes();
    story.delete("backup").run();
    assert_eq!(story.writes(), "");
}

#[test]
fn runs_in_teardown() {
    let mut story = running();
    let step = story.teardown_step(Some(&story.graph));
    assert_eq!(step.actions.len(), 1);
    story.world.perform(&step.actions[0]);
    let step = story.teardown_step(Some(&story.graph));
    assert_eq!(step.actions, vec![]);
    assert_eq!(step.waits[0].why, WaitReason::Finalizing);
    story.set("backup", "/status/done", json!(true));
    assert_eq!(story.teardown(), ["delete db", "delete backup"]);
}

#[test]
fn is_skipped_with_a_note_when_it_cannot_be_made() {
    // Without the object it reads.
    let mut story = running();
    story.delete("flags");
    let step = story.teardown_step(Some(&story.graph));
    assert_eq!(step.waits[0].why, WaitReason::FinalizerSkipped);
    assert_eq!(step.actions.len(), 1);
    // Without a Graph that compiles.
    let step = story.teardown_step(None);
    assert_eq!(step.waits[0].why, WaitReason::FinalizerSkipped);
    assert_eq!(step.actions[0].id().name, "db");
}

#[test]
fn teardown_waits_for_caches() {
    let mut story = running();
    story.world.owned_unknown = true;
    let step = story.teardown_step(None);
    assert!(!step.done && step.actions.is_empty());
    assert_eq!(step.waits[0].why, WaitReason::KindUnknown);
}

#[test]
fn objects_without_an_order_go_last() {
    let mut story = running();
    story.put("{apiVersion: test.io/v1, kind: Thing, metadata: {name: lost, labels: {old.u-1.internal.kro.run/reference: template}}}");
    let waves = {
        story.graph = super::world::graph("[]");
        story.teardown()
    };
    assert_eq!(waves, ["delete db", "delete lost"]);
}
