//! A span of time that grows, as expressions read it: in whole units, and with the next instant at which that matters.

use jiff::{SignedDuration, Timestamp};

use crate::expression::Need;
use crate::shape::Unit;

/// The time since an instant, counted in whole units; 0 before it, and where there is none.
#[derive(Clone, Debug)]
pub struct Elapsed {
    since: Option<Timestamp>,
    unit: Unit,
    need: Need,
}

impl Elapsed {
    /// The time since this instant.
    pub fn new(since: Option<Timestamp>, unit: Unit) -> Elapsed {
        Elapsed { since, unit, need: Need::Unused }
    }

    /// Follows what an expression needs to know of it.
    pub fn follow(&mut self, need: Need) {
        self.need = need;
    }

    /// How many whole units have gone by.
    pub fn count(&self, now: Timestamp) -> i64 {
        let seconds = self.since.map_or(0, |since| now.duration_since(since).as_secs());
        seconds.max(0) / self.unit.seconds()
    }

    /// When the number next matters to the expression.
    pub fn changes_after(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.since?;
        let count = self.count(now);
        let next = match &self.need {
            Need::Unused => return None,
            Need::Cuts(cuts) => *cuts.iter().find(|cut| **cut > count)?,
            Need::Every => count + 1,
        };
        since.checked_add(SignedDuration::from_secs(next.checked_mul(self.unit.seconds())?)).ok()
    }
}
