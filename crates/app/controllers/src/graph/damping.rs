//! How often a Graph may write the same again.
//!
//! Two Graphs that each read what the other one writes never come to rest. Each write of theirs is right by itself, so
//! nothing but their number tells them from others: an ordinary Graph writes many objects, each of them a few times.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::{SignedDuration, Timestamp};
use kardinal_graph::{Action, Outcome};

/// So many times the same may be written at once.
const FREELY: i32 = 20;
/// How often after that.
const EVERY: SignedDuration = SignedDuration::from_secs(5);

/// What a Graph has written lately, as numbers that stand for it; each with the time by which it would have been written
/// so many times at the pace of one write in [`EVERY`].
#[derive(Debug, Default)]
pub(super) struct Damping {
    paid_off: BTreeMap<u64, Timestamp>,
}

impl Damping {
    /// A pass has written these.
    pub(super) fn note(&mut self, written: &BTreeSet<u64>, now: Timestamp) {
        if written.is_empty() {
            return;
        }
        self.paid_off.retain(|_, at| *at > now);
        for of in written {
            let at = self.paid_off.entry(*of).or_insert(now);
            *at = at.saturating_add(EVERY).unwrap_or(Timestamp::MAX);
        }
    }

    /// Until when the Graph is left alone, if so.
    pub(super) fn rests_until(&mut self, now: Timestamp) -> Option<Timestamp> {
        let freely = EVERY.saturating_mul(FREELY);
        // More than that is owed only if somebody has set the clock back.
        let most = now.saturating_add(freely + EVERY).unwrap_or(Timestamp::MAX);
        for at in self.paid_off.values_mut() {
            *at = (*at).min(most);
        }
        let last = self.paid_off.values().max()?;
        last.checked_sub(freely).ok().filter(|until| *until > now)
    }
}

/// What one pass has written. An object that a node gives up stands for the node: names that never come back would
/// otherwise not be recognised.
pub(super) fn written(walked: &[(Action, Outcome)]) -> BTreeSet<u64> {
    let done = walked.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Done(_) | Outcome::Gone));
    done.map(|(action, _)| {
        let mut number = DefaultHasher::new();
        match action {
            Action::Apply { id, .. } | Action::Patch { id, .. } => id.hash(&mut number),
            Action::Release { node, .. } | Action::Delete { node, .. } => node.hash(&mut number),
        }
        number.finish()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    /// The times at which a Graph writes that has always something to write, in seconds.
    fn times(writes: i64, mut object: impl FnMut(i64) -> u64) -> Vec<i64> {
        let (mut damping, mut now) = (Damping::default(), at(0));
        let mut times = Vec::new();
        for number in 0..writes {
            if let Some(until) = damping.rests_until(now) {
                assert!(until.duration_since(now) <= EVERY, "a pause has bounds");
                assert_eq!(damping.rests_until(now), Some(until), "asking does not prolong it");
                now = until;
            }
            damping.note(&BTreeSet::from([object(number)]), now);
            times.push(now.duration_since(at(0)).as_secs());
        }
        times
    }

    #[test]
    fn a_graph_that_never_comes_to_rest_is_slowed_and_a_long_chain_is_not() {
        let endless = times(24, |_| 7);
        assert!(endless.iter().take(21).all(|second| *second == 0), "{endless:?}");
        assert_eq!(endless.get(21..), Some(&[5, 10, 15][..]));
        // A thousand objects one after the other, each of them a few times.
        let chain = times(10_000, |number| u64::try_from(number / 10).unwrap());
        assert!(chain.iter().all(|second| *second == 0), "the chain is slowed");
    }

    #[test]
    fn after_a_while_a_graph_writes_freely_again() {
        let mut damping = Damping::default();
        for _ in 0..25 {
            damping.note(&BTreeSet::from([7]), at(0));
        }
        assert_eq!(damping.rests_until(at(0)), Some(at(5)));
        assert_eq!(damping.rests_until(at(5)), None);
        damping.note(&BTreeSet::from([8]), at(200));
        assert_eq!(damping.paid_off.len(), 1, "what is long ago is forgotten");
        assert_eq!(damping.rests_until(at(200)), None);
    }

    #[test]
    fn a_clock_that_is_set_back_stops_nobody() {
        let mut damping = Damping::default();
        for _ in 0..3 {
            damping.note(&BTreeSet::from([7]), at(3600));
        }
        assert_eq!(damping.rests_until(at(0)), Some(at(5)));
        assert_eq!(damping.rests_until(at(3)), Some(at(5)));
        assert_eq!(damping.rests_until(at(5)), None);
    }
}
