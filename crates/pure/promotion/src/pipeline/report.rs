//! What has changed in the conditions of a Pipeline since they were written last.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kardinal_api::kardinal::Pipeline;
use kardinal_planner::condition::{self, NewCondition, Note, Truth};

use crate::bundle::READY;

/// The conditions of a Pipeline, compared with those before.
pub(super) struct Comparison<'a> {
    pub(super) old: &'a [Condition],
    pub(super) pipeline: &'a Pipeline,
    pub(super) now: Timestamp,
    pub(super) notes: &'a mut Vec<Note>,
}

impl Comparison<'_> {
    /// A condition, with an Event where its answer differs from the last.
    pub(super) fn compare(&mut self, new: NewCondition) -> Condition {
        let before = condition::find(self.old, new.type_);
        let has_turned = before.is_none_or(|before| !condition::is(before, new.truth));
        let fails = new.truth == Truth::False;
        // That Secrets are there is no news, unless one was missing.
        if has_turned && (new.type_ == READY || fails || before.is_some()) {
            self.notes.push(new.note(fails));
        }
        new.since(self.old, self.pipeline.metadata.generation, self.now)
    }
}
