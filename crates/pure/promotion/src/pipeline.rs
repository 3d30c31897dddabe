//! The Pipeline's part of the sentence: is it well formed, and how do its environments stand?

mod check;
mod plan;
mod report;
#[cfg(test)]
mod tests;
pub mod why;

use std::convert::Infallible;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, Pipeline, PipelineStatus, PromotionStep};
use kardinal_planner::sentence;

pub(crate) use check::check_tasks;
pub use check::{check, secrets, task_secrets};
pub use plan::{arrivals_only, has_all, plan, wants_secrets};
pub use why::is_missing;

/// Everything a decision about one Pipeline is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Pipeline as last seen.
    pub pipeline: &'a Pipeline,
    /// The steps of its Bundles.
    pub steps: &'a [&'a PromotionStep],
    /// Its Bundles.
    pub bundles: &'a [&'a Bundle],
    /// Whether a Bundle is on its way: it may have verified one environment and not yet begun with the next.
    pub promoting: bool,
    /// The Secrets of [`secrets`] that do not exist. Absent: nobody has looked, or could not.
    pub missing: Option<&'a [String]>,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What one pass tells. There is nothing to do about a Pipeline: its Bundles act.
pub type Plan = sentence::Plan<Infallible, PipelineStatus>;

/// The condition that says whether the Secrets that a Pipeline names exist.
pub const SECRETS_FOUND: &str = "SecretsFound";
