//! The answer of a gate: overrides first, then the expression, and everything that is not `true` is a no.

use jiff::{SignedDuration, Timestamp};
use kardinal_api::PolicyGateSpec;
use kardinal_api::kardinal::{GateOverride, PIPELINE_LABEL};
use kardinal_cel::{EvalErrorKind, Limits, Value};

use crate::expression::{Expression, one_line};
use crate::facts::Facts;
use crate::overrides::{Promotion, is_active};
use crate::reason::{overridden, values};
use crate::when::time_zone;
use crate::world::World;

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

/// What a gate says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether the promotion may pass.
    pub ready: bool,
    /// The values that led to the answer, in one short line.
    pub reason: String,
    /// The override that let the promotion pass.
    pub overridden: Option<GateOverride>,
    /// Whether the gate is closed because it could not be evaluated.
    pub error: bool,
    /// The first instant after now at which `ready` changes although nothing else does; an override that expires counts.
    /// Nothing when it does not change by itself within 400 days, or when that takes too long to find out.
    pub next_change: Option<Timestamp>,
}

/// Asks a gate about a Bundle at the door of an environment. It never fails and never takes long: what cannot be
/// evaluated is a closed gate with a reason.
pub fn evaluate(gate: &PolicyGateSpec, facts: &Facts<'_>) -> Verdict {
    ask(gate, facts, |_| true)
}

/// The same for somebody who goes on if the gate is open: when an open gate closes is not worked out.
pub fn decide(gate: &PolicyGateSpec, facts: &Facts<'_>) -> Verdict {
    ask(gate, facts, |ready| !ready)
}

fn ask(gate: &PolicyGateSpec, facts: &Facts<'_>, looks_ahead: impl Fn(bool) -> bool) -> Verdict {
    let mut judge = Judge::new(gate, facts);
    let first = judge.at(facts.now);
    let ready = first.ready();
    let reason = match (&first.answer, &judge.condition) {
        (Answer::Overridden(given), _) => overridden(given),
        (Answer::Error(message), _) => format!("error: {message}"),
        (Answer::Value(_), Ok(condition)) => values(&condition.expression, &condition.world),
        // Without a condition there is no value.
        (Answer::Value(_), Err(message)) => format!("error: {message}"),
    };
    let overridden = match first.answer {
        Answer::Overridden(given) => Some(given.clone()),
        _ => None,
    };
    let error = matches!(first.answer, Answer::Error(_));
    let next_change = looks_ahead(ready).then(|| judge.next_change(ready, first.until, facts.now)).flatten();
    Verdict { ready, reason, overridden, error, next_change }
}

/// The promotion that the facts are about.
fn promotion<'a>(facts: &Facts<'a>) -> Promotion<'a> {
    let metadata = &facts.bundle.metadata;
    let pipeline = metadata.labels.as_ref().and_then(|labels| labels.get(PIPELINE_LABEL));
    Promotion {
        environment: facts.environment.name,
        namespace: metadata.namespace.as_deref(),
        pipeline: pipeline.map(String::as_str),
        bundle: metadata.name.as_deref(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
    }
}

/// A gate at the door of one environment.
struct Judge<'g> {
    overrides: Vec<&'g GateOverride>,
    /// Why there is no condition: the expression does not compile, or the time zone is unknown.
    condition: Result<Condition, String>,
}

/// What is evaluated.
struct Condition {
    expression: Expression,
    world: World,
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

impl<'g> Judge<'g> {
    fn new(gate: &'g PolicyGateSpec, facts: &Facts<'_>) -> Judge<'g> {
        let promotion = promotion(facts);
        let overrides = gate.overrides.iter().filter(|given| promotion.is_meant_by(given)).collect();
        Judge { overrides, condition: Condition::new(gate, facts) }
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

impl Condition {
    fn new(gate: &PolicyGateSpec, facts: &Facts<'_>) -> Result<Condition, String> {
        let expression = Expression::compile(&gate.expression).map_err(|errors| one_line(&errors))?;
        let zone = time_zone(gate.time_zone.as_deref().unwrap_or("UTC"))
            .map_err(|message| format!("spec.timeZone: {message}"))?;
        let world = World::new(facts, zone, expression.uses.clone());
        let costs = |limit: &&u64| {
            let result = expression.program.evaluate(&world, &Limits { cost: **limit });
            !matches!(result, Err(error) if error.kind == EvalErrorKind::Budget)
        };
        let cost = COSTS.iter().find(costs).copied().unwrap_or(MAX_COST);
        // Another instant may take another branch, so there is some room. Watching the clock costs more.
        let limits = Limits { cost: cost.saturating_mul(4).min(MAX_COST) };
        let one_look = if expression.program.uses_now() { cost * 5 / 2 } else { cost };
        Ok(Condition { expression, world, limits, looks: (LOOKING_COST / one_look).min(MAX_LOOKS) })
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
