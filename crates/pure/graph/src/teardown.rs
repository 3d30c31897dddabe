//! Taking a whole Graph down: every object it owns, in reverse order.
//!
//! Works from labels and annotations alone, so a Graph that no longer compiles can be removed too.

use jiff::Timestamp;
use kardinal_cel::Limits;

use crate::action::Action;
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
    /// Whether nothing is left.
    pub done: bool,
    /// What is waited for, and which finalizing nodes were skipped.
    pub waits: Vec<Wait>,
    /// When to look again although nothing changes.
    pub wake: Option<Timestamp>,
}

/// Decides what to remove next. Without a Graph, nodes with `finalizes` are not run; their existing objects are
/// removed like all others. It keeps no state: an object that is already being deleted is only waited for.
pub fn teardown_step(
    owner: &Owner,
    world: &dyn Observed,
    graph: Option<&Graph>,
    now: Timestamp,
) -> TeardownStep {
    let owned = OwnedIndex::read(world, owner);
    if !owned.known {
        let wait =
            Wait::new("", WaitReason::KindUnknown, "the caches of the managed kinds are not synced yet");
        return TeardownStep { waits: vec![wait], ..TeardownStep::default() };
    }
    let mut waves = Waves::new();
    for (id, record) in owned.all() {
        waves.entry(record.order).or_default().insert(id.clone());
    }
    let limits = Limits::default();
    let removal = Removal { graph, owner, owned: &owned, waves: &waves, world, limits: &limits, now };
    let mut plan = removal.plan();
    if graph.is_none() && !waves.is_empty() {
        let note = "the Graph does not compile: nodes with `finalizes`, if any, are skipped";
        plan.waits.push(Wait::new("", WaitReason::FinalizerSkipped, note));
    }
    TeardownStep { actions: plan.actions, done: waves.is_empty(), waits: plan.waits, wake: plan.until }
}
