//! The PromotionStep's part of the sentence: one Bundle on its way into one environment.
//!
//! A step does one [`Effect`] at a time and writes down what came of it before the next. Every effect may be done
//! again: a commit carries the step's identity and a pull request its marker, so that a step that was interrupted
//! between an effect and its record finds its own work and goes on.

mod body;
mod change;
mod check;
mod closing;
mod commit_check;
mod draft;
mod effect;
mod facts;
mod gates;
pub(crate) mod lane;
mod late;
mod memory;
mod organisation;
mod outcome;
mod pending;
mod plan;
mod promoting;
mod pull_request;
pub(crate) mod remedy;
mod removal;
mod reopening;
mod report;
mod snapshot;
mod state;
mod target;
mod tasks;
#[cfg(test)]
mod tests;
mod verifying;
mod waiting;
pub mod why;

use kardinal_vcs::{Barrier, CommitState, NewPullRequest, PullRequest, PullRequestState};

pub(crate) use change::{base_branch, directory};
pub use change::{promotion_branch, rollback_of, undone};
pub(crate) use check::TYPES;
pub use check::{CheckedStep, Problem, check};
pub use effect::{
    CommitOrder, Edit, Effect, ForgeEffect, GitEffect, MergeStrategy, SecretKey, Shown, StepEffect, TaskCall,
};
pub use facts::{Hold, gate_texts, hold, image_moves};
pub use kardinal_planner::condition::Note;
pub(crate) use lane::has_begun;
pub use lane::has_no_claim;
pub use late::concerns;
pub use memory::Memory;
pub(crate) use organisation::is_behind;
pub use organisation::{Ground, Organisation};
pub use outcome::{ImageMove, Outcome, Push, Retry};
use plan::is_proven;
pub use plan::{Plan, objection, plan};
pub use report::{BLOCKED_ATTEMPTS_MAX, Report, in_time, report};
pub use snapshot::Snapshot;
use state::is_over;
pub(crate) use state::pull_request_number;
pub use state::{
    asks_gates, is_before_the_change, is_of_another, is_rejected, promoted_commit, tells_people,
};
pub use target::target;
pub(crate) use target::written_to;
pub use tasks::{Call, Task, TaskKind};
pub(crate) use verifying::{Ending, ending};
pub use verifying::{awaits_look, looks_before_push};

/// Keeps a step that may have a promotion branch until its pull request is closed and the branch is gone.
pub const FINALIZER: &str = "kardinal.io/promotion";
/// The field manager of a step's status and finalizer.
pub const MANAGER: &str = "kardinal-promotion-controller";
/// What the context of the commit status of a pull request begins with; the branch that it goes into follows.
const STATUS_CONTEXT: &str = "kardinal/gates";
