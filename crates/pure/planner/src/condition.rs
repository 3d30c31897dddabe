//! The conditions of every kind: one way to write them and to read them, and the Events about their changes.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kardinal_object::whole_second;

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not.
    False,
    /// That is not decided yet.
    Unknown,
}

impl Truth {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }
}

impl Truth {
    /// What the word on the wire means. Nothing: it is none of the three.
    pub fn read(word: &str) -> Option<Truth> {
        [Truth::True, Truth::False, Truth::Unknown].into_iter().find(|truth| truth.as_str() == word)
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Truth {
        if holds { Truth::True } else { Truth::False }
    }
}

/// A condition before it is known since when it is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// What it is about.
    pub type_: &'static str,
    /// Whether it holds.
    pub truth: Truth,
    /// Why, in one word.
    pub reason: Cow<'static, str>,
    /// Why, in words.
    pub message: String,
}

impl NewCondition {
    /// A condition of this type.
    pub fn new(
        type_: &'static str,
        truth: Truth,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> NewCondition {
        NewCondition { type_, truth, reason: reason.into(), message: message.into() }
    }

    /// The condition for a status. Its time is that of the last change of `status`, so a new reason keeps it.
    pub fn since(self, old: &[Condition], generation: Option<i64>, now: Timestamp) -> Condition {
        let same = find(old, self.type_).filter(|before| is(before, self.truth));
        let since =
            same.map_or_else(|| Time(whole_second(now)), |before| before.last_transition_time.clone());
        Condition {
            type_: self.type_.to_owned(),
            status: self.truth.as_str().to_owned(),
            reason: self.reason.into_owned(),
            message: self.message,
            observed_generation: generation,
            last_transition_time: since,
        }
    }

    /// Whether reason or words differ from what was said before.
    pub fn is_news(&self, old: &[Condition]) -> bool {
        let before = find(old, self.type_);
        before.is_none_or(|before| before.reason != self.reason || before.message != self.message)
    }

    /// The Event that tells of it.
    pub fn note(&self, warning: bool) -> Note {
        Note { warning, reason: self.reason.clone().into_owned(), message: self.message.clone() }
    }
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether a condition says this.
pub fn is(condition: &Condition, truth: Truth) -> bool {
    condition.status == truth.as_str()
}

/// A transition worth an Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether somebody should look.
    pub warning: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, in words.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for (word, truth) in [("True", Truth::True), ("False", Truth::False), ("Unknown", Truth::Unknown)] {
            assert_eq!((Truth::read(word), truth.as_str()), (Some(truth), word));
        }
        for word in ["true", "", "Yes"] {
            assert_eq!(Truth::read(word), None, "{word}");
        }
    }

    #[test]
    fn the_time_is_that_of_the_last_change_of_the_status() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let say = |truth, reason: &'static str| NewCondition::new("Ready", truth, reason, "words");
        let first = say(Truth::False, "A").since(&[], Some(1), at("2026-04-09T10:00:00.7Z"));
        assert_eq!(first.last_transition_time.0, at("2026-04-09T10:00:00Z"), "whole seconds");
        let later = at("2026-04-09T11:00:00Z");
        let other_reason = say(Truth::False, "B").since(std::slice::from_ref(&first), Some(2), later);
        assert_eq!(other_reason.last_transition_time, first.last_transition_time);
        assert_eq!((other_reason.reason.as_str(), other_reason.observed_generation), ("B", Some(2)));
        let turned = say(Truth::True, "C").since(&[first], Some(2), later);
        assert_eq!(turned.last_transition_time.0, later);
    }
}
