//! The context of an expression at one instant, and until when each part of it holds.
//!
//! What is not known is empty rather than absent: a Bundle without provenance has the author `""`. The soak time is 0
//! until every direct upstream is verified, and stays 0 in an environment that has no upstream.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use kardinal_api::Bundle;
use kardinal_api::kardinal::Provenance;
use kardinal_cel::Scope;
use kardinal_object::name_of;
use serde_json::{Map, Value, json};

use crate::attributes::DAYS;
use crate::expression::{Soak, Uses};
use crate::facts::{Facts, soaking_since, version};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The context at an instant.
pub(crate) struct World {
    bundle: Value,
    schedule: Value,
    environment: Value,
    previous: Value,
    zone: TimeZone,
    soaking_since: Option<Timestamp>,
    now: Timestamp,
    uses: Uses,
    bundle_until: Option<Timestamp>,
    schedule_until: Option<Timestamp>,
    /// The next change of the zone's offset after `now`.
    transition: Option<Timestamp>,
    /// When the offset was last seen to change, or the beginning.
    steady_since: Timestamp,
}

impl World {
    /// The context at the instant of the facts.
    pub(crate) fn new(facts: &Facts<'_>, zone: TimeZone, uses: Uses) -> World {
        let transition = next_transition(&zone, facts.now);
        let previous = facts.previous;
        let mut world = World {
            bundle: bundle_json(facts.bundle),
            schedule: json!({}),
            environment: json!({ "name": facts.environment.name, "approval": facts.environment.approval }),
            previous: json!({
                "name": previous.map(|bundle| name_of(&bundle.metadata)).unwrap_or_default(),
                "version": previous.map(|bundle| version(&bundle.spec)).unwrap_or_default(),
            }),
            zone,
            soaking_since: soaking_since(facts.bundle, facts.environment.upstreams),
            now: facts.now,
            uses,
            bundle_until: None,
            schedule_until: None,
            transition,
            steady_since: facts.now,
        };
        world.refresh();
        world
    }

    /// Goes to a later instant.
    pub(crate) fn move_to(&mut self, now: Timestamp) {
        self.now = now;
        if self.transition.is_some_and(|transition| transition <= now) {
            self.steady_since = now;
            self.transition = next_transition(&self.zone, now);
        }
        self.refresh();
    }

    /// The next instant at which a part of the context that the expression reads changes.
    pub(crate) fn holds_until(&self) -> Option<Timestamp> {
        [self.bundle_until, self.schedule_until].into_iter().flatten().min()
    }

    /// Since when only the time of the week changes: all that follows has been seen after one week.
    pub(crate) fn weekly_since(&self) -> Timestamp {
        if self.bundle_until.is_some() { self.now } else { self.steady_since }
    }

    /// The piece of the context under a variable.
    pub(crate) fn root(&self, name: &str) -> Option<&Value> {
        match name {
            "bundle" => Some(&self.bundle),
            "schedule" => Some(&self.schedule),
            "environment" => Some(&self.environment),
            "previousBundle" => Some(&self.previous),
            _ => None,
        }
    }

    fn refresh(&mut self) {
        let soaked = self.soaked_seconds();
        put(&mut self.bundle, "upstreamSoakMinutes", soaked / MINUTE);
        put(&mut self.bundle, "upstreamSoakSeconds", soaked);
        let by_minutes = self.soak_changes_after(&self.uses.soak_minutes, soaked, MINUTE);
        let by_seconds = self.soak_changes_after(&self.uses.soak_seconds, soaked, 1);
        self.bundle_until = [by_minutes, by_seconds].into_iter().flatten().min();
        let offset = i64::from(self.zone.to_offset(self.now).seconds());
        let local = seconds(self.now) + offset;
        let day = (local.div_euclid(DAY) + 4).rem_euclid(7);
        let second = local.rem_euclid(DAY);
        let is_weekend = day == 0 || day == 6;
        put(&mut self.schedule, "isWeekend", is_weekend);
        put(&mut self.schedule, "hour", second / HOUR);
        put(&mut self.schedule, "minute", second / MINUTE % 60);
        let name = usize::try_from(day).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default();
        put(&mut self.schedule, "dayOfWeek", name);
        self.schedule_until = self
            .schedule_step(day)
            .map(|step| {
                // The unit starts at midnight, so that hours and minutes count from there.
                local - local.rem_euclid(step.unit) + step.unit * step.count - offset
            })
            .and_then(|second| Timestamp::from_second(second).ok());
        if let (Some(until), Some(transition)) = (self.schedule_until, self.transition) {
            self.schedule_until = Some(until.min(transition));
        }
    }

    fn soaked_seconds(&self) -> i64 {
        let soaked = self.soaking_since.map(|since| self.now.duration_since(since).as_secs());
        soaked.unwrap_or(0).max(0)
    }

    /// When the soak time, counted in `unit` seconds, next matters to the expression.
    fn soak_changes_after(&self, uses: &Soak, soaked: i64, unit: i64) -> Option<Timestamp> {
        let since = self.soaking_since?;
        let soaked = soaked / unit;
        let next = match uses {
            Soak::Unused => return None,
            Soak::Cuts(cuts) => *cuts.iter().find(|cut| **cut > soaked)?,
            Soak::Every => soaked + 1,
        };
        since.checked_add(SignedDuration::from_secs(next.checked_mul(unit)?)).ok()
    }

    /// The finest unit of `schedule` that the expression reads, and how many of them hold.
    fn schedule_step(&self, day: i64) -> Option<ScheduleStep> {
        let uses = &self.uses;
        let (unit, count) = if uses.minute {
            (MINUTE, 1)
        } else if uses.hour {
            (HOUR, 1)
        } else if uses.day {
            (DAY, 1)
        } else if uses.is_weekend {
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
        Some(ScheduleStep { unit, count })
    }
}

struct ScheduleStep {
    unit: i64,
    count: i64,
}

impl Scope for World {
    fn get(&self, name: &str) -> Option<&Value> {
        self.root(name)
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        match name {
            "bundle" => self.bundle_until,
            "schedule" => self.schedule_until,
            _ => None,
        }
    }
}

fn next_transition(zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    zone.following(now).next().map(|transition| transition.timestamp())
}

/// Whole seconds since 1970, rounded down.
fn seconds(now: Timestamp) -> i64 {
    i64::try_from(now.as_nanosecond().div_euclid(1_000_000_000)).unwrap_or_default()
}

fn put(object: &mut Value, key: &str, value: impl Into<Value>) {
    let Value::Object(map) = object else { return };
    match map.get_mut(key) {
        Some(slot) => *slot = value.into(),
        None => {
            map.insert(key.to_owned(), value.into());
        }
    }
}

fn bundle_json(bundle: &Bundle) -> Value {
    let meta = &bundle.metadata;
    let labels = texts(meta.labels.as_ref());
    let annotations = texts(meta.annotations.as_ref());
    let intent = bundle.spec.intent.as_ref();
    json!({
        "name": name_of(&bundle.metadata),
        "version": version(&bundle.spec),
        "type": bundle.spec.kind(),
        "labels": labels,
        "annotations": annotations,
        "metadata": {
            "name": name_of(&bundle.metadata),
            "labels": labels,
            "annotations": annotations,
            "creationTimestamp": instant(meta.creation_timestamp.as_ref().map(|time| time.0)),
        },
        "provenance": provenance_json(bundle.spec.provenance.as_ref()),
        "intent": {
            "target": intent.and_then(|intent| intent.target.clone()).unwrap_or_default(),
            "skip": intent.map(|intent| intent.skip.clone()).unwrap_or_default(),
        },
        "upstreamSoakMinutes": 0,
        "upstreamSoakSeconds": 0,
    })
}

fn provenance_json(provenance: Option<&Provenance>) -> Value {
    let provenance = provenance.cloned().unwrap_or_default();
    json!({
        "commitSHA": provenance.commit_sha.unwrap_or_default(),
        "ciRunURL": provenance.ci_run_url.unwrap_or_default(),
        "author": provenance.author.unwrap_or_default(),
        "buildTimestamp": instant(provenance.build_timestamp),
        "rollbackOf": provenance.rollback_of.unwrap_or_default(),
    })
}

fn instant(time: Option<Timestamp>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn texts(map: Option<&std::collections::BTreeMap<String, String>>) -> Map<String, Value> {
    map.into_iter().flatten().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}
