//! What to do about a Graph now.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kardinal_api::graph::{Graph, GraphRevision, GraphRevisionSpec, GraphStatus, KindReference};
use kardinal_graph::{Action, Changed, Fence, NodeState, Outcome, Permit, Step, Teardown, Wait, Walker};
use kardinal_object::{Gvk, ObjectId, name_of};

use super::report::left_behind;
use super::{Checked, FINALIZER, Running, Snapshot, check, fence, owner};
use crate::sentence;

/// How many superseded revisions are kept.
const REVISIONS_KEPT: usize = 5;

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Puts our finalizer on the Graph, before anything is applied.
    AddFinalizer,
    /// Lets the Graph go, after everything is gone.
    RemoveFinalizer,
    /// Creates the revision unless it exists.
    EnsureRevision(Box<GraphRevision>),
    /// Deletes a superseded revision.
    DropRevision {
        /// Its name.
        name: String,
        /// Exactly this one.
        uid: String,
    },
    /// Writes down every kind that may be applied, before the first of them is: teardown looks there.
    RecordKinds(Vec<KindReference>),
    /// A write that the walk asks for.
    Walk(Action),
}

/// What one pass does.
pub type Plan = sentence::Plan<Effect, GraphStatus>;

/// What a deletion waits for, and what it leaves.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// What it waits for.
    pub(super) waits: Vec<Wait>,
    /// What stays after the Graph because it may not be removed, with the reason.
    pub(super) left: BTreeMap<ObjectId, String>,
}

/// What one process remembers of a Graph between passes. It only saves work:
/// a pass with an empty memory comes to the same decisions.
#[derive(Default)]
pub struct Memory {
    checked: Option<(Identity, Checked)>,
    /// The walk of the running revision.
    pub walker: Option<Walker>,
    walked: String,
    /// Objects whose removal was refused while the Graph is being deleted.
    refused: BTreeMap<ObjectId, String>,
    /// The account that a deletion acts as, and what it has to know about its rights.
    leaving: Option<(String, BTreeSet<Permit>)>,
    /// How the deletion stands, when the last plan was about one.
    pub(super) removal: Option<Removal>,
}

/// Which text a Graph had: a Graph that was made anew under the same name is another one.
type Identity = (String, i64);

impl Memory {
    /// The result of the check, which is made once for each edit.
    pub fn check(&mut self, graph: &Graph, revisions: &[GraphRevision]) -> Checked {
        let identity = (owner(graph).uid, graph.metadata.generation.unwrap_or_default());
        if let Some((known, checked)) = &self.checked
            && *known == identity
        {
            return checked.clone();
        }
        let checked = check(graph, revisions);
        self.checked = Some((identity, checked.clone()));
        checked
    }

    /// Forgets a walk that has reached its end: should anything change, it is walked again from the beginning.
    pub fn rest(&mut self) {
        let at_its_end = |walker: &Walker| {
            walker.removing().is_empty()
                && matches!(walker.worst(), None | Some(NodeState::Ready | NodeState::Excluded))
        };
        if self.walker.as_ref().is_some_and(at_its_end) {
            self.walker = None;
            self.checked = None;
        }
    }

    /// Whether the last plan was about a deletion.
    pub fn is_removing(&self) -> bool {
        self.removal.is_some()
    }

    /// The account of the Graph's namespace that the Graph acts as.
    pub fn account(&self) -> Option<&str> {
        match (&self.leaving, self.walker.as_ref().map(Walker::fence)) {
            (Some((account, _)), _) | (None, Some(Fence::Account(account))) => Some(account),
            _ => None,
        }
    }

    /// What that account must be allowed to read.
    pub fn permits(&self) -> impl Iterator<Item = &Permit> {
        let leaving = self.leaving.iter().flat_map(|(_, permits)| permits);
        let staying = self.walker.iter().filter(|_| self.leaving.is_none());
        leaving.chain(staying.flat_map(Walker::permits))
    }

    /// Notes which removals of a deletion the server refused: they are not asked for again, so that the deletion goes on.
    /// Returns whether there was one.
    pub fn note_refusals(&mut self, outcomes: &[(Action, Outcome)]) -> bool {
        let mut any = false;
        for (action, outcome) in outcomes.iter().filter(|(action, _)| action.is_removal()) {
            if let Outcome::Refused(message) = outcome {
                self.refused.insert(action.id().clone(), message.clone());
                any = true;
            }
        }
        any
    }

    /// The walker of the running revision, new when the revision or the Graph is another one.
    fn walker(&mut self, running: &Running, graph: &Graph, fence: Fence) -> (&mut Walker, bool) {
        let owner = owner(graph);
        let hash = running.graph.hash();
        let known = self.walker.as_ref().is_some_and(|walker| {
            *walker.owner() == owner && *walker.fence() == fence && self.walked == hash
        });
        if !known {
            self.walker = None;
            hash.clone_into(&mut self.walked);
        }
        (self.walker.get_or_insert_with(|| Walker::new(running.graph.clone(), owner, fence)), !known)
    }
}

/// Decides what to do. Cannot fail: whatever was observed, something sensible follows.
pub fn plan(checked: &Checked, snapshot: &Snapshot<'_>, memory: &mut Memory) -> Plan {
    memory.removal = None;
    if snapshot.graph.metadata.deletion_timestamp.is_some() {
        return plan_teardown(checked, snapshot, memory);
    }
    memory.refused.clear();
    memory.leaving = None;
    let Some(running) = &checked.running else { return Plan::default() };
    let fence = fence(snapshot.graph, snapshot.scope);
    let (walker, fresh) = memory.walker(running, snapshot.graph, fence);
    let changed = if fresh { &Changed::All } else { &snapshot.changed };
    let Step { actions, wake, .. } = walker.step(changed, snapshot.world, snapshot.now);
    let mut stages = prelude(running, snapshot, &actions);
    stages.push(actions.into_iter().map(Effect::Walk).collect());
    stages.push(superseded(snapshot, running));
    stages.retain(|stage| !stage.is_empty());
    Plan { stages, wake, ..Plan::default() }
}

/// What must be durable before the first object is applied.
fn prelude(running: &Running, snapshot: &Snapshot<'_>, actions: &[Action]) -> Vec<Vec<Effect>> {
    let graph = snapshot.graph;
    let mut stages = Vec::new();
    if !has_finalizer(graph) {
        stages.push(vec![Effect::AddFinalizer]);
    }
    let name = revision_name(name_of(&graph.metadata), running.generation);
    let newest = snapshot.revisions.last();
    let known = snapshot.revisions.iter().any(|revision| name_of(&revision.metadata) == name)
        || newest.is_some_and(|revision| revision.spec.hash == running.graph.hash());
    // An older revision than the Graph itself was written down when it was the newest.
    if !known && Some(running.generation) == graph.metadata.generation {
        stages.push(vec![Effect::EnsureRevision(Box::new(revision(graph, running, name)))]);
    }
    let recorded = recorded_kinds(graph);
    let applied = actions.iter().filter(|action| !action.is_removal()).map(|action| action.id().gvk.clone());
    let needed: BTreeSet<Gvk> = running.graph.static_kinds().into_iter().chain(applied).collect();
    if !needed.is_subset(&recorded) {
        let all = recorded.union(&needed).map(kind_reference).collect();
        stages.push(vec![Effect::RecordKinds(all)]);
    }
    stages
}

/// Revisions beyond the ones we keep.
fn superseded(snapshot: &Snapshot<'_>, running: &Running) -> Vec<Effect> {
    let count = snapshot.revisions.len().saturating_sub(REVISIONS_KEPT + 1);
    let old = snapshot.revisions.iter().take(count);
    old.filter(|revision| revision.spec.generation != running.generation)
        .map(|revision| Effect::DropRevision {
            name: name_of(&revision.metadata).to_owned(),
            uid: revision.metadata.uid.clone().unwrap_or_default(),
        })
        .collect()
}

fn plan_teardown(checked: &Checked, snapshot: &Snapshot<'_>, memory: &mut Memory) -> Plan {
    if !has_finalizer(snapshot.graph) {
        return Plan::default();
    }
    let compiled = checked.running.as_ref().map(|running| running.graph.as_ref());
    let fence = fence(snapshot.graph, snapshot.scope);
    let teardown = Teardown {
        owner: &owner(snapshot.graph),
        fence: &fence,
        world: snapshot.world,
        graph: compiled,
        refused: &memory.refused,
    };
    let step = teardown.step(snapshot.now);
    if let Fence::Account(account) = fence {
        memory.leaving = Some((account, step.permits));
    }
    let stage = match (step.done, is_reported(snapshot.graph, &step.left)) {
        (true, true) => vec![Effect::RemoveFinalizer],
        // The report says what stays; the Graph goes in the pass after it.
        (true, false) => Vec::new(),
        (false, _) => step.actions.into_iter().map(Effect::Walk).collect(),
    };
    let stages = if stage.is_empty() { Vec::new() } else { vec![stage] };
    memory.removal = Some(Removal { waits: step.waits, left: step.left });
    Plan { stages, wake: step.wake, ..Plan::default() }
}

/// Whether the status names everything that stays.
fn is_reported(graph: &Graph, left: &BTreeMap<ObjectId, String>) -> bool {
    let Some(message) = left_behind(left) else { return true };
    let conditions = graph.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.type_ == kardinal_api::graph::LEFT_BEHIND && condition.message == message)
}

/// The kinds that the Graph's status says were, or may have been, applied.
pub fn recorded_kinds(graph: &Graph) -> BTreeSet<Gvk> {
    let recorded = graph.status.iter().flat_map(|status| &status.kinds);
    recorded.filter_map(|kind| Gvk::parse(&kind.api_version, &kind.kind)).collect()
}

pub(super) fn kind_reference(gvk: &Gvk) -> KindReference {
    KindReference { api_version: gvk.api_version(), kind: gvk.kind.to_string() }
}

/// `<graph>-g00003`: the generation is the identity, so creating it twice makes one.
pub fn revision_name(graph: &str, generation: i64) -> String {
    let head: String = graph.chars().take(245).collect();
    format!("{head}-g{generation:05}")
}

fn revision(graph: &Graph, running: &Running, name: String) -> GraphRevision {
    let spec = GraphRevisionSpec {
        graph_name: name_of(&graph.metadata).to_owned(),
        generation: running.generation,
        hash: running.graph.hash().to_owned(),
        nodes: graph.spec.nodes.clone(),
    };
    let mut revision = GraphRevision::new(&name, spec);
    revision.metadata.namespace = graph.metadata.namespace.clone();
    revision.metadata.owner_references = Some(vec![owner_reference(graph)]);
    let labels = revision.metadata.labels.get_or_insert_default();
    labels.insert("experimental.kro.run/graph-generation".to_owned(), running.generation.to_string());
    revision
}

fn owner_reference(graph: &Graph) -> OwnerReference {
    OwnerReference {
        api_version: format!("{}/{}", kardinal_api::graph::GROUP, kardinal_api::graph::VERSION),
        kind: "Graph".to_owned(),
        name: name_of(&graph.metadata).to_owned(),
        uid: graph.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn has_finalizer(graph: &Graph) -> bool {
    graph.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER)
}
