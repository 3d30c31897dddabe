//! Whether the parts of an expression work on the values that the context has.
//!
//! The attributes have known types, so a comparison such as `schedule.hour > "9"` fails whenever it is reached. There is
//! no type checker: every part that stands for itself is tried in sample contexts, and what fails in all of them because
//! of the types is refused. What fails for another reason, such as a label that is not there, may work with other values.
//! Equality never fails; the same contexts tell whether its sides can be equal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{CompileError, EvalErrorKind, Limits, Scope, Span};
use serde_json::Value;

use crate::equality::{KINDS_HINT, check_equality};
use crate::expression::ScheduleReads;
use crate::language::Language;
use crate::schedule::{SCHEDULE, Schedule};
use crate::shape::Sample;
use crate::tree::walk;

/// How many parts of an expression are tried.
const MAX_PARTS: usize = 200;
/// What trying one part may cost.
const COST: Limits = Limits { cost: 10_000 };
/// A Wednesday.
const WEEKDAY: i64 = 1_712_739_000;
/// A Sunday.
const WEEKEND: i64 = 1_712_457_000;

/// What is wrong with the types of an expression that compiles.
pub(crate) fn check_types(language: &Language, source: &str, tree: &Expr) -> Vec<CompileError> {
    let mut parts: Vec<Span> = Vec::new();
    walk(tree, &mut |expr, bound| {
        let tried = matches!(
            expr.kind,
            ExprKind::Binary { .. } | ExprKind::Call { .. } | ExprKind::Negate(_) | ExprKind::Index { .. }
        );
        // What depends on a loop variable does not stand for itself.
        if tried && bound.is_empty() && parts.len() < MAX_PARTS {
            parts.push(expr.span);
        }
    });
    let samples = samples(language);
    let mut errors: BTreeMap<Span, CompileError> = BTreeMap::new();
    for part in parts {
        if let Some((span, message)) = failure(language, source, part, &samples) {
            let error = CompileError::new(span, format!("this never has a value: {message}"));
            errors.entry(span).or_insert_with(|| error.with_hint(KINDS_HINT));
        }
    }
    for error in check_equality(&language.env, source, tree, &samples) {
        errors.entry(error.span).or_insert(error);
    }
    errors.into_values().collect()
}

/// Where and why a part fails in every context because of the types.
fn failure(language: &Language, source: &str, part: Span, samples: &[Sampled]) -> Option<(Span, String)> {
    // A part whose parentheses lie outside of its span is no expression; those around it are tried.
    let program = language.env.compile(source.get(part.range())?).ok()?;
    let mut first = None;
    for sample in samples {
        let error =
            program.evaluate(sample, &COST).err().filter(|error| error.kind == EvalErrorKind::Type)?;
        first.get_or_insert((error.span, error.message));
    }
    let (inner, message) = first?;
    Some((Span::new(part.start + inner.start, part.start + inner.end), message))
}

/// A context in which every attribute has a value of its type.
pub(crate) struct Sampled {
    variables: BTreeMap<&'static str, Value>,
    now: Timestamp,
}

impl Scope for Sampled {
    fn get(&self, name: &str) -> Option<&Value> {
        self.variables.get(name)
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

/// One context in which everything is known, and one in which nothing is.
fn samples(language: &Language) -> Vec<Sampled> {
    let sampled = |(sample, second)| {
        let now = Timestamp::from_second(second).unwrap_or_default();
        let schedule = Schedule::new(TimeZone::UTC, ScheduleReads::default(), now);
        let variables = language.variables().iter();
        let variables = variables.map(|(name, attribute)| (*name, attribute.sample(sample)));
        let schedule = (SCHEDULE, schedule.value().clone());
        Sampled { variables: variables.chain([schedule]).collect(), now }
    };
    [(Sample::Full, WEEKDAY), (Sample::Empty, WEEKEND)].into_iter().map(sampled).collect()
}
