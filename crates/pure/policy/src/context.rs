//! What a gate is asked about, at one instant and later. The dialects say what there is to read; this crate does not know.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_api::kardinal::GateOverride;
use kardinal_cel::Scope;
use serde_json::Value;

use crate::expression::Reads;
use crate::schedule::{SCHEDULE, Schedule};
use crate::shape::Shape;

/// The values that expressions read. What is not known is empty rather than absent.
pub trait Context: Scope + Clone {
    /// What there is to read. The values must have the types that it declares.
    const SHAPE: &'static Shape;

    /// Is told once what an expression reads of what changes with the time. Only that needs to be followed.
    fn follow(&mut self, reads: &Reads);

    /// Goes to another instant.
    fn move_to(&mut self, now: Timestamp);

    /// The next instant at which something changes that the expression reads.
    fn holds_until(&self) -> Option<Timestamp>;

    /// Whether an override of the gate is meant for what the gate is asked about.
    fn is_meant_by(&self, given: &GateOverride) -> bool;
}

/// A context with the `schedule` of a gate's time zone.
#[derive(Clone)]
pub(crate) struct World<C> {
    context: C,
    schedule: Schedule,
}

impl<C: Context> World<C> {
    /// The world at the instant of the context.
    pub(crate) fn new(mut context: C, zone: TimeZone, reads: &Reads) -> World<C> {
        context.follow(reads);
        let schedule = Schedule::new(zone, reads.schedule, context.now());
        World { context, schedule }
    }

    /// Goes to a later instant.
    pub(crate) fn move_to(&mut self, now: Timestamp) {
        self.context.move_to(now);
        self.schedule.move_to(now);
    }

    /// The next instant at which something changes that the expression reads.
    pub(crate) fn holds_until(&self) -> Option<Timestamp> {
        [self.context.holds_until(), self.schedule.holds_until()].into_iter().flatten().min()
    }

    /// Since when only the time of the week changes: all that follows has been seen after one week.
    pub(crate) fn weekly_since(&self) -> Timestamp {
        match self.context.holds_until() {
            Some(_) => self.context.now(),
            None => self.schedule.steady_since(),
        }
    }
}

impl<C: Context> Scope for World<C> {
    fn get(&self, name: &str) -> Option<&Value> {
        if name == SCHEDULE { Some(self.schedule.value()) } else { self.context.get(name) }
    }

    fn now(&self) -> Timestamp {
        self.context.now()
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        if name == SCHEDULE { self.schedule.holds_until() } else { self.context.valid_until(name) }
    }

    fn value(&self, name: &str) -> Option<kardinal_cel::Value<'_>> {
        if name == SCHEDULE {
            Some(kardinal_cel::Value::from(self.schedule.value()))
        } else {
            self.context.value(name)
        }
    }
}
