//! Random Graphs in a restless world: whatever happens, the walk never acts too early and always arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kardinal_object::ObjectId;
use serde_json::{Value, json};

use super::world::{Story, owner};
use crate::{Action, Body, Changed, Declaration, Fence, Marks, NodeState, Walker, compile};

/// A small generator with a known sequence.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Shape {
    Single,
    Collection,
    Def,
}

#[derive(Clone, Debug)]
struct Spec {
    shape: Shape,
    hard: Vec<usize>,
    soft: Vec<usize>,
    explicit: Vec<usize>,
    include: bool,
    gate: bool,
}

fn specs(dice: &mut Dice, count: usize) -> Vec<Spec> {
    let mut specs: Vec<Spec> = Vec::new();
    for at in 0..count {
        let shape = match dice.below(10) {
            0 => Shape::Def,
            1 | 2 => Shape::Collection,
            _ => Shape::Single,
        };
        let mut pick = |percent: u64| (0..at).filter(|_| dice.chance(percent)).collect::<Vec<_>>();
        let (hard, explicit) = (pick(25), pick(8));
        let writes = shape != Shape::Def;
        specs.push(Spec {
            shape,
            hard,
            soft: Vec::new(),
            explicit,
            include: dice.chance(40),
            gate: writes && dice.chance(40),
        });
    }
    // Optional references may go in any direction, also round in a circle, as long as an object is in it.
    for at in 0..count {
        let soft = |dice: &mut Dice| (0..count).filter(|_| dice.chance(8)).collect::<Vec<_>>();
        let found = soft(dice);
        let singles = found.into_iter().filter(|s| *s != at && specs[*s].shape == Shape::Single);
        specs[at].soft = singles.filter(|s| !specs[at].hard.contains(s)).collect();
    }
    specs
}

fn declarations(specs: &[Spec]) -> Vec<Declaration> {
    let flags = json!({ "apiVersion": "test.io/v1", "kind": "Flags", "metadata": { "name": "flags" } });
    let mut nodes = vec![Declaration::new("flags", Body::Ref(flags))];
    for (at, spec) in specs.iter().enumerate() {
        let mut fields = serde_json::Map::new();
        for source in &spec.hard {
            let text = match specs[*source].shape {
                Shape::Single => {
                    format!("${{n{source}.metadata.name + n{source}.?status.?data.orValue(\"-\")}}")
                }
                Shape::Collection => format!("${{n{source}.map(x, x.metadata.name)}}"),
                Shape::Def => format!("${{n{source}.value}}"),
            };
            fields.insert(format!("n{source}"), json!(text));
        }
        for source in &spec.soft {
            fields.insert(
                format!("s{source}"),
                json!(format!("${{n{source}.?status.?data.orValue(\"none\")}}")),
            );
        }
        let (name, condition) = match spec.shape {
            Shape::Collection => (format!("t{at}-${{item}}"), "each".to_owned()),
            _ => (format!("t{at}"), format!("n{at}")),
        };
        let body = match spec.shape {
            Shape::Def => Body::Def(json!({ "value": Value::Object(fields) })),
            _ => Body::Template(json!({
                "apiVersion": "test.io/v1", "kind": "Thing", "metadata": { "name": name }, "spec": fields,
            })),
        };
        let mut node = Declaration::new(format!("n{at}"), body);
        if spec.shape == Shape::Collection {
            node.for_each = vec![("item".to_owned(), format!("${{flags.spec.items.n{at}}}"))];
        }
        if spec.include {
            node.include_when = vec![format!("${{flags.spec.include.n{at}}}")];
        }
        if spec.gate {
            node.propagate_when = vec![format!("${{{condition}.status.open}}")];
        }
        if spec.shape != Shape::Def {
            node.ready_when = vec![format!("${{{condition}.status.ok}}")];
        }
        node.depends_on = spec.explicit.iter().map(|source| format!("n{source}")).collect();
        nodes.push(node);
    }
    nodes
}

/// What should be, worked out from the flags alone.
struct Oracle<'a> {
    specs: &'a [Spec],
    flags: Value,
}

impl Oracle<'_> {
    fn included(&self, at: usize) -> bool {
        let spec = &self.specs[at];
        let own = !spec.include || self.flags["include"][format!("n{at}")] == json!(true);
        own && spec.hard.iter().chain(&spec.explicit).all(|source| self.included(*source))
    }

    /// Whether a node is out for certain: a closed gate before it keeps even what should go.
    fn excluded(&self, at: usize, objects: &BTreeMap<String, Value>) -> bool {
        let spec = &self.specs[at];
        let sources = || spec.hard.iter().chain(&spec.explicit);
        let off = spec.include && self.flags["include"][format!("n{at}")] != json!(true);
        let frozen = spec.shape != Shape::Def && sources().any(|source| !self.in_scope(*source, objects));
        sources().any(|source| self.excluded(*source, objects)) || (off && !frozen)
    }

    fn items(&self, at: usize) -> Vec<String> {
        let items = self.flags["items"][format!("n{at}")].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| format!("t{at}-{}", item.as_str().unwrap())).collect()
    }

    fn names(&self, at: usize) -> Vec<String> {
        match self.specs[at].shape {
            Shape::Def => Vec::new(),
            Shape::Single => vec![format!("t{at}")],
            Shape::Collection => self.items(at),
        }
    }

    /// Whether the data of a node may be used now, judged by the objects alone.
    fn in_scope(&self, at: usize, objects: &BTreeMap<String, Value>) -> bool {
        let spec = &self.specs[at];
        if spec.shape == Shape::Def {
            return spec.hard.iter().chain(&spec.explicit).all(|source| self.in_scope(*source, objects));
        }
        let open = |object: &Value| !spec.gate || object["status"]["open"] == json!(true);
        let there = |name: &String| {
            objects
                .get(name)
                .is_some_and(|object| !Marks::read(object, &owner().uid).ours.is_empty() && open(object))
        };
        // A collection whose own dependencies are closed keeps the children it had.
        let frozen = spec.hard.iter().chain(&spec.explicit).any(|source| !self.in_scope(*source, objects));
        frozen || self.names(at).iter().all(there)
    }

    fn value(&self, at: usize) -> Value {
        let spec = &self.specs[at];
        let mut fields = serde_json::Map::new();
        for source in &spec.hard {
            let value = match self.specs[*source].shape {
                Shape::Single => json!(format!("t{source}d{source}")),
                Shape::Collection => json!(self.items(*source)),
                Shape::Def => self.value(*source),
            };
            fields.insert(format!("n{source}"), value);
        }
        for source in &spec.soft {
            let there = self.included(*source);
            let data = if there { format!("d{source}") } else { "none".to_owned() };
            fields.insert(format!("s{source}"), json!(data));
        }
        Value::Object(fields)
    }
}

/// A story with its plan, checked at every action.
struct Chaos {
    specs: Vec<Spec>,
    story: Story,
    dice: Dice,
    writes: usize,
    /// Die at this write: before it is done, or after it was done and before it was noted.
    crash: Option<(usize, bool)>,
}

impl Chaos {
    fn new(seed: u64, most: usize) -> Chaos {
        let mut dice = Dice(seed);
        let count = 2 + dice.below(most - 1);
        let specs = specs(&mut dice, count);
        let graph =
            Arc::new(compile(&declarations(&specs)).unwrap_or_else(|problems| panic!("{problems:#?}")));
        let mut story = Story::of(graph);
        let include: BTreeMap<String, bool> =
            (0..count).map(|at| (format!("n{at}"), dice.chance(70))).collect();
        let items: BTreeMap<String, Vec<&str>> = (0..count).map(|at| (format!("n{at}"), vec!["a"])).collect();
        story.world.put(json!({
            "apiVersion": "test.io/v1", "kind": "Flags", "metadata": { "name": "flags" },
            "spec": { "include": include, "items": items },
        }));
        Chaos { specs, story, dice, writes: 0, crash: None }
    }

    fn oracle(&self) -> Oracle<'_> {
        Oracle { specs: &self.specs, flags: self.story.object("flags")["spec"].clone() }
    }

    fn by_name(&self) -> BTreeMap<String, Value> {
        self.story.world.objects.iter().map(|(id, object)| (id.name.clone(), object.clone())).collect()
    }

    fn check(&self, action: &Action) {
        let oracle = self.oracle();
        let objects = self.by_name();
        let at: usize = action.node()[1..].parse().unwrap();
        if action.is_removal() {
            let mut fresh = Walker::new(Arc::clone(&self.story.graph), owner(), Fence::Cluster);
            fresh.step(&Changed::All, &self.story.world, self.story.now);
            let undecided = fresh.reports().find(|(_, report)| report.state.is_undecided());
            assert_eq!(undecided, None, "{action:?} while something is undecided");
            let wanted = oracle.included(at) && oracle.names(at).contains(&action.id().name);
            assert!(!wanted, "{action:?} removes what is wanted");
        } else {
            for source in self.specs[at].hard.iter().chain(&self.specs[at].explicit) {
                assert!(oracle.in_scope(*source, &objects), "{action:?} although n{source} is not in scope");
            }
            assert!(!oracle.excluded(at, &objects), "{action:?} although it is excluded");
        }
    }

    fn run(&mut self) {
        for _ in 0..2000 {
            let step = self.story.step();
            step.actions.iter().for_each(|action| self.check(action));
            let mut done = true;
            for action in &step.actions {
                done = false;
                let crash = self.crash.filter(|(at, _)| *at == self.writes);
                if crash.is_some_and(|(_, performed)| !performed) {
                    self.crash = None;
                    self.story.restart();
                    break;
                }
                self.writes += 1;
                if crash.is_some() {
                    self.crash = None;
                    self.story.world.perform(action);
                    self.story.restart();
                    break;
                }
                self.story.perform(action);
            }
            if done && self.story.world.changed.is_empty() {
                // An object that vanished before it was ever seen is missed only after a while.
                match self.story.wake {
                    Some(wake) => self.story.now = wake,
                    None => return,
                }
            }
        }
        panic!("does not come to rest: {:?}", self.story.log.iter().rev().take(20).collect::<Vec<_>>());
    }

    fn owned(&self) -> Vec<ObjectId> {
        self.story.world.objects.keys().filter(|id| id.gvk.kind == "Thing").cloned().collect()
    }

    fn event(&mut self) {
        let owned = self.owned();
        let count = self.specs.len();
        let flags = self.story.find("flags").unwrap();
        match self.dice.below(10) {
            0..=3 if !owned.is_empty() => {
                let id = &owned[self.dice.below(owned.len())];
                let status = json!({
                    "open": self.dice.chance(70), "ok": self.dice.chance(50), "data": format!("x{}", self.dice.below(3)),
                });
                self.story.world.set(id, "/status", status);
            }
            4 | 5 => {
                let (at, on) = (self.dice.below(count), self.dice.chance(60));
                self.story.world.set(&flags, &format!("/spec/include/n{at}"), json!(on));
            }
            6 => {
                let at = self.dice.below(count);
                let items: Vec<&str> =
                    ["a", "b", "c", "d"].into_iter().filter(|_| self.dice.chance(50)).collect();
                self.story.world.set(&flags, &format!("/spec/items/n{at}"), json!(items));
            }
            7 if !owned.is_empty() => {
                let id = owned[self.dice.below(owned.len())].clone();
                self.story.world.reap(&id);
            }
            8 if !owned.is_empty() => {
                let id = &owned[self.dice.below(owned.len())];
                let ours = self.story.world.objects[id]["spec"]
                    .as_object()
                    .and_then(|spec| spec.keys().next().cloned());
                if let Some(field) = ours {
                    self.story.world.set(id, &format!("/spec/{field}"), json!("drifted"));
                }
            }
            _ => {}
        }
    }

    /// Everything becomes healthy and every gate opens.
    fn come_to_rest(&mut self) {
        for _ in 0..100 {
            self.run();
            let mut quiet = true;
            for id in self.owned() {
                let at: String = id.name[1..].chars().take_while(char::is_ascii_digit).collect();
                let status = json!({ "open": true, "ok": true, "data": format!("d{at}") });
                if self.story.world.objects[&id]["status"] != status {
                    self.story.world.set(&id, "/status", status);
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
        panic!("statuses do not come to rest");
    }

    fn check_end(&self) {
        let oracle = self.oracle();
        let mut expected = BTreeSet::new();
        for (at, _) in self.specs.iter().enumerate().filter(|(at, _)| oracle.included(*at)) {
            for name in oracle.names(at) {
                let spec = self.story.object(&name).get("spec").cloned().unwrap_or(json!({}));
                assert_eq!(
                    spec,
                    oracle.value(at),
                    "content of {name}: {:#?}",
                    self.story.walker.reports().collect::<Vec<_>>()
                );
                expected.insert(name);
            }
        }
        let there: BTreeSet<String> = self.owned().into_iter().map(|id| id.name).collect();
        assert_eq!(there, expected);
        for (id, report) in self.story.walker.reports().skip(1) {
            let at: usize = id[1..].parse().unwrap();
            let state = if oracle.included(at) { NodeState::Ready } else { NodeState::Excluded };
            assert_eq!(report.state, state, "{id}: {report:?}");
        }
        self.story.check_steady();
    }

    /// The objects without what differs from run to run.
    fn outcome(&self) -> BTreeMap<String, Value> {
        let mut objects = self.by_name();
        for object in objects.values_mut() {
            for field in ["uid", "resourceVersion", "creationTimestamp"] {
                object["metadata"].as_object_mut().unwrap().remove(field);
            }
        }
        objects
    }
}

/// Events strike at any time, also between steps; at rest the incremental walk agrees with a new one.
fn check_chaos(seed: u64) {
    let mut chaos = Chaos::new(seed, 14);
    for _ in 0..60 {
        for _ in 0..=chaos.dice.below(2) {
            chaos.event();
        }
        if chaos.dice.chance(10) {
            chaos.story.restart();
        }
        if chaos.dice.chance(60) {
            chaos.run();
            chaos.story.check_steady();
        } else {
            let step = chaos.story.step();
            for action in &step.actions {
                chaos.check(action);
                // Some actions are lost on the way; nobody hears of them again.
                if chaos.dice.chance(80) {
                    chaos.story.perform(action);
                }
            }
        }
    }
    chaos.come_to_rest();
    chaos.check_end();
}

#[test]
fn converges_and_never_acts_too_early() {
    for seed in 0..120 {
        check_chaos(seed);
    }
}

fn play(seed: u64, crash: Option<(usize, bool)>) -> (usize, BTreeMap<String, Value>) {
    let mut chaos = Chaos::new(seed, 7);
    chaos.crash = crash;
    for _ in 0..12 {
        chaos.run();
        chaos.event();
    }
    chaos.come_to_rest();
    chaos.check_end();
    (chaos.writes, chaos.outcome())
}

#[test]
fn a_crash_at_any_write_leads_to_the_same_end() {
    let mut crashes = 0;
    for seed in 1000..1012 {
        let (writes, end) = play(seed, None);
        for at in 0..writes {
            for performed in [false, true] {
                let (_, other) = play(seed, Some((at, performed)));
                assert_eq!(other, end, "seed {seed}, crash at write {at}, performed {performed}");
                crashes += 1;
            }
        }
    }
    assert!(crashes > 100, "only {crashes} crashes were tried");
}

/// Teardown of any Graph removes every object, dependents before what they depend on.
#[test]
fn teardown_goes_against_the_order() {
    for seed in 2000..2040 {
        let mut chaos = Chaos::new(seed, 14);
        chaos.come_to_rest();
        chaos.story.world.linger = chaos.dice.chance(50);
        let waves = chaos.story.teardown();
        assert_eq!(chaos.owned(), vec![]);
        let mut last = usize::MAX;
        for wave in &waves {
            let layers: BTreeSet<usize> = wave
                .split(' ')
                .filter_map(|word| word.strip_prefix('t')?.split('-').next())
                .map(|at| chaos.story.graph.layer(&format!("n{at}")).unwrap())
                .collect();
            assert_eq!(layers.len(), 1, "{wave}");
            let layer = *layers.first().unwrap();
            assert!(layer < last, "{waves:?}");
            last = layer;
        }
    }
}
