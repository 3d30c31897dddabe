//! Conditions that remember when they last changed, and the notes about their changes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::graph::Note;

/// A condition before it knows when it last changed.
pub(super) struct Judgement {
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// Whether somebody should look.
    pub(super) warning: bool,
}

impl Judgement {
    /// The condition, and a note if it says something new.
    pub(super) fn settle(
        self,
        old: &[Condition],
        generation: i64,
        now: Timestamp,
    ) -> (Condition, Option<Note>) {
        let before = old.iter().find(|condition| condition.type_ == self.kind);
        let same = before.filter(|before| before.status == self.status);
        let news = before.is_none_or(|before| before.reason != self.reason || before.message != self.message);
        let note = news.then(|| Note {
            warning: self.warning,
            reason: self.reason.to_owned(),
            message: self.message.clone(),
        });
        let condition = Condition {
            type_: self.kind.to_owned(),
            status: self.status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: Some(generation),
            last_transition_time: same
                .map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time.clone()),
        };
        (condition, note)
    }
}

/// Kubernetes and Git both count whole seconds.
pub(super) fn whole_second(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
