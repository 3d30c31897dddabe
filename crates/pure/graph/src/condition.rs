//! `includeWhen`, `readyWhen` and `propagateWhen`: lists of expressions that must all hold.

use jiff::Timestamp;
use kardinal_cel::{EvalError, EvalErrorKind, Limits, Program, Scope};
use serde_json::Value;

use crate::graph::Condition;
use crate::scope::{Layer, earliest};

/// What a list of expressions says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// Expressions that are false, with the time at which that can change.
    pub(crate) unmet: Vec<(String, Option<Timestamp>)>,
    /// Expressions that read something that is not there, with what is missing.
    pub(crate) missing: Vec<(String, String)>,
    /// The first expression that failed, and how.
    pub(crate) error: Option<String>,
    /// When any of the answers can change by time alone.
    pub(crate) until: Option<Timestamp>,
}

impl Verdict {
    /// Whether all expressions are known to hold.
    pub(crate) fn holds(&self) -> bool {
        self.unmet.is_empty() && self.missing.is_empty() && self.error.is_none()
    }

    fn add(&mut self, program: &Program, scope: &dyn Scope, limits: &Limits) {
        let source = program.source();
        match decide(program, scope, limits) {
            Ok((true, until)) => self.until = earliest(self.until, until),
            Ok((false, until)) => {
                self.until = earliest(self.until, until);
                match self.unmet.iter_mut().find(|(known, _)| known == source) {
                    Some((_, known)) => *known = earliest(*known, until),
                    None => self.unmet.push((source.to_owned(), until)),
                }
            }
            Err(Trouble::Missing(what)) => {
                if !self.missing.iter().any(|(known, _)| known == source) {
                    self.missing.push((source.to_owned(), what));
                }
            }
            Err(Trouble::Failed(how)) => {
                self.error.get_or_insert_with(|| format!("`{source}`: {how}"));
            }
        }
    }
}

enum Trouble {
    Missing(String),
    Failed(String),
}

impl From<EvalError> for Trouble {
    fn from(error: EvalError) -> Trouble {
        match error.kind {
            EvalErrorKind::Missing => Trouble::Missing(error.message),
            _ => Trouble::Failed(error.message),
        }
    }
}

/// An optional without a value and null count as false.
fn decide(
    program: &Program,
    scope: &dyn Scope,
    limits: &Limits,
) -> Result<(bool, Option<Timestamp>), Trouble> {
    let (value, until) = program.evaluate_until(scope, limits)?;
    if let Some(answer) = value.as_bool() {
        return Ok((answer, until));
    }
    match value.to_json() {
        Ok(Value::Null) => Ok((false, until)),
        Ok(Value::Bool(answer)) => Ok((answer, until)),
        _ => Err(Trouble::Failed(format!("must be a bool, not {}", value.type_name()))),
    }
}

/// Evaluates plain expressions.
pub(crate) fn check_all(programs: &[Program], scope: &dyn Scope, limits: &Limits) -> Verdict {
    let mut verdict = Verdict::default();
    for program in programs {
        verdict.add(program, scope, limits);
    }
    verdict
}

/// Evaluates conditions about a node with value `own`; those about `each` once per element.
pub(crate) fn check_own(
    conditions: &[Condition],
    id: &str,
    own: &Value,
    base: &dyn Scope,
    limits: &Limits,
) -> Verdict {
    let mut verdict = Verdict::default();
    for condition in conditions {
        if condition.each {
            for item in own.as_array().into_iter().flatten() {
                let names = [(id, own), ("each", item)];
                verdict.add(&condition.program, &Layer { base, names: &names }, limits);
            }
        } else {
            let names = [(id, own)];
            verdict.add(&condition.program, &Layer { base, names: &names }, limits);
        }
    }
    verdict
}
