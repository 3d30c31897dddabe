//! What the walk remembers about writes: what is under way, what was answered, what failed and when to try again.
//!
//! All of it can be lost; the cost is one write too many, never a wrong one.

use jiff::{SignedDuration, Timestamp};
use kardinal_object::text_at;
use serde_json::Value;

use crate::action::{Action, Outcome};
use crate::desired::projection;
use crate::identity::HASH_ANNOTATION;
use crate::observe::Seen;
use crate::report::NodeState;

/// After this time an answered write is not waited for any longer.
pub(super) const OBSERVE_WITHIN: SignedDuration = SignedDuration::from_secs(15);
const CONFLICT_RETRY: SignedDuration = SignedDuration::from_secs(60);
/// Rights change without a change of anything that a Graph sees.
pub(super) const RIGHTS_RETRY: SignedDuration = SignedDuration::from_secs(60);
const BACKOFF_LIMIT: i64 = 300;

/// Which version of an object was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// None: it was not there.
    Absent,
    /// This resource version; `None` when the object does not say.
    At(Option<String>),
    /// Not known.
    Unknown,
}

/// The version of what is seen.
pub(super) fn version(seen: Seen<'_>) -> Version {
    match seen {
        Seen::Unknown => Version::Unknown,
        Seen::Absent => Version::Absent,
        Seen::Present(object) => Version::At(resource_version(object)),
    }
}

fn resource_version(object: &Value) -> Option<String> {
    text_at(object, &["metadata", "resourceVersion"]).map(str::to_owned)
}

/// Notes on one object that a node writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// The desired hash and the projection of the answer to it.
    pub(super) applied: Option<(String, u64)>,
    /// The desired hash of a write that is under way, and what was seen when it departed.
    flight: Option<(String, Version)>,
    awaiting: Option<Awaiting>,
    pub(super) trouble: Option<Trouble>,
}

#[derive(Clone, Debug)]
struct Awaiting {
    before: Version,
    answer: Option<String>,
    until: Timestamp,
}

/// A write that failed.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) state: NodeState,
    pub(super) message: String,
    hash: String,
    seen: Version,
    attempts: u32,
    pub(super) retry_at: Option<Timestamp>,
}

/// What to do about an object that is not as it should be.
pub(super) enum Advice {
    /// Write it.
    Write,
    /// A write is under way or not observed yet; look again at this time.
    Wait(Option<Timestamp>),
    /// The last write failed and it is not yet time to try again.
    Rest,
}

impl Memory {
    /// Whether the object is as we left it.
    pub(super) fn is_as_applied(&self, hash: &str, projection: u64) -> bool {
        self.applied.as_ref().is_some_and(|(applied, seen)| applied == hash && *seen == projection)
    }

    /// Whether what we applied last was this text.
    pub(super) fn has_applied(&self, hash: &str) -> bool {
        self.applied.as_ref().is_some_and(|(applied, _)| applied == hash)
    }

    /// The object was seen as it should be.
    pub(super) fn confirm(&mut self, hash: &str, projection: u64) {
        self.applied = Some((hash.to_owned(), projection));
        self.awaiting = None;
        self.trouble = None;
    }

    pub(super) fn in_flight(&self) -> bool {
        self.flight.is_some()
    }

    pub(super) fn advise(&self, hash: &str, seen: &Version, now: Timestamp) -> Advice {
        if self.flight.is_some() {
            return Advice::Wait(None);
        }
        if let Some(awaiting) = self.awaiting.as_ref().filter(|awaiting| awaiting.until > now)
            && self.has_applied(hash)
            && awaiting.is_stale(seen)
        {
            return Advice::Wait(Some(awaiting.until));
        }
        match &self.trouble {
            Some(trouble) if trouble.rests(hash, seen, now) => Advice::Rest,
            _ => Advice::Write,
        }
    }

    /// A write has been handed out.
    pub(super) fn depart(&mut self, action: &Action, seen: Version) {
        self.flight = Some((hash_of(action), seen));
        self.awaiting = None;
    }

    /// A write was handed out and nothing was heard of it.
    pub(super) fn give_up(&mut self) {
        self.flight = None;
    }

    /// A write has been answered.
    /// A refusal stands until something changes, or until `refused_for` is over.
    pub(super) fn record(
        &mut self,
        action: &Action,
        outcome: Outcome,
        now: Timestamp,
        refused_for: Option<SignedDuration>,
    ) {
        let (hash, seen) = self.flight.take().unwrap_or_else(|| (hash_of(action), Version::Unknown));
        let (state, message) = match outcome {
            Outcome::Done(answer) => {
                if let Action::Apply { object, status, .. } | Action::Patch { object, status, .. } = action {
                    self.applied = Some((hash, projection(&answer, object, status.as_ref())));
                }
                let until = now.checked_add(OBSERVE_WITHIN).unwrap_or(now);
                self.awaiting = Some(Awaiting { before: seen, answer: resource_version(&answer), until });
                self.trouble = None;
                return;
            }
            Outcome::Gone => (NodeState::SystemError, "the server did not find the object".to_owned()),
            Outcome::Fault(message) => (NodeState::SystemError, message),
            Outcome::Refused(message) => (NodeState::Error, message),
            Outcome::Conflict(message) => (NodeState::Conflict, message),
        };
        let attempts = self.trouble.as_ref().map_or(0, |trouble| trouble.attempts).saturating_add(1);
        let delay = match state {
            NodeState::SystemError => Some(backoff(attempts)),
            NodeState::Conflict => Some(CONFLICT_RETRY),
            _ => refused_for,
        };
        let retry_at = delay.map(|delay| now.checked_add(delay).unwrap_or(now));
        self.trouble = Some(Trouble { state, message, hash, seen, attempts, retry_at });
    }
}

impl Awaiting {
    /// Whether what is seen is older than our write.
    fn is_stale(&self, seen: &Version) -> bool {
        if let (Version::At(Some(seen)), Some(answer)) = (seen, &self.answer) {
            if seen == answer {
                return false;
            }
            if let (Ok(seen), Ok(answer)) = (seen.parse::<u64>(), answer.parse::<u64>()) {
                return seen < answer;
            }
        }
        *seen == self.before
    }
}

impl Trouble {
    /// The world failing is a matter of time only. What was refused is tried again when the text or the object is
    /// another one.
    fn rests(&self, hash: &str, seen: &Version, now: Timestamp) -> bool {
        let same = self.hash == hash && (self.state == NodeState::SystemError || self.seen == *seen);
        same && self.retry_at.is_none_or(|at| at > now)
    }
}

/// 1 s, 2 s, 4 s … 5 min.
fn backoff(attempts: u32) -> SignedDuration {
    let seconds = 1i64.checked_shl(attempts.saturating_sub(1)).unwrap_or(BACKOFF_LIMIT);
    SignedDuration::from_secs(if attempts > 9 { BACKOFF_LIMIT } else { seconds.min(BACKOFF_LIMIT) })
}

/// The hash that the action writes into its annotation.
fn hash_of(action: &Action) -> String {
    let (Action::Apply { object, .. } | Action::Patch { object, .. }) = action else { return String::new() };
    let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let mut found = annotations.into_iter().flatten().filter(|(key, _)| key.ends_with(HASH_ANNOTATION));
    found.next().and_then(|(_, hash)| hash.as_str()).unwrap_or_default().to_owned()
}

/// Notes on one removal, or on one write of a finalizing node.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    pub(super) flight: bool,
    seen: Option<Version>,
    attempts: u32,
    wait_until: Option<Timestamp>,
    pub(super) message: Option<String>,
}

impl Attempt {
    /// When it may be tried again; `None` is now.
    pub(super) fn rests_until(&self, seen: &Version, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.message.is_some() || self.seen.as_ref() == Some(seen);
        self.wait_until.filter(|until| waiting && *until > now)
    }

    pub(super) fn depart(&mut self, seen: Version) {
        self.flight = true;
        self.seen = Some(seen);
    }

    pub(super) fn record(&mut self, outcome: Outcome, now: Timestamp) {
        self.flight = false;
        let delay = match outcome {
            Outcome::Done(_) | Outcome::Gone => {
                self.attempts = 0;
                self.message = None;
                OBSERVE_WITHIN
            }
            Outcome::Conflict(message) | Outcome::Refused(message) | Outcome::Fault(message) => {
                self.attempts = self.attempts.saturating_add(1);
                self.message = Some(message);
                backoff(self.attempts)
            }
        };
        self.wait_until = now.checked_add(delay).ok();
    }
}
