//! Everything a decision about one step is made from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, PolicyGate, PromotionStep};
use kardinal_vcs::PullRequest;

use super::{Hold, Organisation, Shown};
use crate::health::HealthFacts;
use crate::seal::Key;

/// Everything a decision about one step is made from.
pub struct Snapshot<'a> {
    /// The step as last seen.
    pub step: &'a PromotionStep,
    /// The Bundle to promote; `None` when it does not exist.
    pub bundle: Option<&'a Bundle>,
    /// The other steps of the same Pipeline and environment.
    pub others: Vec<&'a PromotionStep>,
    /// The other steps of the same Bundle, while the step has a pull request to fill.
    pub siblings: Vec<&'a PromotionStep>,
    /// Why everything is held, such as a paused Pipeline.
    pub hold: Option<Hold>,
    /// What the organisation's gates say; else why that is not known, which holds the step as a closed gate does.
    pub organisation: Result<&'a Organisation, &'a str>,
    /// What the controller seals its verifications with.
    pub key: Option<&'a Key>,
    /// The required gates that exist, by name.
    pub gates: BTreeMap<String, &'a PolicyGate>,
    /// What to say about each gate in the pull request, by name.
    pub gate_texts: BTreeMap<String, String>,
    /// The pull request as last read; `None` when it was not read since the process started, or since an effect on
    /// it was left without an answer.
    pub pull_request: Option<&'a PullRequest>,
    /// Whether a pull request was looked for in vain since the process started, or since something was heard of one.
    pub has_no_pull_request: bool,
    /// Whether this process has heard of a pull request of the step.
    pub heard_of_pull_request: bool,
    /// The commit whose check this process has set to pending, if it has shown nothing else there since.
    pub withdrawn: Option<&'a str>,
    /// Whether this process has asked the forge to show something on the newest commit of the pull request.
    pub has_shown: bool,
    /// What this process has shown last on a commit. Unlike the status, nobody else can put an older one in its place.
    pub shown: Option<&'a Shown>,
    /// What was seen of the environment, while the step checks health.
    pub health: Option<&'a HealthFacts>,
    /// The Bundle that was verified last in the environment.
    pub previous: Option<&'a Bundle>,
    /// The Bundle whose configuration this one undoes in the environment, when it takes another one back: see `undone`.
    pub reverted: Option<&'a Bundle>,
    /// Whether the Bundle brings back what was verified before, and not only says so.
    pub takes_back: bool,
    /// The one `now` of this pass.
    pub now: Timestamp,
}
