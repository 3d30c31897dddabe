//! Compile, first walk and one changed leaf, for Graphs of 10, 100 and 1,000 nodes.
//!
//! The Graph is a promotion: every tenth node depends on one of the tenth before it, so it is both wide and deep.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kardinal_graph::{
    Action, Body, Changed, Declaration, Fence, Graph, Marks, Observed, Outcome, Owner, Seen, Selector,
    Walker, compile,
};
use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Value, json};

const SIZES: [usize; 3] = [10, 100, 1000];

fn main() {
    divan::main();
}

fn owner() -> Owner {
    Owner {
        name: "bench".to_owned(),
        namespace: "default".to_owned(),
        uid: "b-1".to_owned(),
        parents: Vec::new(),
    }
}

fn declarations(count: usize) -> Vec<Declaration> {
    let step = |at: usize| {
        let mut spec = json!({
            "pipeline": "my-app", "environment": format!("env-{at}"), "path": format!("environments/env-{at}"),
            "git": { "url": "https://github.com/myorg/gitops-repo", "provider": "github", "secretRef": "github-token" },
            "update": { "strategy": "kustomize" }, "approval": "auto",
        });
        if let (Some(upstream), Some(fields)) = (at.checked_sub(10), spec.as_object_mut()) {
            fields.insert("upstreamVerified".to_owned(), json!(format!("${{step{upstream}.status.state}}")));
        }
        let body = json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
            "metadata": { "name": format!("my-app-{at}") }, "spec": spec,
        });
        let mut node = Declaration::new(format!("step{at}"), Body::Template(body));
        node.ready_when = vec![format!("${{step{at}.status.state == \"Verified\"}}")];
        node.propagate_when = node.ready_when.clone();
        node
    };
    (0..count).map(step).collect()
}

#[derive(Default)]
struct World {
    objects: BTreeMap<ObjectId, Value>,
    version: u64,
}

impl World {
    /// Applies and answers, with the status that lets the walk go on.
    fn perform(&mut self, action: &Action) -> Outcome {
        let Action::Apply { id, object, .. } = action else { return Outcome::Gone };
        let mut object = object.clone();
        self.version += 1;
        if let Some(map) = object.as_object_mut() {
            map.insert("status".to_owned(), json!({ "state": "Verified" }));
        }
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
            metadata.insert("uid".to_owned(), json!(format!("o-{}", self.version)));
        }
        self.objects.insert(id.clone(), object.clone());
        Outcome::Done(object)
    }
}

impl Observed for World {
    fn scope_of(&self, _: &Gvk) -> Option<KindScope> {
        Some(KindScope::Namespaced)
    }

    fn object(&self, id: &ObjectId) -> Seen<'_> {
        self.objects.get(id).map_or(Seen::Absent, Seen::Present)
    }

    fn select(&self, gvk: &Gvk, _: Option<&str>, selector: &Selector) -> Option<Vec<&Value>> {
        let found = self.objects.iter().filter(|(id, object)| id.gvk == *gvk && selector.matches(object));
        Some(found.map(|(_, object)| object).collect())
    }

    fn owned(&self) -> Option<Vec<(ObjectId, &Value)>> {
        let ours = |object: &Value| !Marks::read(object, &owner().uid).ours.is_empty();
        Some(self.objects.iter().filter(|(_, o)| ours(o)).map(|(id, o)| (id.clone(), o)).collect())
    }
}

fn graph(count: usize) -> Arc<Graph> {
    match compile(&declarations(count)) {
        Ok(graph) => Arc::new(graph),
        Err(problems) => unreachable!("{problems:?}"),
    }
}

/// Applies everything, layer by layer.
fn applied(graph: &Arc<Graph>) -> (World, Walker) {
    let (mut world, mut walker) =
        (World::default(), Walker::new(Arc::clone(graph), owner(), Fence::Namespace));
    let mut changed = Changed::All;
    loop {
        let step = walker.step(&changed, &world, Timestamp::UNIX_EPOCH);
        if step.actions.is_empty() {
            return (world, walker);
        }
        let mut ids = BTreeSet::new();
        for action in &step.actions {
            let outcome = world.perform(action);
            walker.record(action, outcome, Timestamp::UNIX_EPOCH);
            ids.insert(action.id().clone());
        }
        changed = Changed::Objects(ids);
    }
}

#[divan::bench(args = SIZES)]
fn compile_graph(bencher: divan::Bencher<'_, '_>, count: usize) {
    let declarations = declarations(count);
    bencher.bench_local(|| compile(divan::black_box(&declarations)).is_ok());
}

/// A process that starts and finds everything in place.
#[divan::bench(args = SIZES)]
fn first_walk(bencher: divan::Bencher<'_, '_>, count: usize) {
    let graph = graph(count);
    let (world, _) = applied(&graph);
    bencher.bench_local(|| {
        let mut walker = Walker::new(Arc::clone(&graph), owner(), Fence::Namespace);
        let step = walker.step(&Changed::All, divan::black_box(&world), Timestamp::UNIX_EPOCH);
        assert!(step.actions.is_empty());
        walker
    });
}

/// From nothing to everything applied, with all the steps in between.
#[divan::bench(args = SIZES, sample_count = 10)]
fn walk_from_nothing(bencher: divan::Bencher<'_, '_>, count: usize) {
    let graph = graph(count);
    bencher.bench_local(|| applied(&graph));
}

#[divan::bench(args = SIZES)]
fn one_changed_leaf(bencher: divan::Bencher<'_, '_>, count: usize) {
    let graph = graph(count);
    let (mut world, mut walker) = applied(&graph);
    let leaf = world.objects.keys().find(|id| id.name == format!("my-app-{}", count - 1)).cloned();
    let Some(leaf) = leaf else { unreachable!("the last node is a leaf") };
    let changed = Changed::Objects(BTreeSet::from([leaf.clone()]));
    let mut round = 0u64;
    bencher.bench_local(|| {
        round += 1;
        let state = if round.is_multiple_of(2) { "Verified" } else { "Promoting" };
        if let Some(object) = world.objects.get_mut(&leaf) {
            *object.pointer_mut("/status/state").unwrap_or(&mut Value::Null) = json!(state);
        }
        let step = walker.step(&changed, &world, Timestamp::UNIX_EPOCH);
        assert_eq!(step.changed.len(), 1);
    });
}
