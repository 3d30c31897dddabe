//! What one gate and one Graph cost, without any server.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use kardinal_cel::{Env, Limits, MapScope};
use kardinal_graph::{
    Action, Body, Changed, Declaration, Fence, Graph, Marks, NodeState, Observed, Outcome, Owner, Seen,
    Selector, Walker, compile,
};
use kardinal_object::{Gvk, KindScope, ObjectId};
use serde_json::{Value, json};

use crate::table::Row;

const SIZES: [usize; 3] = [10, 100, 1000];
const GATE: &str =
    "bundle.upstreamSoakMinutes >= 30 && !schedule.isWeekend && bundle.labels['hotfix'] == 'true'";

/// The rows about gates and Graphs.
pub(crate) fn rows() -> anyhow::Result<Vec<Row>> {
    let gate = format!("{:.0} ns", gate()?.as_secs_f64() * 1e9);
    let mut rows = vec![Row::ours("one gate", gate, "<= 1000 ns")];
    let mut leaf_times = Vec::new();
    for size in SIZES {
        let costs = Costs::of(size)?;
        let walk_aim = if size == 1000 { "<= 50 ms" } else { "" };
        rows.push(Row::ours(format!("Graph of {size}: compile"), show(costs.compile), ""));
        rows.push(Row::ours(format!("Graph of {size}: first walk"), show(costs.first), walk_aim));
        rows.push(Row::ours(format!("Graph of {size}: walk from nothing"), show(costs.whole), ""));
        leaf_times.push((size, costs.leaf));
    }
    let smallest = leaf_times.first().map(|(_, time)| time.as_secs_f64()).unwrap_or_default();
    for (size, time) in leaf_times {
        let mut row =
            Row::ours(format!("Graph of {size}: one changed leaf"), show(time), "independent of size");
        row.ratio = format!("{:.1}x of 10", time.as_secs_f64() / smallest.max(1e-12));
        rows.push(row);
    }
    rows.iter().for_each(Row::progress);
    Ok(rows)
}

fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} µs") } else { format!("{:.2} ms", micros / 1e3) }
}

/// The median time of a round.
fn median(rounds: usize, mut round: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Duration> {
    let mut times = (0..rounds).map(|_| round()).collect::<anyhow::Result<Vec<_>>>()?;
    times.sort_unstable();
    times.get(rounds / 2).copied().context("at least one round")
}

fn gate() -> anyhow::Result<Duration> {
    const TIMES: u32 = 50_000;
    let program = Env::standard().declare("bundle").declare("schedule").compile(GATE);
    let program = program.map_err(|errors| anyhow::anyhow!("{errors:?}"))?;
    let variables = BTreeMap::from([
        (
            "bundle".to_owned(),
            json!({"upstreamSoakMinutes": 45, "labels": {"hotfix": "true", "team": "payments"}}),
        ),
        ("schedule".to_owned(), json!({"isWeekend": false, "hour": 14})),
    ]);
    let limits = Limits::default();
    let scope = MapScope::new(&variables, Timestamp::UNIX_EPOCH);
    let passes = program.evaluate(&scope, &limits).is_ok_and(|value| value.as_bool() == Some(true));
    ensure!(passes, "the gate should be open");
    median(11, || {
        let started = Instant::now();
        for _ in 0..TIMES {
            let scope = MapScope::new(black_box(&variables), Timestamp::UNIX_EPOCH);
            black_box(program.evaluate(&scope, &limits).is_ok());
        }
        Ok(started.elapsed() / TIMES)
    })
}

/// What a Graph of one size costs.
struct Costs {
    compile: Duration,
    first: Duration,
    whole: Duration,
    leaf: Duration,
}

impl Costs {
    fn of(size: usize) -> anyhow::Result<Costs> {
        let declarations: Vec<Declaration> = (0..size).map(step).collect();
        let rounds = 2000 / size + 9;
        let compile_time = median(rounds, || {
            let started = Instant::now();
            let graph = compile(black_box(&declarations));
            let elapsed = started.elapsed();
            ensure!(graph.is_ok(), "the Graph compiles");
            Ok(elapsed)
        })?;
        let graph = Arc::new(compile(&declarations).map_err(|problems| anyhow::anyhow!("{problems:?}"))?);
        let whole = median(rounds, || {
            let started = Instant::now();
            black_box(settle(&graph));
            Ok(started.elapsed())
        })?;
        let (mut world, mut walker) = settle(&graph);
        ensure!(walker.worst() == Some(NodeState::Ready), "all nodes are ready: {:?}", walker.counts());
        let first = median(rounds, || {
            let started = Instant::now();
            let mut walker = Walker::new(Arc::clone(&graph), owner(), Fence::Namespace);
            let step = walker.step(&Changed::All, black_box(&world), Timestamp::UNIX_EPOCH);
            let elapsed = started.elapsed();
            ensure!(step.actions.is_empty(), "everything is in place");
            Ok(elapsed)
        })?;
        let leaf = changed_leaf(&mut world, &mut walker, size)?;
        Ok(Costs { compile: compile_time, first, whole, leaf })
    }
}

/// The status of a node that nobody depends on goes to and fro.
fn changed_leaf(world: &mut World, walker: &mut Walker, size: usize) -> anyhow::Result<Duration> {
    let name = format!("my-app-{}", size - 1);
    let leaf = world.objects.keys().find(|id| id.name == name).cloned().context("the last node is a leaf")?;
    let changed = Changed::Objects(BTreeSet::from([leaf.clone()]));
    let mut verified = true;
    median(501, || {
        verified = !verified;
        world.set_state(&leaf, if verified { "Verified" } else { "Failed" });
        let started = Instant::now();
        let step = walker.step(&changed, &*world, Timestamp::UNIX_EPOCH);
        let elapsed = started.elapsed();
        ensure!(step.changed.len() == 1, "one node has another state: {:?}", step.changed);
        Ok(elapsed)
    })
}

fn owner() -> Owner {
    Owner {
        name: "bench".to_owned(),
        namespace: "default".to_owned(),
        uid: "b-1".to_owned(),
        parents: Vec::new(),
    }
}

/// Ten environments side by side, each waiting for the one before it in its row.
fn step(at: usize) -> Declaration {
    let mut spec = json!({
        "pipeline": "my-app", "environment": format!("env-{at}"), "path": format!("environments/env-{at}"),
        "git": {"url": "https://git.example/gitops", "provider": "github", "secretRef": "token"},
        "update": {"strategy": "kustomize"}, "approval": "auto",
    });
    if let (Some(before), Some(spec)) = (at.checked_sub(10), spec.as_object_mut()) {
        spec.insert("upstreamVerified".to_owned(), json!(format!("${{step{before}.status.state}}")));
    }
    let body = json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
        "metadata": {"name": format!("my-app-{at}")}, "spec": spec,
    });
    let mut node = Declaration::new(format!("step{at}"), Body::Template(body));
    node.ready_when = vec![format!("${{step{at}.status.state == \"Verified\"}}")];
    node.propagate_when = node.ready_when.clone();
    node
}

/// Applies everything, layer by layer, until nothing is left to do.
fn settle(graph: &Arc<Graph>) -> (World, Walker) {
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

/// Objects in memory.
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
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("uid".to_owned(), json!(format!("o-{}", self.version)));
        }
        self.objects.insert(id.clone(), object);
        self.set_state(id, "Verified");
        self.objects.get(id).cloned().map_or(Outcome::Gone, Outcome::Done)
    }

    fn set_state(&mut self, id: &ObjectId, state: &str) {
        self.version += 1;
        let Some(object) = self.objects.get_mut(id).and_then(Value::as_object_mut) else { return };
        object.insert("status".to_owned(), json!({"state": state}));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), json!(self.version.to_string()));
        }
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
