//! The walk: from the observed world to node states and the next actions.
//!
//! A step looks only at nodes that a change can concern: readers of changed objects, nodes whose time has come, and
//! dependents of nodes whose output changed. Its cost does not depend on the size of the Graph. The walk must not
//! remember anything that the result depends on; what it keeps are caches, and notes on writes that are under way.

mod children;
mod evaluate;
mod fence;
mod gate;
mod memory;
mod prune;
#[cfg(test)]
mod tests;
mod visit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kardinal_cel::Limits;
use kardinal_object::ObjectId;
use serde_json::{Map, Value};

use crate::action::{Action, Outcome, Step};
use crate::fence::{Fence, Permit};
use crate::graph::Graph;
use crate::identity::Owner;
use crate::interests::{Interests, Reads};
use crate::observe::{Changed, Observed};
use crate::owned::OwnedIndex;
use crate::removal::Waves;
use crate::report::{NodeReport, NodeState, Wait};
use crate::scope::earliest;
use memory::{Attempt, Memory};

/// Evaluations of one node in one step, after which its optional references are taken not to settle.
const PASS_LIMIT: u32 = 32;

/// What of a node reaches its dependents.
#[derive(Clone, Debug, PartialEq)]
enum Reach {
    /// Its data.
    Open,
    /// Its data, but it is about to change: dependents do not write until it has.
    Held,
    /// Nothing, because of a gate.
    Closed(Vec<Wait>),
    /// Nothing yet.
    Out,
    /// Nothing: it has failed.
    Failed,
    /// It should not exist.
    Excluded,
}

/// Where the value of a node is.
#[derive(Clone, Debug, PartialEq)]
enum NodeValue {
    None,
    Object(ObjectId),
    Computed(Value),
}

/// What the walk keeps about a node.
struct NodeWalk {
    report: NodeReport,
    reach: Reach,
    value: NodeValue,
    /// Until when the value holds, when it was computed from the time.
    value_until: Option<Timestamp>,
    reads: Reads,
    claims: BTreeSet<ObjectId>,
    memory: BTreeMap<ObjectId, Box<Memory>>,
    wanted: Vec<Action>,
    /// Hash of what each dependent sees of this node.
    signals: Vec<u64>,
    timer: Option<Timestamp>,
    undecided: bool,
    passes: u32,
    passed_in: u64,
}

impl NodeWalk {
    fn new() -> NodeWalk {
        NodeWalk {
            report: NodeReport::new(NodeState::Pending, "not evaluated yet"),
            reach: Reach::Out,
            value: NodeValue::None,
            value_until: None,
            reads: Reads::default(),
            claims: BTreeSet::new(),
            memory: BTreeMap::new(),
            wanted: Vec::new(),
            signals: Vec::new(),
            timer: None,
            undecided: true,
            passes: 0,
            passed_in: 0,
        }
    }
}

/// What one step looks at.
struct Pass<'w> {
    world: &'w dyn Observed,
    now: Timestamp,
}

/// Walks one Graph. Dropping it and starting anew gives the same end state.
pub struct Walker {
    graph: Arc<Graph>,
    owner: Owner,
    fence: Fence,
    limits: Limits,
    /// What an optional reference to an absent node sees.
    absent: Value,
    nodes: Vec<NodeWalk>,
    dirty: BTreeSet<usize>,
    timers: BTreeSet<(Timestamp, usize)>,
    acting: BTreeSet<usize>,
    changed: BTreeSet<usize>,
    counts: BTreeMap<NodeState, usize>,
    undecided: usize,
    interests: Interests,
    claims: BTreeMap<ObjectId, BTreeSet<usize>>,
    owned: OwnedIndex,
    /// Owned objects that no node claims.
    waves: Waves,
    candidates: BTreeMap<ObjectId, u64>,
    removals: BTreeMap<ObjectId, Attempt>,
    removing: Vec<Wait>,
    /// Actions of the last step that were not recorded yet.
    unanswered: BTreeSet<(usize, ObjectId)>,
    removal_wake: Option<Timestamp>,
    removal_permits: BTreeSet<Permit>,
    /// When outcomes that were recorded since the last step want to be looked at.
    due: Option<Timestamp>,
    steps: u64,
}

impl Walker {
    /// A walk that has seen nothing yet.
    pub fn new(graph: Arc<Graph>, owner: Owner, fence: Fence) -> Walker {
        let count = graph.len();
        Walker {
            owner,
            fence,
            limits: Limits::default(),
            absent: Value::Object(Map::new()),
            nodes: (0..count).map(|_| NodeWalk::new()).collect(),
            dirty: (0..count).collect(),
            timers: BTreeSet::new(),
            acting: BTreeSet::new(),
            changed: BTreeSet::new(),
            counts: BTreeMap::from([(NodeState::Pending, count)]),
            undecided: count,
            interests: Interests::default(),
            claims: BTreeMap::new(),
            owned: OwnedIndex::default(),
            waves: Waves::new(),
            candidates: BTreeMap::new(),
            removals: BTreeMap::new(),
            removing: Vec::new(),
            unanswered: BTreeSet::new(),
            removal_wake: None,
            removal_permits: BTreeSet::new(),
            due: None,
            steps: 0,
            graph,
        }
    }

    /// Takes in what changed and decides what to do next. What came of the actions is reported through
    /// [`Walker::record`]; an action without a report by the next step counts as not done and is asked for again.
    pub fn step(&mut self, changed: &Changed, world: &dyn Observed, now: Timestamp) -> Step {
        self.steps += 1;
        self.due = None;
        self.give_up_unanswered();
        self.take_in(changed, world);
        while let Some((at, position)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, position));
            if let Some(node) = self.nodes.get_mut(position) {
                node.timer = None;
            }
            self.dirty.insert(position);
        }
        let pass = Pass { world, now };
        while let Some(position) = self.dirty.pop_first() {
            self.visit(position, &pass);
        }
        let mut actions = self.collect(&pass);
        actions.extend(self.prune(&pass));
        let wake = self.wake();
        let changed = std::mem::take(&mut self.changed);
        let changed = changed.into_iter().map(|at| self.graph.id_of(at).to_owned()).collect();
        Step { actions, wake, changed }
    }

    /// Notes what came of an action. The next step, with any [`Changed`], draws the consequences.
    pub fn record(&mut self, action: &Action, outcome: Outcome, now: Timestamp) {
        let wants_look = !matches!(outcome, Outcome::Done(_) | Outcome::Gone);
        let due = if wants_look { Some(now) } else { now.checked_add(memory::OBSERVE_WITHIN).ok() };
        self.due = earliest(self.due, due);
        let position = self.graph.index.get(action.node()).copied();
        let finalizes =
            position.and_then(|at| self.graph.node(at)).is_some_and(|node| node.finalizes.is_some());
        if action.is_removal() || finalizes {
            self.removals.entry(action.id().clone()).or_default().record(outcome, now);
            return;
        }
        let Some(position) = position else { return };
        if let Some(node) = self.nodes.get_mut(position) {
            let refused_for = matches!(self.fence, Fence::Account(_)).then_some(memory::RIGHTS_RETRY);
            let memory = node.memory.entry(action.id().clone()).or_default();
            memory.record(action, outcome, now, refused_for);
            self.unanswered.remove(&(position, action.id().clone()));
            self.dirty.insert(position);
        }
    }

    /// When to step again although nothing changes; at once after a failure was recorded.
    pub fn wake(&self) -> Option<Timestamp> {
        let timer = self.timers.first().map(|(at, _)| *at);
        earliest(earliest(timer, self.removal_wake), self.due)
    }

    /// What the graph reads and writes now, for watches and for routing events.
    pub fn interests(&self) -> &Interests {
        &self.interests
    }

    /// What the account of the Graph must be allowed to read.
    pub fn permits(&self) -> impl Iterator<Item = &Permit> {
        self.interests.permits().chain(&self.removal_permits)
    }

    /// What is known about every node, in the order of the walk.
    pub fn reports(&self) -> impl Iterator<Item = (&str, &NodeReport)> {
        self.graph.order().zip(self.nodes.iter().map(|node| &node.report))
    }

    /// What is known about one node.
    pub fn report(&self, id: &str) -> Option<&NodeReport> {
        self.nodes.get(*self.graph.index.get(id)?).map(|node| &node.report)
    }

    /// How many nodes are in each state.
    pub fn counts(&self) -> &BTreeMap<NodeState, usize> {
        &self.counts
    }

    /// The most severe state of any node: the reason of the Graph's `Ready` condition. `None` without nodes.
    pub fn worst(&self) -> Option<NodeState> {
        self.counts.keys().next_back().copied()
    }

    /// What the removal of superfluous objects waits for; empty when there is nothing to remove.
    pub fn removing(&self) -> &[Wait] {
        &self.removing
    }

    /// The Graph that is walked.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// On whose behalf.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// How far it reaches.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    fn give_up_unanswered(&mut self) {
        for (position, id) in std::mem::take(&mut self.unanswered) {
            if let Some(memory) = self.nodes.get_mut(position).and_then(|node| node.memory.get_mut(&id)) {
                memory.give_up();
            }
            self.dirty.insert(position);
        }
        self.removals.values_mut().for_each(|attempt| attempt.flight = false);
    }

    fn take_in(&mut self, changed: &Changed, world: &dyn Observed) {
        // Labels say which nodes have run, so as long as they are not all known they are asked for each time.
        if *changed == Changed::All || !self.owned.known {
            self.read_owned(world);
        }
        match changed {
            Changed::All => self.dirty.extend(0..self.nodes.len()),
            Changed::Objects(ids) => ids.iter().for_each(|id| self.route(id, world)),
            Changed::Nothing => {}
        }
    }

    fn read_owned(&mut self, world: &dyn Observed) {
        let before = self.owned.known;
        self.owned = OwnedIndex::read(world, &self.owner, &self.fence);
        if self.owned.known != before {
            self.dirty.extend(0..self.nodes.len());
        }
        self.waves.clear();
        self.candidates.clear();
        let ids: Vec<ObjectId> = self.owned.all().map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.judge_candidate(id));
    }

    /// Finds the nodes that a change of one object concerns.
    fn route(&mut self, id: &ObjectId, world: &dyn Observed) {
        if self.owned.known {
            let touched = self.owned.update(id, world.object(id), &self.owner, &self.fence);
            self.dirty.extend(touched.iter().filter_map(|key| self.graph.keys.get(key)));
            self.judge_candidate(id);
        }
        self.dirty.extend(self.interests.readers(id));
        self.dirty.extend(self.interests.watchers(id));
    }

    /// An owned object that no node claims is to be removed.
    fn judge_candidate(&mut self, id: &ObjectId) {
        if let Some(order) = self.candidates.remove(id)
            && let Some(wave) = self.waves.get_mut(&order)
        {
            wave.remove(id);
            if wave.is_empty() {
                self.waves.remove(&order);
            }
        }
        let claimed = self.claims.get(id).is_some_and(|nodes| !nodes.is_empty());
        if let (false, Some(record)) = (claimed, self.owned.get(id)) {
            self.candidates.insert(id.clone(), record.order);
            self.waves.entry(record.order).or_default().insert(id.clone());
        }
    }

    /// Hands out the writes that nodes ask for and notes that they are under way.
    fn collect(&mut self, pass: &Pass<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        for position in std::mem::take(&mut self.acting) {
            let Some(node) = self.nodes.get_mut(position) else { continue };
            for action in std::mem::take(&mut node.wanted) {
                let seen = memory::version(pass.world.object(action.id()));
                node.memory.entry(action.id().clone()).or_default().depart(&action, seen);
                self.unanswered.insert((position, action.id().clone()));
                actions.push(action);
            }
        }
        actions
    }
}
