//! A world in memory: objects, a crude server-side apply, and a driver that plays the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Map, Value, json};

use crate::{
    Action, Changed, Fence, Graph, Marks, Observed, Outcome, Owner, Permission, Permit, Seen, Selector, Step,
    Teardown, TeardownStep, Walker, compile, declare,
};

/// The Graph of all tests.
pub(crate) fn owner() -> Owner {
    Owner {
        name: "app".to_owned(),
        namespace: "default".to_owned(),
        uid: "u-1".to_owned(),
        parents: Vec::new(),
    }
}

/// An instant, by its RFC 3339 text.
pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().expect("an RFC 3339 timestamp")
}

/// A value, by its YAML text.
pub(crate) fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A compiled Graph, by the YAML of its nodes.
pub(crate) fn graph(nodes: &str) -> Arc<Graph> {
    let declarations = declare::read(&yaml(nodes)).unwrap_or_else(|problems| panic!("{problems:#?}"));
    Arc::new(compile(&declarations).unwrap_or_else(|problems| panic!("{problems:#?}")))
}

#[derive(Clone, Default)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<ObjectId, Value>,
    /// What we applied last, per object: stands for managedFields.
    applied: BTreeMap<ObjectId, Value>,
    pub(crate) unserved: BTreeSet<String>,
    pub(crate) owned_unknown: bool,
    /// Deleted objects stay, terminating, until they are reaped.
    pub(crate) linger: bool,
    version: u64,
    uid: u64,
    pub(crate) changed: BTreeSet<ObjectId>,
    /// What the server says to writes of objects with this name, instead of doing them.
    pub(crate) answers: BTreeMap<String, Outcome>,
    /// What the account of the Graph may read.
    pub(crate) permissions: BTreeMap<Permit, Permission>,
}

impl World {
    fn touch(&mut self, id: &ObjectId) {
        self.version += 1;
        let version = self.version.to_string();
        self.changed.insert(id.clone());
        if let Some(object) = self.objects.get_mut(id) {
            object["metadata"]["resourceVersion"] = json!(version);
        }
    }

    /// Somebody else creates or replaces an object.
    pub(crate) fn put(&mut self, mut object: Value) -> ObjectId {
        let mut id = ObjectId::of(&object).expect("an address");
        if self.scope_of(&id.gvk) == Some(KindScope::Namespaced) && id.namespace.is_none() {
            id.namespace = Some("default".to_owned());
            object["metadata"]["namespace"] = json!("default");
        }
        self.uid += 1;
        object["metadata"]["uid"] = json!(format!("o-{}", self.uid));
        object["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:00:00.{:06}Z", self.uid));
        self.objects.insert(id.clone(), object);
        self.touch(&id);
        id
    }

    /// Somebody else changes a field.
    pub(crate) fn set(&mut self, id: &ObjectId, pointer: &str, value: Value) {
        let Some(object) = self.objects.get_mut(id) else { return };
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let mut place = object;
        for step in parent.split('/').skip(1) {
            if !place[step].is_object() {
                place[step] = json!({});
            }
            place = &mut place[step];
        }
        place[key] = value;
        self.touch(id);
    }

    pub(crate) fn delete(&mut self, id: &ObjectId) {
        if self.linger && self.objects.contains_key(id) {
            self.set(id, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
            return;
        }
        self.reap(id);
    }

    /// Finalizers are done: the object goes.
    pub(crate) fn reap(&mut self, id: &ObjectId) {
        self.objects.remove(id);
        self.applied.remove(id);
        self.touch(id);
    }

    /// Carries out an action.
    pub(crate) fn perform(&mut self, action: &Action) -> Outcome {
        let id = action.id();
        if let Some(answer) = self.answers.get(&id.name) {
            return answer.clone();
        }
        match action {
            Action::Apply { object, status, .. } => self.apply(id, object, status.as_ref()),
            Action::Patch { object, status, .. } => {
                if !self.objects.contains_key(id) {
                    return Outcome::Gone;
                }
                self.apply(id, object, status.as_ref())
            }
            Action::Release { .. } => {
                if !self.objects.contains_key(id) {
                    return Outcome::Gone;
                }
                self.apply(id, &json!({}), None)
            }
            Action::Delete { uid, .. } => match self.objects.get(id).cloned() {
                None => Outcome::Gone,
                Some(object) if object["metadata"]["uid"] != json!(uid) => {
                    Outcome::Conflict("another uid".to_owned())
                }
                Some(object) => {
                    self.delete(id);
                    Outcome::Done(object)
                }
            },
        }
    }

    fn apply(&mut self, id: &ObjectId, object: &Value, status: Option<&Value>) -> Outcome {
        if !self.objects.contains_key(id) {
            self.put(crate::desired::identity_body(id));
        }
        let mut wanted = object.clone();
        if let Some(status) = status {
            wanted["status"] = status["status"].clone();
        }
        let before = self.objects.get(id).cloned().unwrap_or_default();
        let mut after = before.clone();
        if let Some(old) = self.applied.get(id) {
            take_away(&mut after, old, &wanted, 0);
        }
        merge(&mut after, &wanted);
        self.applied.insert(id.clone(), wanted);
        if after != before {
            self.objects.insert(id.clone(), after);
            self.touch(id);
        }
        Outcome::Done(self.objects.get(id).cloned().unwrap_or_default())
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Removes what we applied before and do not apply any more; identity stays.
fn take_away(from: &mut Value, old: &Value, new: &Value, depth: usize) {
    let (Some(map), Some(old)) = (from.as_object_mut(), old.as_object()) else { return };
    let none = Map::new();
    let new = new.as_object().unwrap_or(&none);
    for (key, old) in old {
        if depth < 2 && ["apiVersion", "kind", "name", "namespace"].contains(&key.as_str()) {
            continue;
        }
        match new.get(key) {
            Some(new) => {
                if let Some(child) = map.get_mut(key) {
                    take_away(child, old, new, depth + 1);
                }
            }
            None if old.is_object() => {
                let emptied = map.get_mut(key).is_some_and(|child| {
                    take_away(child, old, &json!({}), depth + 1);
                    child.as_object().is_some_and(Map::is_empty)
                });
                if emptied {
                    map.remove(key);
                }
            }
            None => {
                map.remove(key);
            }
        }
    }
}

impl Observed for World {
    fn scope_of(&self, gvk: &Gvk) -> Option<KindScope> {
        if self.unserved.contains(&*gvk.kind) {
            return None;
        }
        Some(if gvk.kind.starts_with("Cluster") { KindScope::Cluster } else { KindScope::Namespaced })
    }

    fn object(&self, id: &ObjectId) -> Seen<'_> {
        if self.unserved.contains(&*id.gvk.kind) {
            return Seen::Unknown;
        }
        self.objects.get(id).map_or(Seen::Absent, Seen::Present)
    }

    fn select(&self, gvk: &Gvk, namespace: Option<&str>, selector: &Selector) -> Option<Vec<&Value>> {
        let fits = |id: &ObjectId| {
            id.gvk == *gvk && namespace.is_none_or(|own| id.namespace.as_deref() == Some(own))
        };
        let found = self.objects.iter().filter(|(id, object)| fits(id) && selector.matches(object));
        Some(found.map(|(_, object)| object).collect())
    }

    fn permission(&self, permit: &Permit) -> Permission {
        self.permissions.get(permit).cloned().unwrap_or(Permission::Unknown)
    }

    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        if self.owned_unknown {
            return None;
        }
        let ours = |object: &Value| !Marks::read(object, &owner().uid).ours.is_empty();
        Some(
            self.objects
                .iter()
                .filter(|(_, object)| ours(object))
                .map(|(id, object)| (id.clone(), object))
                .collect(),
        )
    }
}

/// A walk in a world, driven like a controller does it.
pub(crate) struct Story {
    pub(crate) world: World,
    pub(crate) walker: Walker,
    pub(crate) graph: Arc<Graph>,
    pub(crate) fence: Fence,
    pub(crate) owner: Owner,
    pub(crate) now: Timestamp,
    pub(crate) wake: Option<Timestamp>,
    pub(crate) log: Vec<String>,
    fresh: bool,
}

impl Story {
    pub(crate) fn new(nodes: &str) -> Story {
        Story::of(graph(nodes))
    }

    pub(crate) fn of(graph: Arc<Graph>) -> Story {
        Story {
            world: World::default(),
            walker: Walker::new(Arc::clone(&graph), owner(), Fence::Cluster),
            graph,
            fence: Fence::Cluster,
            owner: owner(),
            now: at("2026-04-09T12:00:00Z"),
            wake: None,
            log: Vec::new(),
            fresh: true,
        }
    }

    /// The process dies and starts anew.
    pub(crate) fn restart(&mut self) -> &mut Story {
        self.walker = Walker::new(Arc::clone(&self.graph), self.owner.clone(), self.fence.clone());
        self.fresh = true;
        self
    }

    /// The Graph's spec changes.
    pub(crate) fn revise(&mut self, nodes: &str) -> &mut Story {
        self.graph = graph(nodes);
        self.restart()
    }

    pub(crate) fn put(&mut self, text: &str) -> &mut Story {
        self.world.put(yaml(text));
        self
    }

    /// Sets a field of the object with this name.
    pub(crate) fn set(&mut self, name: &str, pointer: &str, value: Value) -> &mut Story {
        let id = self.find(name).unwrap_or_else(|| panic!("no object `{name}`"));
        self.world.set(&id, pointer, value);
        self
    }

    pub(crate) fn delete(&mut self, name: &str) -> &mut Story {
        let id = self.find(name).unwrap_or_else(|| panic!("no object `{name}`"));
        self.world.reap(&id);
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        self.world.objects.keys().find(|id| id.name == name).cloned()
    }

    pub(crate) fn object(&self, name: &str) -> &Value {
        &self.world.objects[&self.find(name).unwrap_or_else(|| panic!("no object `{name}`"))]
    }

    pub(crate) fn step(&mut self) -> Step {
        let changed = if std::mem::take(&mut self.fresh) {
            self.world.changed.clear();
            Changed::All
        } else if self.world.changed.is_empty() {
            Changed::Nothing
        } else {
            Changed::Objects(std::mem::take(&mut self.world.changed))
        };
        let step = self.walker.step(&changed, &self.world, self.now);
        self.wake = step.wake;
        step
    }

    pub(crate) fn perform(&mut self, action: &Action) {
        let outcome = self.world.perform(action);
        self.log.push(describe(action));
        self.walker.record(action, outcome, self.now);
    }

    /// Steps and acts until nothing is left to do.
    pub(crate) fn run(&mut self) -> &mut Story {
        for _ in 0..10_000 {
            let step = self.step();
            for action in &step.actions {
                self.perform(action);
            }
            if step.actions.is_empty() && self.world.changed.is_empty() {
                return self;
            }
        }
        panic!("does not come to rest: {:?}", self.log.iter().rev().take(20).collect::<Vec<_>>());
    }

    /// Lets time pass up to each wake-up in turn.
    pub(crate) fn pass(&mut self, seconds: i64) -> &mut Story {
        let end = self.now + SignedDuration::from_secs(seconds);
        self.run();
        while let Some(wake) = self.wake.filter(|wake| *wake <= end) {
            assert!(wake > self.now, "a wake-up must be in the future");
            self.now = wake;
            self.run();
        }
        self.now = end;
        self.run()
    }

    /// `a=Ready b=Pending …` in the order of the walk; `*` marks retained nodes.
    pub(crate) fn states(&self) -> String {
        let parts = self
            .walker
            .reports()
            .map(|(id, report)| format!("{id}={}{}", report.state, if report.retained { "*" } else { "" }));
        parts.collect::<Vec<_>>().join(" ")
    }

    /// The writes since last time.
    pub(crate) fn writes(&mut self) -> String {
        std::mem::take(&mut self.log).join(", ")
    }

    pub(crate) fn expect(&mut self, states: &str, writes: &str) -> &mut Story {
        self.run();
        assert_eq!(self.states(), states, "{:#?}", self.walker.reports().collect::<Vec<_>>());
        assert_eq!(self.writes(), writes);
        self.check_steady();
        self
    }

    /// A steady walk asks for nothing, and a walk that starts anew comes to the same.
    pub(crate) fn check_steady(&self) {
        let mut fresh = Walker::new(Arc::clone(&self.graph), self.owner.clone(), self.fence.clone());
        let step = fresh.step(&Changed::All, &self.world, self.now);
        let broken = |walker: &Walker| walker.reports().any(|(_, r)| r.state.blocks());
        if broken(&self.walker) || broken(&fresh) || !self.world.answers.is_empty() {
            return;
        }
        assert_eq!(step.actions, vec![], "a new walk finds something to do");
        let mine: Vec<_> = self.walker.reports().collect();
        let other: Vec<_> = fresh.reports().collect();
        assert_eq!(mine, other, "a new walk sees other states");
        assert_eq!(fresh.counts(), self.walker.counts());
    }

    /// The Graph reaches so far and no further.
    pub(crate) fn fenced(mut self, fence: Fence) -> Story {
        self.fence = fence;
        self.restart();
        self
    }

    pub(crate) fn teardown_step(&self, graph: Option<&Graph>) -> TeardownStep {
        let (owner, refused) = (&self.owner, BTreeMap::new());
        let (fence, world) = (&self.fence, &self.world);
        Teardown { owner, fence, world, graph, refused: &refused }.step(self.now)
    }

    /// Takes everything down; gives the removals, wave by wave.
    pub(crate) fn teardown(&mut self) -> Vec<String> {
        let mut waves = Vec::new();
        for _ in 0..1000 {
            let step = self.teardown_step(Some(&self.graph));
            if step.done {
                return waves;
            }
            let wave: Vec<String> = step.actions.iter().map(describe).collect();
            if !wave.is_empty() {
                waves.push(wave.join(" "));
            }
            for action in &step.actions {
                self.world.perform(action);
            }
            if step.actions.is_empty() {
                let going: Vec<ObjectId> = self
                    .world
                    .objects
                    .iter()
                    .filter(|(_, o)| crate::owned::is_terminating(o))
                    .map(|(id, _)| id.clone())
                    .collect();
                assert!(!going.is_empty(), "teardown is stuck: {:?}", step.waits);
                going.iter().for_each(|id| self.world.reap(id));
            }
        }
        panic!("teardown does not end");
    }
}

pub(crate) fn describe(action: &Action) -> String {
    let verb = match action {
        Action::Apply { .. } => "apply",
        Action::Patch { .. } => "patch",
        Action::Release { .. } => "release",
        Action::Delete { .. } => "delete",
    };
    format!("{verb} {}", action.id().name)
}
