//! The answer of a gate: overrides first, then the expression, and everything that is not `true` is a no.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kardinal_api::PolicyGateSpec;
use kardinal_api::kardinal::GateOverride;
use kardinal_cel::{EvalErrorKind, Limits, Value};

use crate::context::{Context, World};
use crate::decision::Verdict;
use crate::expression::{Expression, one_line};
use crate::language::Language;
use crate::overrides::is_active;
use crate::reason::{detail_of, overridden, values};
use crate::when::time_zone;

/// The time zone of gates that name none.
const UTC: &str = "UTC";
/// What one evaluation may cost at most.
const MAX_COST: u64 = 100_000;
/// The limits that are tried in turn, to learn how much an evaluation costs.
const COSTS: [u64; 4] = [100, 1_000, 10_000, MAX_COST];
/// How far ahead the search for the next change looks.
const HORIZON: SignedDuration = SignedDuration::from_hours(400 * 24);
/// How many evaluations the search may make.
const MAX_LOOKS: u64 = 20_000;
/// How much the evaluations of the search may cost together.
const LOOKING_COST: u64 = 5_000_000;
/// After a week in which only the time of the week has changed, every answer has been seen.
const WEEK: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Asks the gate of this name. It never fails and never takes long: what cannot be evaluated is a closed gate with a reason.
pub fn evaluate<C: Context>(name: &str, gate: &PolicyGateSpec, context: &C) -> Verdict {
    Judge::new(gate, context).ask(name, |_| true)
}

/// The same for somebody who goes on if the gate is open: when an open gate closes is not worked out.
pub fn decide<C: Context>(name: &str, gate: &PolicyGateSpec, context: &C) -> Verdict {
    Judge::new(gate, context).ask(name, |ready| !ready)
}

/// The answer as the table of a pull request shows it: the local time for gates that read only `schedule`, the time that has
/// gone by for gates that compare only that, and the reason otherwise.
pub fn detail<C: Context>(gate: &PolicyGateSpec, context: &C) -> String {
    let mut judge = Judge::new(gate, context);
    let verdict = judge.ask("", |_| false);
    match &judge.condition {
        Ok(condition) if !verdict.is_unknown() && verdict.overridden.is_none() => {
            let zone = gate.time_zone.as_deref().unwrap_or(UTC);
            detail_of(&condition.language, &condition.expression, context, zone).unwrap_or(verdict.reason)
        }
        _ => verdict.reason,
    }
}

/// A gate, and what it is asked about.
struct Judge<'g, C> {
    now: Timestamp,
    overrides: Vec<&'g GateOverride>,
    /// Why there is no condition: the expression does not compile, or the time zone is unknown.
    condition: Result<Condition<C>, String>,
}

/// What is evaluated.
struct Condition<C> {
    language: Arc<Language>,
    expression: Expression,
    world: World<C>,
    limits: Limits,
    looks: u64,
}

/// An answer and the instant until which it is known to hold.
struct State<'g> {
    answer: Answer<'g>,
    until: Option<Timestamp>,
    /// Whether it cost more than the search allows.
    exhausted: bool,
}

enum Answer<'g> {
    Overridden(&'g GateOverride),
    Value(bool),
    Error(String),
}

impl State<'_> {
    fn ready(&self) -> bool {
        matches!(self.answer, Answer::Overridden(_) | Answer::Value(true))
    }
}

impl<'g, C: Context> Judge<'g, C> {
    fn new(gate: &'g PolicyGateSpec, context: &C) -> Judge<'g, C> {
        let overrides = gate.overrides.iter().filter(|given| context.is_meant_by(given)).collect();
        Judge { now: context.now(), overrides, condition: Condition::new(gate, context) }
    }

    fn ask(&mut self, name: &str, looks_ahead: impl Fn(bool) -> bool) -> Verdict {
        let now = self.now;
        let first = self.at(now);
        let ready = first.ready();
        // The search moves the world on, so the values are read before it.
        let read = self.condition.as_ref().ok().filter(|_| matches!(first.answer, Answer::Value(_)));
        let (reason, facts) = read
            .map(|condition| values(&condition.language, &condition.expression, &condition.world))
            .unwrap_or_default();
        let change = looks_ahead(ready).then(|| self.next_change(ready, first.until, now)).flatten();
        match first.answer {
            Answer::Overridden(given) => {
                Verdict { overridden: Some(given.clone()), ..Verdict::allow(overridden(given), change) }
            }
            Answer::Error(message) => Verdict::unknown(name, format!("error: {message}"), change),
            Answer::Value(true) => Verdict::allow(reason, change),
            Answer::Value(false) => Verdict::closed(name, reason, change).with_values(&facts),
        }
    }

    fn at(&mut self, now: Timestamp) -> State<'g> {
        let active = |given: &&&GateOverride| is_active(given, now);
        if let Some(first) = self.overrides.iter().find(active) {
            let ends: Option<Vec<Timestamp>> =
                self.overrides.iter().filter(active).map(|given| given.expires_at).collect();
            let until = ends.and_then(|ends| ends.into_iter().max());
            return State { answer: Answer::Overridden(first), until, exhausted: false };
        }
        match &mut self.condition {
            Ok(condition) => condition.at(now),
            Err(message) => State { answer: Answer::Error(message.clone()), until: None, exhausted: false },
        }
    }

    /// Jumps from one instant at which something changes to the next, until the answer differs.
    fn next_change(&mut self, ready: bool, until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let mut next = until;
        let looks = self.condition.as_ref().map_or(MAX_LOOKS, |condition| condition.looks);
        let mut weekly_since = now;
        for _ in 0..looks {
            let instant = next?;
            if instant.duration_since(now) > HORIZON {
                return None;
            }
            let state = self.at(instant);
            if state.exhausted {
                return None;
            }
            if state.ready() != ready {
                return Some(instant);
            }
            weekly_since = match (&state.answer, &self.condition) {
                (Answer::Overridden(_), _) => instant,
                (_, Ok(condition)) => weekly_since.max(condition.weekly_since()),
                (_, Err(_)) => weekly_since,
            };
            if instant.duration_since(weekly_since) > WEEK {
                return None;
            }
            next = state.until;
        }
        None
    }
}

impl<C: Context> Condition<C> {
    fn new(gate: &PolicyGateSpec, context: &C) -> Result<Condition<C>, String> {
        let language = Language::of(C::SHAPE);
        let expression =
            Expression::compile(&language, &gate.expression).map_err(|errors| one_line(&errors))?;
        let zone = time_zone(gate.time_zone.as_deref().unwrap_or(UTC))
            .map_err(|message| format!("spec.timeZone: {message}"))?;
        let world = World::new(context.clone(), zone, &expression.reads);
        let costs = |limit: &&u64| {
            let result = expression.program.evaluate(&world, &Limits { cost: **limit });
            !matches!(result, Err(error) if error.kind == EvalErrorKind::Budget)
        };
        let cost = COSTS.iter().find(costs).copied().unwrap_or(MAX_COST);
        // Another instant may take another branch, so there is some room. Watching the clock costs more.
        let limits = Limits { cost: cost.saturating_mul(4).min(MAX_COST) };
        let one_look = if expression.program.uses_now() { cost * 5 / 2 } else { cost };
        Ok(Condition { language, expression, world, limits, looks: (LOOKING_COST / one_look).min(MAX_LOOKS) })
    }

    fn at<'g>(&mut self, now: Timestamp) -> State<'g> {
        self.world.move_to(now);
        let held = self.world.holds_until();
        match self.expression.program.evaluate_until(&self.world, &self.limits) {
            Ok((Value::Bool(value), until)) => {
                State { answer: Answer::Value(value), until, exhausted: false }
            }
            Ok((other, _)) => {
                let message = format!("the expression gives {}, not true or false", other.type_name());
                State { answer: Answer::Error(message), until: held, exhausted: false }
            }
            Err(error) => State {
                exhausted: error.kind == EvalErrorKind::Budget,
                answer: Answer::Error(error.message),
                until: held,
            },
        }
    }

    /// Since when only the time of the week changes.
    fn weekly_since(&self) -> Timestamp {
        if self.expression.program.uses_now() { Timestamp::MAX } else { self.world.weekly_since() }
    }
}
