//! Removing what no node wants any more. Nothing is removed while it is open what some node wants.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::memory::version;
use super::{Pass, Walker};
use crate::action::Action;
use crate::removal::Removal;
use crate::report::{Wait, WaitReason};
use crate::scope::earliest;
use kardinal_object::ObjectId;

impl Walker {
    pub(super) fn prune(&mut self, pass: &Pass<'_>) -> Vec<Action> {
        self.removing.clear();
        self.removal_wake = None;
        self.removal_permits.clear();
        if self.waves.is_empty() {
            self.removals.retain(|_, attempt| attempt.flight);
            return Vec::new();
        }
        if self.undecided > 0 {
            let detail = format!(
                "{} objects stay while {} nodes are undecided",
                self.candidates.len(),
                self.undecided
            );
            self.removing.push(Wait::new("", WaitReason::Undecided, detail));
            return Vec::new();
        }
        let permits = RefCell::default();
        let removal = Removal {
            graph: Some(&self.graph),
            owner: &self.owner,
            fence: &self.fence,
            permits: &permits,
            owned: &self.owned,
            waves: &self.waves,
            world: pass.world,
            limits: &self.limits,
            now: pass.now,
        };
        let plan = removal.plan();
        self.removal_permits = permits.into_inner();
        let (mut until, mut actions) = (plan.until, Vec::new());
        self.removing = plan.waits;
        let planned: BTreeSet<ObjectId> = plan.actions.iter().map(|action| action.id().clone()).collect();
        self.removals.retain(|id, attempt| attempt.flight || planned.contains(id));
        for action in plan.actions {
            let seen = version(pass.world.object(action.id()));
            let attempt = self.removals.entry(action.id().clone()).or_default();
            if let Some(message) = &attempt.message {
                let detail = format!("{}: {message}", action.id());
                self.removing.push(Wait::new(action.node(), WaitReason::Retry, detail));
            }
            if attempt.flight {
                continue;
            }
            match attempt.rests_until(&seen, pass.now) {
                Some(at) => until = earliest(until, Some(at)),
                None => {
                    attempt.depart(seen);
                    actions.push(action);
                }
            }
        }
        self.removal_wake = until;
        actions
    }
}
