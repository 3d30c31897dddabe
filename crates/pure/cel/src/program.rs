//! Compiled expressions and what they are evaluated over. How evaluation works is in `eval`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::budget::{Context, Limits};
use crate::eval::Machine;
use crate::fault::{EvalError, Fault};
use crate::lower::Node;
use crate::references::Reference;
use crate::time::{Clock, HORIZON, clamp};
use crate::value::{Value, identical, is_moving};

/// How often the search for the next change may look ahead before it settles for an early wake-up.
const MAX_PROBES: usize = 512;

/// How much all looks ahead may cost together, in evaluations that cost as much as is allowed.
const PROBING_COST: u64 = 4;

/// What going through a result may cost: more than one that can be written as JSON does.
const READING_COST: u64 = 1_000_000;

/// The data an expression reads.
pub trait Scope {
    /// The value of a variable, or nothing when it is not there (yet).
    fn get(&self, name: &str) -> Option<&serde_json::Value>;

    /// The value of `now()`; it must not change during one evaluation.
    fn now(&self) -> Timestamp;

    /// Until when the value of a variable holds, for values that the caller computed from the time. `None` is for ever.
    fn valid_until(&self, name: &str) -> Option<Timestamp> {
        let _ = name;
        None
    }

    /// The value of a variable for scopes that hold more than JSON. The default is what [`Scope::get`] returns.
    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.get(name).map(Value::from)
    }
}

/// A scope over a plain map.
#[derive(Clone, Copy, Debug)]
pub struct MapScope<'m> {
    /// The variables.
    pub variables: &'m BTreeMap<String, serde_json::Value>,
    /// The value of `now()`.
    pub now: Timestamp,
}

impl<'m> MapScope<'m> {
    /// A scope of these variables at this instant.
    pub fn new(variables: &'m BTreeMap<String, serde_json::Value>, now: Timestamp) -> MapScope<'m> {
        MapScope { variables, now }
    }
}

impl Scope for MapScope<'_> {
    fn get(&self, name: &str) -> Option<&serde_json::Value> {
        self.variables.get(name)
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

/// A compiled expression. It is cheap to clone and can be evaluated from many threads at once.
#[derive(Clone)]
pub struct Program {
    code: Arc<Code>,
}

/// What a program consists of.
pub(crate) struct Code {
    pub(crate) source: String,
    pub(crate) root: Node,
    /// The variables by slot.
    pub(crate) variables: Vec<String>,
    pub(crate) references: Vec<Reference>,
    pub(crate) uses_now: bool,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Program").field(&self.code.source).finish()
    }
}

impl Program {
    pub(crate) fn new(code: Code) -> Program {
        Program { code: Arc::new(code) }
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.code.source
    }

    /// The data it reads, without loop variables, in the order of the source.
    pub fn references(&self) -> &[Reference] {
        &self.code.references
    }

    /// Whether it calls `now()`.
    pub fn uses_now(&self) -> bool {
        self.code.uses_now
    }

    /// The value over this scope.
    pub fn evaluate<'a>(&self, scope: &'a dyn Scope, limits: &Limits) -> Result<Value<'a>, EvalError> {
        let context = Context::new(limits, self.clock(scope, false));
        let mut machine = Machine::new(&self.code.variables, scope, context);
        machine.run(&self.code.root).map_err(|fault| *fault)
    }

    /// Reading the clock costs time, so programs that do not ask for it do not pay for it.
    fn clock(&self, scope: &dyn Scope, watching: bool) -> Clock {
        let now = if self.code.uses_now { scope.now().as_nanosecond() } else { 0 };
        Clock::new(now, watching)
    }

    /// The value now, and the earliest instant after now at which it can differ; `None` means never, for these inputs.
    ///
    /// Never means not within the next hundred years. The search looks ahead from one instant at which an answer inside
    /// of the expression changes to the next. It is bounded: when nothing differs for long enough it returns an instant
    /// up to which nothing does.
    pub fn evaluate_until<'a>(
        &self,
        scope: &'a dyn Scope,
        limits: &Limits,
    ) -> Result<(Value<'a>, Option<Timestamp>), EvalError> {
        let bound = self.inputs_valid_until(scope);
        if !self.code.uses_now {
            return Ok((self.evaluate(scope, limits)?, bound));
        }
        let now = scope.now().as_nanosecond();
        let (value, mut next, _) = self.look(scope, limits, now)?;
        if is_moving(&mut reader(READING_COST), &value).map_err(|fault| *fault)? {
            return Ok((value, Some(earlier(now + 1, bound))));
        }
        let mut until = None;
        let mut left = limits.cost.saturating_mul(PROBING_COST);
        for _ in 0..MAX_PROBES {
            let Some(instant) = next else { return Ok((value, bound)) };
            until = Some(instant);
            if bound.is_some_and(|bound| bound.as_nanosecond() <= instant) || instant - now > HORIZON {
                return Ok((value, bound));
            }
            let limits = Limits { cost: limits.cost.min(left) };
            let Ok((later, after, context)) = self.look(scope, &limits, instant) else { break };
            left = left.saturating_sub(context.spent());
            let mut reading = reader(left);
            if !matches!(stays(&mut reading, &value, &later), Ok(true)) {
                break;
            }
            left = left.saturating_sub(reading.spent());
            next = after;
        }
        Ok((value, until.map(clamp)))
    }

    /// Evaluates at an instant and says when an answer inside of the expression changes next.
    fn look<'a>(&self, scope: &'a dyn Scope, limits: &Limits, now: i128) -> Result<Look<'a>, EvalError> {
        let context = Context::new(limits, Clock::new(now, true));
        let mut machine = Machine::new(&self.code.variables, scope, context);
        let value = machine.run(&self.code.root).map_err(|fault: Fault| *fault)?;
        let context = machine.into_context();
        let next = context.clock.next_change();
        Ok((value, next, context))
    }

    /// The earliest instant from now on at which one of the variables stops to hold.
    fn inputs_valid_until(&self, scope: &dyn Scope) -> Option<Timestamp> {
        let untils = self.code.variables.iter().filter_map(|name| scope.valid_until(name));
        untils.filter(|until| *until > scope.now()).min()
    }
}

type Look<'a> = (Value<'a>, Option<i128>, Context);

/// A budget for going through results; the evaluations that made them have their own.
fn reader(cost: u64) -> Context {
    Context::new(&Limits { cost }, Clock::new(0, false))
}

/// Whether the value is still what it was. A time that moves may equal another one, but only for an instant.
fn stays(reading: &mut Context, value: &Value<'_>, later: &Value<'_>) -> Result<bool, Fault> {
    Ok(identical(reading, value, later)? && !is_moving(reading, later)?)
}

fn earlier(instant: i128, bound: Option<Timestamp>) -> Timestamp {
    let instant = clamp(instant);
    bound.map_or(instant, |bound| bound.min(instant))
}
