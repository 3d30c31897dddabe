//! `schedule`: the local time of a gate's time zone, and until when each part of it holds.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::expression::ScheduleReads;
use crate::shape::Attribute;

/// The name of the variable.
pub const SCHEDULE: &str = "schedule";
/// What stands under it.
pub(crate) const ATTRIBUTES: Attribute = Attribute::Fields(&[
    ("isWeekend", Attribute::Truth),
    ("hour", Attribute::Number),
    ("minute", Attribute::Number),
    ("dayOfWeek", Attribute::Choice(&DAYS)),
]);

/// The names of the days, Sunday first.
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The local time at an instant.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    value: Value,
    zone: TimeZone,
    reads: ScheduleReads,
    until: Option<Timestamp>,
    /// The next change of the zone's offset.
    transition: Option<Timestamp>,
    /// When the offset was last seen to change, or the beginning.
    steady_since: Timestamp,
}

impl Schedule {
    /// The local time now, of which an expression reads these parts.
    pub(crate) fn new(zone: TimeZone, reads: ScheduleReads, now: Timestamp) -> Schedule {
        let transition = next_transition(&zone, now);
        let mut schedule =
            Schedule { value: json!({}), zone, reads, until: None, transition, steady_since: now };
        schedule.refresh(now);
        schedule
    }

    /// Goes to a later instant.
    pub(crate) fn move_to(&mut self, now: Timestamp) {
        if self.transition.is_some_and(|transition| transition <= now) {
            self.steady_since = now;
            self.transition = next_transition(&self.zone, now);
        }
        self.refresh(now);
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// When a part that the expression reads changes.
    pub(crate) fn holds_until(&self) -> Option<Timestamp> {
        self.until
    }

    /// When the zone's offset was last seen to change, or the beginning.
    pub(crate) fn steady_since(&self) -> Timestamp {
        self.steady_since
    }

    fn refresh(&mut self, now: Timestamp) {
        let offset = i64::from(self.zone.to_offset(now).seconds());
        let local = seconds(now) + offset;
        let day = (local.div_euclid(DAY) + 4).rem_euclid(7);
        let second = local.rem_euclid(DAY);
        let name = usize::try_from(day).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default();
        self.value = json!({
            "isWeekend": day == 0 || day == 6,
            "hour": second / HOUR,
            "minute": second / MINUTE % 60,
            "dayOfWeek": name,
        });
        self.until = self
            .step(day)
            .map(|step| {
                // The unit starts at midnight, so that hours and minutes count from there.
                local - local.rem_euclid(step.unit) + step.unit * step.count - offset
            })
            .and_then(|second| Timestamp::from_second(second).ok());
        if let (Some(until), Some(transition)) = (self.until, self.transition) {
            self.until = Some(until.min(transition));
        }
    }

    /// The finest unit that the expression reads, and how many of them hold.
    fn step(&self, day: i64) -> Option<Step> {
        let reads = &self.reads;
        let (unit, count) = if reads.minute {
            (MINUTE, 1)
        } else if reads.hour {
            (HOUR, 1)
        } else if reads.day {
            (DAY, 1)
        } else if reads.is_weekend {
            // To Saturday, or to Monday.
            (
                DAY,
                match day {
                    0 => 1,
                    6 => 2,
                    weekday => 6 - weekday,
                },
            )
        } else {
            return None;
        };
        Some(Step { unit, count })
    }
}

struct Step {
    unit: i64,
    count: i64,
}

fn next_transition(zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    zone.following(now).next().map(|transition| transition.timestamp())
}

/// Whole seconds since 1970, rounded down.
fn seconds(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond().div_euclid(1_000_000_000)).unwrap_or_default()
}
