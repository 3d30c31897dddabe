//! Template and patch nodes: their objects, one or many, compared with what is there.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kardinal_object::{ObjectId, text_at};
use serde_json::Value;

use super::evaluate::Judgement;
use super::memory::{Advice, Memory, version};
use super::{Pass, Reach, Walker};
use crate::action::Action;
use crate::desired::{Desired, Unaddressed, address};
use crate::graph::{Node, NodeKind};
use crate::identity::Marks;
use crate::observe::Seen;
use crate::owned::is_terminating;
use crate::report::{NodeState, Wait, WaitReason};
use crate::scope::earliest;

/// How one object of a node is.
enum Child {
    /// As it should be.
    InPlace,
    /// There, but a write is due or under way.
    Updating,
    /// A write that makes it is due or under way.
    Creating,
    Waiting(Wait),
    Trouble(NodeState, String),
}

/// What all objects of a node come to.
#[derive(Default)]
struct Tally {
    waits: Vec<Wait>,
    trouble: Option<(NodeState, String)>,
    updating: bool,
    wanted: Vec<Action>,
    timer: Option<Timestamp>,
}

impl Tally {
    fn add(&mut self, node: &Node, id: &ObjectId, child: Child) {
        match child {
            Child::InPlace => {}
            Child::Updating => self.updating = true,
            Child::Creating => {
                let detail = format!("{id} is applied but not observed yet");
                self.waits.push(Wait::new(&node.id, WaitReason::NotObserved, detail));
            }
            Child::Waiting(wait) => self.waits.push(wait),
            Child::Trouble(state, message) => {
                if self.trouble.as_ref().is_none_or(|(worst, _)| state > *worst) {
                    self.trouble = Some((state, message));
                }
            }
        }
    }
}

impl Walker {
    pub(super) fn write(
        &self,
        node: &Node,
        position: usize,
        bodies: Vec<Value>,
        memory: &mut BTreeMap<ObjectId, Box<Memory>>,
        pass: &Pass<'_>,
    ) -> Judgement {
        let ids = match self.addresses(node, position, &bodies, pass) {
            Ok(ids) => ids,
            Err(judgement) => return *judgement,
        };
        let permits = match self.may_write(node, &ids, pass) {
            Ok(permits) => permits,
            Err(stopped) => return *stopped,
        };
        let claims: BTreeSet<ObjectId> = ids.iter().cloned().collect();
        memory.retain(|id, memory| claims.contains(id) || memory.in_flight());
        let mut tally = Tally::default();
        for (at, (id, body)) in ids.iter().zip(bodies).enumerate() {
            let index = node.is_collection().then_some(at);
            let memory = memory.entry(id.clone()).or_default();
            let child = self.child(node, (id, body, index), memory, pass, &mut tally);
            tally.add(node, id, child);
        }
        let mut judgement = match (tally.trouble, tally.waits.first()) {
            (Some((state, message)), _) => Judgement::new(state, Reach::Failed, message),
            (None, Some(wait)) => Judgement::pending(wait.detail.clone(), tally.waits),
            (None, None) => {
                let mut judgement = Judgement::new(NodeState::Ready, Reach::Open, "");
                judgement.value = self.join(node, &ids, pass);
                self.finish(node, &mut judgement, pass);
                if tally.updating && judgement.reach == Reach::Open {
                    judgement.reach = Reach::Held;
                }
                judgement.outstanding = tally.updating;
                judgement
            }
        };
        judgement.reads.objects = claims.clone();
        judgement.reads.permits = permits;
        judgement.claims = claims;
        judgement.wanted = tally.wanted;
        judgement.timer = earliest(judgement.timer, tally.timer);
        judgement
    }

    /// The addresses of all bodies. No two objects of a Graph may have the same one: it has one field manager, and
    /// the second write would take back the first.
    fn addresses(
        &self,
        node: &Node,
        position: usize,
        bodies: &[Value],
        pass: &Pass<'_>,
    ) -> Result<Vec<ObjectId>, Box<Judgement>> {
        let mut ids = Vec::with_capacity(bodies.len());
        let mut seen = BTreeSet::new();
        for body in bodies {
            let id = match address(body, &self.owner, pass.world) {
                Ok(id) => id,
                Err(Unaddressed::Unserved(gvk)) => return Err(Box::new(Judgement::unserved(node, gvk))),
                Err(Unaddressed::Invalid(message)) => return Err(Box::new(Judgement::failed(message))),
            };
            if !seen.insert(id.clone()) {
                let message = format!("forEach gives {id} twice; every item needs a name of its own");
                return Err(Box::new(Judgement::failed(message)));
            }
            ids.push(id);
        }
        for id in &ids {
            let first = self.claims.get(id).and_then(|nodes| nodes.first().copied());
            if let Some(other) = first.filter(|other| *other < position) {
                let message = format!("{id} is managed by node `{}` already", self.graph.id_of(other));
                let mut judgement = Judgement::failed(message);
                judgement.claims = ids.into_iter().collect();
                judgement.reads.objects = judgement.claims.clone();
                return Err(Box::new(judgement));
            }
        }
        Ok(ids)
    }

    /// Whether this would make, or take for its own, the successor of an object to which the Graph belongs.
    fn orphaned(&self, id: &ObjectId, seen: Seen<'_>) -> bool {
        let Some(parent) = self.owner.parent(id) else { return false };
        match seen {
            Seen::Unknown => false,
            Seen::Absent => true,
            Seen::Present(object) => text_at(object, &["metadata", "uid"]) != Some(parent.uid.as_str()),
        }
    }

    /// Whether another Graph keeps its object from a node.
    fn holds(&self, node: &Node, id: &ObjectId, other: &str) -> Option<String> {
        match (self.fence.takes_from(&self.owner, other), node.force) {
            (true, true) => None,
            (true, false) => Some(format!(
                "{id} belongs to the Graph `{other}`; `lifecycle.apply: Force` would take it over"
            )),
            (false, _) => Some(format!(
                "{id} belongs to the Graph `{other}` of another namespace, from which nothing is taken over: give the \
                 object another name, or have that Graph give it up"
            )),
        }
    }

    fn child(
        &self,
        node: &Node,
        (id, body, index): (&ObjectId, Value, Option<usize>),
        memory: &mut Memory,
        pass: &Pass<'_>,
        tally: &mut Tally,
    ) -> Child {
        let seen = pass.world.object(id);
        let wait = |why, detail| Child::Waiting(Wait::new(&node.id, why, detail));
        let observed = match seen {
            Seen::Unknown => return wait(WaitReason::KindUnknown, format!("{id} is not known yet")),
            _ if self.orphaned(id, seen) => {
                let detail = format!("{id} is gone; it owns this Graph, which does not make it again");
                return wait(WaitReason::ObjectAbsent, detail);
            }
            Seen::Absent if node.kind == NodeKind::Patch => {
                return wait(WaitReason::ObjectAbsent, format!("{id} does not exist; patch needs it"));
            }
            Seen::Absent => None,
            Seen::Present(object) if is_terminating(object) => {
                return wait(WaitReason::Terminating, format!("{id} is being deleted"));
            }
            Seen::Present(object) => Some(object),
        };
        if let Some(object) = observed.filter(|_| node.kind == NodeKind::Template)
            && let Some(other) = Marks::read(object, &self.owner.uid).foreign
            && let Some(message) = self.holds(node, id, &other)
        {
            return Child::Trouble(NodeState::Conflict, message);
        }
        if let Err(message) = self.fence.content(id, &body) {
            return Child::Trouble(NodeState::Error, message);
        }
        let desired = match Desired::new(node, &self.owner, id.clone(), body, index, observed) {
            Ok(desired) => desired,
            Err(message) => return Child::Trouble(NodeState::Error, message),
        };
        if let Some(object) = observed {
            let projection = desired.projection(object);
            let as_applied = memory.is_as_applied(&desired.hash, projection);
            if as_applied
                || (!memory.has_applied(&desired.hash) && desired.matches(node, &self.owner, object))
            {
                memory.confirm(&desired.hash, projection);
                return Child::InPlace;
            }
        }
        match memory.advise(&desired.hash, &version(seen), pass.now) {
            Advice::Write => tally.wanted.push(desired.action(node)),
            Advice::Wait(until) => tally.timer = earliest(tally.timer, until),
            Advice::Rest => {}
        }
        if let Some(trouble) = &memory.trouble {
            tally.timer = earliest(tally.timer, trouble.retry_at.filter(|at| *at > pass.now));
            return Child::Trouble(trouble.state, trouble.message.clone());
        }
        if observed.is_some() { Child::Updating } else { Child::Creating }
    }
}
