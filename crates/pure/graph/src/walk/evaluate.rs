//! Judging one node: gates, inclusion, rendering, reading, health and propagation.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kardinal_object::{Gvk, ObjectId};
use serde_json::Value;

use super::fence::admit;
use super::gate::{Gate, NodeScope};
use super::memory::Memory;
use super::{NodeValue, Pass, Reach, Walker};
use crate::action::Action;
use crate::condition::{Verdict, check_all, check_own};
use crate::desired::{Unaddressed, address, kind};
use crate::expand::{Stop, expand};
use crate::graph::{Node, NodeKind};
use crate::interests::{Reads, Selection};
use crate::observe::Seen;
use crate::report::{NodeReport, NodeState, Wait, WaitReason};
use crate::scope::earliest;
use crate::selector::Selector;

/// A value that moves with the clock would ask to be looked at again at once.
const SHORTEST_WAKE: SignedDuration = SignedDuration::from_secs(1);

/// What is decided about a node.
pub(super) struct Judgement {
    pub(super) report: NodeReport,
    pub(super) reach: Reach,
    pub(super) value: NodeValue,
    pub(super) value_until: Option<Timestamp>,
    pub(super) reads: Reads,
    pub(super) claims: BTreeSet<ObjectId>,
    pub(super) wanted: Vec<Action>,
    pub(super) outstanding: bool,
    pub(super) timer: Option<Timestamp>,
}

impl Judgement {
    pub(super) fn new(state: NodeState, reach: Reach, message: impl Into<String>) -> Judgement {
        Judgement {
            report: NodeReport::new(state, message),
            reach,
            value: NodeValue::None,
            value_until: None,
            reads: Reads::default(),
            claims: BTreeSet::new(),
            wanted: Vec::new(),
            outstanding: false,
            timer: None,
        }
    }

    pub(super) fn failed(message: impl Into<String>) -> Judgement {
        Judgement::new(NodeState::Error, Reach::Failed, message)
    }

    pub(super) fn pending(message: impl Into<String>, waits: Vec<Wait>) -> Judgement {
        let mut judgement = Judgement::new(NodeState::Pending, Reach::Out, message);
        judgement.report.waits = waits;
        judgement
    }

    pub(super) fn unserved(node: &Node, gvk: Gvk) -> Judgement {
        let message = format!("{gvk} is not served; is its CRD installed?");
        let wait = Wait::new(&node.id, WaitReason::KindUnknown, message.clone());
        let mut judgement = Judgement::pending(message, vec![wait]);
        judgement.reads.kinds.insert(gvk);
        judgement
    }

    pub(super) fn from_stop(node: &Node, stop: Stop) -> Judgement {
        match stop {
            Stop::Missing(detail) => {
                let wait = Wait::new(&node.id, WaitReason::DataMissing, detail.clone());
                Judgement::pending(format!("waits for data: {detail}"), vec![wait])
            }
            Stop::Failed(detail) => Judgement::failed(detail),
        }
    }
}

/// Whether the includeWhen of a node lets it exist.
enum Inclusion {
    Included,
    Undecided(Vec<Wait>),
    Decided(Box<Judgement>),
}

impl Walker {
    pub(super) fn judge(
        &self,
        node: &Node,
        position: usize,
        memory: &mut BTreeMap<ObjectId, Box<Memory>>,
        pass: &Pass<'_>,
    ) -> Judgement {
        let mut judgement = match node.finalizes {
            Some(target) => {
                let message = format!("runs before `{}` is removed", self.graph.id_of(target));
                Judgement::new(NodeState::Excluded, Reach::Excluded, message)
            }
            None => self.judge_gate(node, position, memory, pass),
        };
        if judgement.report.state.is_undecided() {
            // What carries the label stays claimed, so that nobody else takes it meanwhile.
            judgement.claims.extend(self.owned.of_node(&node.key).cloned());
        }
        let objects: BTreeSet<&ObjectId> = judgement.reads.objects.iter().chain(&judgement.claims).collect();
        judgement.report.objects = objects.into_iter().cloned().collect();
        if judgement.report.state == NodeState::Excluded {
            judgement.report.objects = self.owned.of_node(&node.key).cloned().collect();
        }
        if let Some(after) = node.recheck_after {
            judgement.timer = earliest(judgement.timer, pass.now.checked_add(after).ok());
        }
        judgement.timer = judgement.timer.map(|at| {
            let moving = at.duration_since(pass.now) <= SignedDuration::from_nanos(1);
            if moving { pass.now.checked_add(SHORTEST_WAKE).unwrap_or(at) } else { at }
        });
        judgement
    }

    fn judge_gate(
        &self,
        node: &Node,
        position: usize,
        memory: &mut BTreeMap<ObjectId, Box<Memory>>,
        pass: &Pass<'_>,
    ) -> Judgement {
        let mut gate = self.gate(node);
        if !gate.excluded.is_empty() {
            let names: Vec<String> = gate.excluded.iter().map(|wait| format!("`{}`", wait.node)).collect();
            let message = format!("excluded because {} is", names.join(", "));
            let mut judgement = Judgement::new(NodeState::Excluded, Reach::Excluded, message);
            judgement.report.waits = gate.excluded;
            return judgement;
        }
        let has_run = node.kind.writes() && self.owned.has_run(&node.key);
        let frozen = has_run && !gate.closed.is_empty();
        if frozen && gate.failed.is_empty() && gate.out.is_empty() {
            return self.retain(node, &gate, pass);
        }
        let mut until = None;
        if !frozen && self.can_decide_inclusion(node) {
            match self.inclusion(node, pass, &mut until) {
                Inclusion::Included => {}
                Inclusion::Undecided(waits) => gate.out.extend(waits),
                Inclusion::Decided(mut judgement) => {
                    judgement.timer = until;
                    return *judgement;
                }
            }
        }
        let mut judgement = match self.stop(node, &mut gate) {
            Some(judgement) => judgement,
            None if has_run && !gate.held.is_empty() => self.retain(node, &gate, pass),
            None => self.run(node, position, memory, pass),
        };
        if !gate.held.is_empty() && judgement.reach == Reach::Open {
            judgement.reach = Reach::Held;
        }
        judgement.timer = earliest(judgement.timer, until);
        judgement
    }

    /// What the gate does not let pass. Values that are only read or computed follow a dependency that is being
    /// updated; writes wait for it.
    fn stop(&self, node: &Node, gate: &mut Gate) -> Option<Judgement> {
        if !gate.failed.is_empty() {
            let names: Vec<String> = gate.failed.iter().map(|wait| wait.detail.clone()).collect();
            let mut judgement = Judgement::new(NodeState::Blocked, Reach::Failed, names.join(", "));
            judgement.report.waits = std::mem::take(&mut gate.failed);
            return Some(judgement);
        }
        if !gate.out.is_empty() {
            let mut waits = std::mem::take(&mut gate.out);
            waits.append(&mut gate.closed);
            let detail = waits.first().map(|wait| wait.detail.clone()).unwrap_or_default();
            return Some(Judgement::pending(format!("waits: {detail}"), waits));
        }
        if !gate.closed.is_empty() {
            let waits = std::mem::take(&mut gate.closed);
            let names: BTreeSet<String> = waits.iter().map(|wait| format!("`{}`", wait.node)).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let mut judgement = Judgement::pending(format!("waits for the gate of {names}"), waits.clone());
            if !node.kind.writes() {
                judgement.reach = Reach::Closed(waits);
            }
            return Some(judgement);
        }
        if !gate.held.is_empty() && node.kind.writes() && !self.owned.has_run(&node.key) {
            let waits = std::mem::take(&mut gate.held);
            return Some(Judgement::pending("waits for a dependency that is being updated", waits));
        }
        None
    }

    fn inclusion(&self, node: &Node, pass: &Pass<'_>, until: &mut Option<Timestamp>) -> Inclusion {
        let scope = NodeScope { walker: self, pass, node };
        let verdict = check_all(&node.include, &scope, &self.limits);
        *until = verdict.until;
        if let Some((expression, change)) = verdict.unmet.first() {
            let message = format!("excluded: `{expression}` is false");
            let mut judgement = Judgement::new(NodeState::Excluded, Reach::Excluded, message);
            let wait = Wait::new(&node.id, WaitReason::Excluded, expression.as_str()).until(*change);
            judgement.report.waits.push(wait);
            return Inclusion::Decided(Box::new(judgement));
        }
        if let Some(error) = verdict.error {
            return Inclusion::Decided(Box::new(Judgement::failed(format!("includeWhen: {error}"))));
        }
        if verdict.missing.is_empty() {
            return Inclusion::Included;
        }
        let missing = verdict.missing.into_iter().map(|(expression, what)| {
            Wait::new(&node.id, WaitReason::DataMissing, format!("includeWhen: `{expression}`: {what}"))
        });
        Inclusion::Undecided(missing.collect())
    }

    /// Keeps what was applied last: the objects stay as they are, only health and propagation are judged.
    fn retain(&self, node: &Node, gate: &Gate, pass: &Pass<'_>) -> Judgement {
        let kept = self.owned.kept(&node.key, node.is_collection());
        let mut judgement = Judgement::new(NodeState::Ready, Reach::Open, "");
        judgement.claims = self.owned.of_node(&node.key).cloned().collect();
        judgement.reads.objects = judgement.claims.clone();
        judgement.value = self.join(node, &kept, pass);
        self.finish(node, &mut judgement, pass);
        if !gate.held.is_empty() && judgement.reach == Reach::Open {
            judgement.reach = Reach::Held;
        }
        if !gate.closed.is_empty() {
            judgement.report.retained = true;
            let names: BTreeSet<String> = gate.closed.iter().map(|wait| format!("`{}`", wait.node)).collect();
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            judgement.report.message = format!("keeps what was applied last: the gate of {names} is closed");
        }
        let waits = gate.closed.iter().chain(&gate.held).cloned();
        judgement.report.waits.extend(waits);
        judgement
    }

    fn run(
        &self,
        node: &Node,
        position: usize,
        memory: &mut BTreeMap<ObjectId, Box<Memory>>,
        pass: &Pass<'_>,
    ) -> Judgement {
        let scope = NodeScope { walker: self, pass, node };
        let (mut bodies, until) = match expand(node, &scope, &self.limits) {
            Ok(rendered) => rendered,
            Err(stop) => return Judgement::from_stop(node, stop),
        };
        let mut judgement = match node.kind {
            NodeKind::Def => {
                let mut judgement = Judgement::new(NodeState::Ready, Reach::Open, "");
                let value = if node.is_collection() {
                    Value::Array(bodies)
                } else {
                    bodies.pop().unwrap_or_default()
                };
                judgement.value = NodeValue::Computed(value);
                judgement.value_until = until;
                self.finish(node, &mut judgement, pass);
                judgement
            }
            NodeKind::Ref => self.read(node, &bodies, pass),
            NodeKind::Watch => self.watch(node, bodies.first(), pass),
            NodeKind::Template | NodeKind::Patch => self.write(node, position, bodies, memory, pass),
        };
        judgement.timer = earliest(judgement.timer, until);
        judgement
    }

    fn read(&self, node: &Node, bodies: &[Value], pass: &Pass<'_>) -> Judgement {
        let mut ids = Vec::with_capacity(bodies.len());
        for body in bodies {
            match address(body, &self.owner, pass.world) {
                Ok(id) => ids.push(id),
                Err(Unaddressed::Unserved(gvk)) => return Judgement::unserved(node, gvk),
                Err(Unaddressed::Invalid(message)) => return Judgement::failed(message),
            }
        }
        let permits = match self.may_read(node, &ids, pass) {
            Ok(permits) => permits,
            Err(stopped) => return *stopped,
        };
        let mut waits = Vec::new();
        for id in &ids {
            match pass.world.object(id) {
                Seen::Present(_) => {}
                Seen::Absent => {
                    let detail = format!("{id} does not exist");
                    waits.push(Wait::new(&node.id, WaitReason::ObjectAbsent, detail));
                }
                Seen::Unknown => {
                    waits.push(Wait::new(
                        &node.id,
                        WaitReason::KindUnknown,
                        format!("{id} is not known yet"),
                    ));
                }
            }
        }
        let mut judgement = match waits.first() {
            Some(wait) => Judgement::pending(wait.detail.clone(), waits),
            None => {
                let mut judgement = Judgement::new(NodeState::Ready, Reach::Open, "");
                judgement.value = self.join(node, &ids, pass);
                self.finish(node, &mut judgement, pass);
                judgement
            }
        };
        judgement.reads.objects = ids.into_iter().collect();
        judgement.reads.permits = permits;
        judgement
    }

    fn watch(&self, node: &Node, body: Option<&Value>, pass: &Pass<'_>) -> Judgement {
        let Some(body) = body else { return Judgement::failed("has no body") };
        let gvk = match kind(body, pass.world) {
            Ok((gvk, _)) => gvk,
            Err(Unaddressed::Unserved(gvk)) => return Judgement::unserved(node, gvk),
            Err(Unaddressed::Invalid(message)) => return Judgement::failed(message),
        };
        let selector = match Selector::read(body.get("selector")) {
            Ok(selector) => selector,
            Err(message) => return Judgement::failed(message),
        };
        let namespace = body.pointer("/metadata/namespace").and_then(Value::as_str).map(str::to_owned);
        let passage = self.fence.list(&self.owner, &gvk, namespace.as_deref());
        let permits = match admit(node, vec![passage], pass) {
            Ok(permits) => permits,
            Err(mut stopped) => {
                stopped.reads.kinds.insert(gvk);
                return *stopped;
            }
        };
        let mut judgement = match pass.world.select(&gvk, namespace.as_deref(), &selector) {
            Some(objects) => {
                let mut judgement = Judgement::new(NodeState::Ready, Reach::Open, "");
                judgement.value = NodeValue::Computed(Value::Array(objects.into_iter().cloned().collect()));
                self.finish(node, &mut judgement, pass);
                judgement
            }
            None => {
                let detail = format!("{gvk} is not known yet");
                let wait = Wait::new(&node.id, WaitReason::KindUnknown, detail.clone());
                Judgement::pending(detail, vec![wait])
            }
        };
        judgement.reads.permits = permits;
        judgement.reads.selection = Some(Selection { gvk, namespace, selector });
        judgement
    }

    /// The value of a node that consists of these objects.
    pub(super) fn join(&self, node: &Node, ids: &[ObjectId], pass: &Pass<'_>) -> NodeValue {
        if node.is_collection() {
            let objects = ids.iter().filter_map(|id| pass.world.object(id).present());
            return NodeValue::Computed(Value::Array(objects.cloned().collect()));
        }
        ids.first().map_or(NodeValue::None, |id| NodeValue::Object(id.clone()))
    }

    /// Judges health and propagation of a node that has its value.
    pub(super) fn finish(&self, node: &Node, judgement: &mut Judgement, pass: &Pass<'_>) {
        let own = match &judgement.value {
            NodeValue::None => None,
            NodeValue::Object(id) => pass.world.object(id).present(),
            NodeValue::Computed(value) => Some(value),
        };
        let Some(own) = own else {
            judgement.report.state = NodeState::Pending;
            judgement.reach = Reach::Out;
            return;
        };
        let scope = NodeScope { walker: self, pass, node };
        let ready = check_own(&node.ready, &node.id, own, &scope, &self.limits);
        let open = check_own(&node.propagate, &node.id, own, &scope, &self.limits);
        judgement.timer = earliest(judgement.timer, earliest(ready.until, open.until));
        let report = &mut judgement.report;
        report.waits.extend(waits(&node.id, WaitReason::NotReady, &ready));
        report.state = if ready.holds() { NodeState::Ready } else { NodeState::NotReady };
        report.propagating = open.holds();
        if !ready.holds() && report.message.is_empty() {
            let expressions = report.waits.iter().map(|wait| format!("`{}`", wait.detail));
            report.message = format!("not ready: {}", expressions.collect::<Vec<_>>().join(", "));
        }
        if !open.holds() {
            judgement.reach = Reach::Closed(waits(&node.id, WaitReason::GateClosed, &open));
        }
        let error = ready.error.map(|error| format!("readyWhen: {error}"));
        if let Some(message) = error.or(open.error.map(|error| format!("propagateWhen: {error}"))) {
            report.state = NodeState::Error;
            report.message = message;
            judgement.reach = Reach::Failed;
        }
    }
}

fn waits(node: &str, why: WaitReason, verdict: &Verdict) -> Vec<Wait> {
    let unmet = verdict
        .unmet
        .iter()
        .map(|(expression, until)| Wait::new(node, why, expression.as_str()).until(*until));
    let missing = verdict
        .missing
        .iter()
        .map(|(expression, what)| Wait::new(node, why, format!("{expression} ({what})")));
    unmet.chain(missing).collect()
}
