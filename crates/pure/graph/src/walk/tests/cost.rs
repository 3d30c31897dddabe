//! What a step looks at: one changed leaf costs the same in a small Graph and in a large one.

use std::cell::Cell;
use std::collections::BTreeSet;

use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Value, json};

use super::world::{Story, World};
use crate::{Changed, Observed, Seen, Selector};

/// Counts the questions that a step asks.
struct Counting<'a> {
    world: &'a World,
    asked: Cell<usize>,
}

impl Counting<'_> {
    fn count(&self) {
        self.asked.set(self.asked.get() + 1);
    }
}

impl Observed for Counting<'_> {
    fn scope_of(&self, gvk: &Gvk) -> Option<KindScope> {
        self.count();
        self.world.scope_of(gvk)
    }

    fn object(&self, id: &ObjectId) -> Seen<'_> {
        self.count();
        self.world.object(id)
    }

    fn select(&self, gvk: &Gvk, namespace: Option<&str>, selector: &Selector) -> Option<Vec<&Value>> {
        self.count();
        self.world.select(gvk, namespace, selector)
    }

    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        panic!("a step over single objects must not list everything");
    }
}

/// A root with `count` leaves: questions asked when one leaf, and when the root changes.
fn cost(count: usize) -> (usize, usize) {
    let mut nodes =
        "- {id: root, template: {apiVersion: test.io/v1, kind: Thing, metadata: {name: root}}}\n".to_owned();
    for at in 0..count {
        nodes += &format!(
            "- {{id: n{at}, readyWhen: ['${{n{at}.status.ok}}'], template: {{apiVersion: test.io/v1, kind: Thing, \
             metadata: {{name: n{at}}}, spec: {{r: '${{root.spec.v}}'}}}}}}\n"
        );
    }
    let mut story = Story::new(&nodes.replace("{name: root}", "{name: root}, spec: {v: 1}"));
    story.run();
    let mut ask = |name: &str, pointer: &str, value: Value, changed: usize| {
        story.set(name, pointer, value);
        let ids: BTreeSet<ObjectId> = std::mem::take(&mut story.world.changed);
        let counting = Counting { world: &story.world, asked: Cell::new(0) };
        let step = story.walker.step(&Changed::Objects(ids), &counting, story.now);
        assert_eq!((step.changed.len(), step.actions.len()), (changed, 0));
        counting.asked.get()
    };
    // A change of the root that no leaf reads stops at the root.
    (ask("n0", "/status/ok", json!(true), 1), ask("root", "/status/other", json!(1), 0))
}

#[test]
fn one_change_costs_the_same_in_any_graph() {
    assert_eq!(cost(3), cost(300));
}
