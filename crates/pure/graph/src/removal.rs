//! What to remove next, in which order: from the highest layer down, each layer really gone before the next.
//!
//! Needs marks only, no expressions. Nodes that finalize others are the exception; without a Graph they are skipped.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kardinal_cel::Limits;
use kardinal_object::ObjectId;
use serde_json::Value;

use crate::action::Action;
use crate::fence::{Fence, Passage, Permission, Permit};
use crate::finalize::{Finalizer, finalize};
use crate::graph::Graph;
use crate::identity::Owner;
use crate::observe::Observed;
use crate::owned::OwnedIndex;
use crate::report::{Wait, WaitReason};
use crate::scope::earliest;

/// Objects to remove, by the layer in which they were applied.
pub(crate) type Waves = BTreeMap<u64, BTreeSet<ObjectId>>;

/// Everything that removal looks at.
pub(crate) struct Removal<'a> {
    pub(crate) graph: Option<&'a Graph>,
    pub(crate) owner: &'a Owner,
    pub(crate) fence: &'a Fence,
    pub(crate) owned: &'a OwnedIndex,
    pub(crate) waves: &'a Waves,
    pub(crate) world: &'a dyn Observed,
    pub(crate) limits: &'a Limits,
    pub(crate) now: Timestamp,
    /// What was read, or would have been, with the rights of an account.
    pub(crate) permits: &'a RefCell<BTreeSet<Permit>>,
}

/// What to do now, and what is waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct RemovalPlan {
    pub(crate) actions: Vec<Action>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) until: Option<Timestamp>,
}

impl Removal<'_> {
    /// Plans the highest wave that has something left.
    pub(crate) fn plan(&self) -> RemovalPlan {
        let mut plan = RemovalPlan::default();
        let held = self.held_finalizers();
        for wave in self.waves.values().rev() {
            let ready: Vec<&ObjectId> = wave.iter().filter(|id| !held.contains(*id)).collect();
            if ready.is_empty() {
                continue;
            }
            let mut finalizers = BTreeMap::new();
            for id in ready {
                self.remove(id, &mut finalizers, &mut plan);
            }
            break;
        }
        plan
    }

    fn remove(&self, id: &ObjectId, finalizers: &mut BTreeMap<usize, bool>, plan: &mut RemovalPlan) {
        let Some(record) = self.owned.get(id) else { return };
        let node = record.nodes.keys().next().map(|key| self.name(key)).unwrap_or_default();
        if record.terminating && record.is_ours() {
            let detail = format!("{id} is being deleted");
            plan.waits.push(Wait::new(&node, WaitReason::Terminating, detail));
            return;
        }
        for key in record.nodes.keys() {
            for finalizer in self.finalizers_of(key) {
                let done = match finalizers.get(&finalizer) {
                    Some(done) => *done,
                    None => self.finalizer_done(finalizer, key, plan),
                };
                finalizers.insert(finalizer, done);
                if !done {
                    return;
                }
            }
        }
        let id = id.clone();
        plan.actions.push(if record.is_ours() {
            Action::Delete { node, id, uid: record.uid.clone() }
        } else {
            Action::Release { node, id, uid: record.uid.clone() }
        });
    }

    fn finalizer_done(&self, finalizer: usize, target: &str, plan: &mut RemovalPlan) -> bool {
        let Some(graph) = self.graph else { return true };
        let targets = self.targets(target);
        let values: Vec<&Value> = targets.iter().filter_map(|id| self.world.object(id).present()).collect();
        let name = graph.id_of(finalizer);
        match finalize(graph, finalizer, &values, self) {
            Finalizer::Done => true,
            Finalizer::Skipped(note) => {
                plan.waits.push(Wait::new(name, WaitReason::FinalizerSkipped, note));
                true
            }
            Finalizer::Busy { actions, detail, until } => {
                plan.actions.extend(actions);
                plan.until = earliest(plan.until, until);
                plan.waits.push(Wait::new(name, WaitReason::Finalizing, detail).until(until));
                false
            }
        }
    }

    /// Objects of the node that are to be removed and not yet going.
    fn targets(&self, key: &str) -> Vec<ObjectId> {
        let candidate = |id: &&ObjectId| {
            self.owned.get(id).is_some_and(|record| {
                !record.terminating && self.waves.get(&record.order).is_some_and(|wave| wave.contains(*id))
            })
        };
        self.owned.of_node(key).filter(candidate).cloned().collect()
    }

    fn finalizers_of(&self, key: &str) -> Vec<usize> {
        let Some(graph) = self.graph else { return Vec::new() };
        let Some(target) = graph.keys.get(key) else { return Vec::new() };
        let nodes = graph.finalizers.iter().copied();
        nodes.filter(|node| graph.node(*node).is_some_and(|node| node.finalizes == Some(*target))).collect()
    }

    /// Objects of finalizing nodes whose targets are still there; they go after their targets.
    fn held_finalizers(&self) -> BTreeSet<ObjectId> {
        let mut held = BTreeSet::new();
        let Some(graph) = self.graph else { return held };
        for node in graph.finalizers.iter().filter_map(|node| graph.node(*node)) {
            let target = node.finalizes.and_then(|target| graph.node(target));
            let busy = target.is_some_and(|target| {
                self.owned.of_node(&target.key).any(|id| {
                    let order = self.owned.get(id).map(|record| record.order).unwrap_or_default();
                    self.waves.get(&order).is_some_and(|wave| wave.contains(id))
                })
            });
            if busy {
                held.extend(self.owned.of_node(&node.key).cloned());
            }
        }
        held
    }

    /// Whether something may be read.
    pub(crate) fn may(&self, passage: Passage) -> bool {
        match passage {
            Passage::Open => true,
            Passage::Ask(permit) => {
                let granted = self.world.permission(&permit) == Permission::Granted;
                self.permits.borrow_mut().insert(permit);
                granted
            }
            Passage::Refused(_) => false,
        }
    }

    /// Something that the account may or may not read; nobody has answered yet.
    pub(crate) fn unanswered(&self) -> Option<Permit> {
        let permits = self.permits.borrow();
        permits.iter().find(|permit| self.world.permission(permit) == Permission::Unknown).cloned()
    }

    fn name(&self, key: &str) -> String {
        let known = self.graph.and_then(|graph| graph.keys.get(key).map(|at| graph.id_of(*at)));
        known.unwrap_or(key).to_owned()
    }
}
