//! The sentence that every kind speaks: observe → check → **plan** → act → **report**.

use jiff::{SignedDuration, Timestamp};
use kardinal_object::Gvk;

use crate::condition::Note;

/// What follows from what was observed. A plan is made without any choice left to whoever carries it out.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<E, S> {
    /// What is to be done: one stage after the other, the effects of a stage side by side. When an effect fails, the
    /// stages after it are left to the next pass.
    pub stages: Vec<Vec<E>>,
    /// The whole status, when it differs from the one observed; what is waited for is in it. It is written after the effects.
    pub status: Option<S>,
    /// Transitions worth an Event, once the status is written.
    pub notes: Vec<Note>,
    /// The earliest time at which the decision can change although nothing else happens.
    pub wake: Option<Timestamp>,
    /// Kinds of which a watch may not know enough for this plan: it is made once more after they were read past it.
    pub fresh: Vec<Gvk>,
}

impl<E, S> Default for Plan<E, S> {
    fn default() -> Plan<E, S> {
        Plan { stages: Vec::new(), status: None, notes: Vec::new(), wake: None, fresh: Vec::new() }
    }
}

impl<E, S> Plan<E, S> {
    /// A plan of one effect.
    pub fn act(effect: E) -> Plan<E, S> {
        Plan { stages: vec![vec![effect]], ..Plan::default() }
    }

    /// A plan of effects that come one after the other.
    pub fn in_order(effects: impl IntoIterator<Item = E>) -> Plan<E, S> {
        Plan { stages: effects.into_iter().map(|effect| vec![effect]).collect(), ..Plan::default() }
    }

    /// All effects, in their order.
    pub fn effects(&self) -> Vec<&E> {
        self.stages.iter().flatten().collect()
    }
}

/// What came of the effects, folded into the status.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<S> {
    /// The whole status, when it differs from the one observed.
    pub status: Option<S>,
    /// Transitions worth an Event, once the status is written.
    pub notes: Vec<Note>,
    /// After which pause to try again; none at all means at once.
    pub retry: Option<SignedDuration>,
}

impl<S> Default for Report<S> {
    fn default() -> Report<S> {
        Report { status: None, notes: Vec::new(), retry: None }
    }
}
