//! Taking a whole Graph down: every object it owns, in reverse order.
//!
//! Works from labels and annotations alone, so a Graph that no longer compiles can be removed too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kardinal_cel::Limits;
use kardinal_object::ObjectId;

use crate::action::Action;
use crate::fence::{Fence, Permit};
use crate::graph::Graph;
use crate::identity::Owner;
use crate::observe::Observed;
use crate::owned::OwnedIndex;
use crate::removal::{Removal, Waves};
use crate::report::{Wait, WaitReason};

/// One step of a teardown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TeardownStep {
    /// What to do now.
    pub actions: Vec<Action>,
    /// Whether nothing is left that could be removed.
    pub done: bool,
    /// What is waited for, and which finalizing nodes were skipped.
    pub waits: Vec<Wait>,
    /// Objects that stay, with the reason.
    pub left: BTreeMap<ObjectId, String>,
    /// What the account must be allowed to read for the nodes that run before others go.
    pub permits: BTreeSet<Permit>,
    /// When to look again although nothing changes.
    pub wake: Option<Timestamp>,
}

/// What a teardown is decided from.
#[derive(Clone, Copy)]
pub struct Teardown<'a> {
    /// The Graph that goes.
    pub owner: &'a Owner,
    /// How far it reaches: what is outside stays.
    pub fence: &'a Fence,
    /// Its objects.
    pub world: &'a dyn Observed,
    /// Without it, nodes with `finalizes` are not run; their existing objects are removed like all others.
    pub graph: Option<&'a Graph>,
    /// Objects whose removal the server has refused, with its message: they stay, and nobody waits for them.
    pub refused: &'a BTreeMap<ObjectId, String>,
}

impl Teardown<'_> {
    /// Decides what to remove next. It keeps no state: an object that is already being deleted is only waited for.
    pub fn step(&self, now: Timestamp) -> TeardownStep {
        let owned = OwnedIndex::read(self.world, self.owner, self.fence);
        if !owned.known {
            let wait =
                Wait::new("", WaitReason::KindUnknown, "the caches of the managed kinds are not synced yet");
            return TeardownStep { waits: vec![wait], ..TeardownStep::default() };
        }
        let mut left = owned.outside().clone();
        let mut waves = Waves::new();
        for (id, record) in owned.all() {
            match self.refused.get(id).filter(|_| !record.terminating) {
                Some(message) => drop(left.insert(id.clone(), message.clone())),
                None => drop(waves.entry(record.order).or_default().insert(id.clone())),
            }
        }
        let limits = Limits::default();
        let (graph, owner, fence, world) = (self.graph, self.owner, self.fence, self.world);
        let (owned, waves, limits) = (&owned, &waves, &limits);
        let permits = RefCell::default();
        let removal = Removal { graph, owner, fence, owned, waves, world, limits, now, permits: &permits };
        let mut plan = removal.plan();
        if graph.is_none() && !waves.is_empty() {
            let note = "the Graph does not compile: nodes with `finalizes`, if any, are skipped";
            plan.waits.push(Wait::new("", WaitReason::FinalizerSkipped, note));
        }
        TeardownStep {
            actions: plan.actions,
            done: waves.is_empty(),
            waits: plan.waits,
            left,
            permits: permits.into_inner(),
            wake: plan.until,
        }
    }
}
