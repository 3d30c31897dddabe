//! Taking a judgement into the walk: counters, indexes, timers, and which dependents have to look again.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kardinal_cel::PathStep;
use kardinal_object::ObjectId;
use serde_json::Value;

use super::evaluate::Judgement;
use super::{PASS_LIMIT, Pass, Reach, Walker};
use crate::drift::hash_value;
use crate::graph::Source;
use crate::report::NodeState;

impl Walker {
    /// Judges one node and passes on what changed.
    pub(super) fn visit(&mut self, position: usize, pass: &Pass<'_>) {
        let graph = Arc::clone(&self.graph);
        let steps = self.steps;
        let (Some(node), Some(walk)) = (graph.node(position), self.nodes.get_mut(position)) else { return };
        if walk.passed_in != steps {
            walk.passed_in = steps;
            walk.passes = 0;
        }
        walk.passes += 1;
        let passes = walk.passes;
        let mut memory = std::mem::take(&mut walk.memory);
        let judgement = match passes.cmp(&PASS_LIMIT) {
            std::cmp::Ordering::Less => Some(self.judge(node, position, &mut memory, pass)),
            std::cmp::Ordering::Equal => Some(Judgement::failed(
                "its optional references do not settle: each change brings another one",
            )),
            std::cmp::Ordering::Greater => None,
        };
        if let Some(walk) = self.nodes.get_mut(position) {
            walk.memory = memory;
        }
        if let Some(judgement) = judgement {
            self.accept(position, judgement);
            self.signal(position, pass);
        }
    }

    fn accept(&mut self, position: usize, judgement: Judgement) {
        let Some(walk) = self.nodes.get_mut(position) else { return };
        let undecided = judgement.outstanding || judgement.report.state.is_undecided();
        self.undecided = self.undecided - usize::from(walk.undecided) + usize::from(undecided);
        walk.undecided = undecided;
        if walk.report.state != judgement.report.state {
            count(&mut self.counts, walk.report.state, judgement.report.state);
        }
        if walk.report != judgement.report {
            self.changed.insert(position);
            walk.report = judgement.report;
        }
        if walk.timer != judgement.timer {
            if let Some(at) = walk.timer {
                self.timers.remove(&(at, position));
            }
            if let Some(at) = judgement.timer {
                self.timers.insert((at, position));
            }
            walk.timer = judgement.timer;
        }
        if walk.reads != judgement.reads {
            self.interests.remove(position, &walk.reads);
            self.interests.add(position, &judgement.reads);
            walk.reads = judgement.reads;
        }
        walk.reach = judgement.reach;
        walk.value = judgement.value;
        walk.value_until = judgement.value_until;
        if judgement.wanted.is_empty() {
            self.acting.remove(&position);
        } else {
            self.acting.insert(position);
        }
        walk.wanted = judgement.wanted;
        let before = std::mem::replace(&mut walk.claims, judgement.claims.clone());
        if before != judgement.claims {
            self.claim(position, &before, &judgement.claims);
        }
    }

    fn claim(&mut self, position: usize, before: &BTreeSet<ObjectId>, after: &BTreeSet<ObjectId>) {
        for id in before.symmetric_difference(after) {
            let nodes = self.claims.entry(id.clone()).or_default();
            if after.contains(id) {
                nodes.insert(position);
            } else {
                nodes.remove(&position);
            }
            self.dirty.extend(nodes.iter().filter(|other| **other != position));
            if nodes.is_empty() {
                self.claims.remove(id);
            }
            self.judge_candidate(id);
        }
    }

    /// Marks the dependents that see something new.
    fn signal(&mut self, position: usize, pass: &Pass<'_>) {
        let graph = Arc::clone(&self.graph);
        let Some(node) = graph.node(position) else { return };
        if node.dependents.is_empty() {
            return;
        }
        let value = self.value(position, pass);
        let mut signals = Vec::with_capacity(node.dependents.len());
        for (dependent, at) in &node.dependents {
            let source = graph.node(*dependent).and_then(|node| node.sources.get(*at));
            signals.push(source.map_or(0, |source| self.seen_by(position, source, value)));
        }
        let Some(walk) = self.nodes.get_mut(position) else { return };
        for (at, (dependent, _)) in node.dependents.iter().enumerate() {
            if walk.signals.get(at) != signals.get(at) {
                self.dirty.insert(*dependent);
            }
        }
        walk.signals = signals;
    }

    /// Hash of all that a dependent can see of a node.
    fn seen_by(&self, position: usize, source: &Source, value: Option<&Value>) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Some(walk) = self.nodes.get(position) else { return 0 };
        match &walk.reach {
            Reach::Open | Reach::Held => {
                (1u8, source.gates() && !source.circular && walk.reach == Reach::Held, walk.value_until)
                    .hash(&mut hasher);
                for path in &source.paths {
                    hash_path(value, path, &mut hasher);
                }
            }
            _ if !source.gates() => 2u8.hash(&mut hasher),
            Reach::Closed(waits) => {
                3u8.hash(&mut hasher);
                for wait in waits {
                    (&wait.node, &wait.detail, wait.until).hash(&mut hasher);
                }
            }
            Reach::Out => 4u8.hash(&mut hasher),
            Reach::Failed => (5u8, walk.report.state.as_str()).hash(&mut hasher),
            Reach::Excluded => 6u8.hash(&mut hasher),
        }
        hasher.finish()
    }
}

fn count(counts: &mut std::collections::BTreeMap<NodeState, usize>, from: NodeState, to: NodeState) {
    if let Some(number) = counts.get_mut(&from) {
        *number = number.saturating_sub(1);
        if *number == 0 {
            counts.remove(&from);
        }
    }
    *counts.entry(to).or_default() += 1;
}

fn hash_path(value: Option<&Value>, path: &[PathStep], hasher: &mut DefaultHasher) {
    let mut at = value;
    for step in path {
        at = match step {
            PathStep::Field(name) | PathStep::Key(name) => at.and_then(|value| value.get(name)),
            PathStep::Index(index) => {
                usize::try_from(*index).ok().and_then(|index| at.and_then(|value| value.get(index)))
            }
            PathStep::Any => break,
        };
    }
    match at {
        Some(value) => hash_value(value, hasher),
        None => 0u8.hash(hasher),
    }
}
