//! Why a gate answers as it does, in one short line.

use std::fmt::Write as _;

use kardinal_api::Fact;
use kardinal_api::kardinal::GateOverride;
use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};
use kardinal_cel::{Limits, PathStep, Reference, Scope};
use kardinal_object::whole_second;

use crate::context::Context;
use crate::expression::Expression;
use crate::language::Language;
use crate::schedule::SCHEDULE;
use crate::shape::{Attribute, Unit};
use crate::tree::comparison;
use crate::when::time_zone;

/// How many values one reason shows.
const MAX_LEAVES: usize = 6;
/// How many characters of one value it shows.
const MAX_VALUE: usize = 60;
/// How many characters it has.
const MAX_REASON: usize = 512;
/// How deep and how wide an expression is taken apart.
const MAX_DEPTH: usize = 4;
const MAX_TERMS: usize = 16;
/// What finding out which part of an expression matters may cost.
const LIMITS: Limits = Limits { cost: 10_000 };

/// The values that led to the answer: of a false `&&` those of its false parts, of a true `||` those of its true parts. In one
/// line, and one by one.
pub(crate) fn values(language: &Language, expression: &Expression, world: &dyn Scope) -> (String, Vec<Fact>) {
    let asked = Asked { language, expression, world };
    let mut parts = Vec::new();
    asked.decisive(&expression.tree, MAX_DEPTH, &mut parts);
    parts.truncate(MAX_TERMS);
    let mut leaves: Vec<Fact> = Vec::new();
    for part in &parts {
        let Some(part) = asked.compile(part) else { continue };
        let read = part.references.iter().map(|reference| (reference.to_string(), Some(reference)));
        let clock = part.program.uses_now().then(|| ("now()".to_owned(), None));
        for (name, reference) in read.chain(clock) {
            if !leaves.iter().any(|known| known.name == name) {
                let now = || whole_second(world.now()).to_string();
                leaves.push(Fact {
                    name,
                    value: reference.map_or_else(now, |reference| shown(reference, world)),
                });
            }
        }
    }
    let threshold = match parts.as_slice() {
        [part] if leaves.len() == 1 => threshold(part, &expression.source),
        _ => None,
    };
    let hidden = leaves.len().saturating_sub(MAX_LEAVES);
    leaves.truncate(MAX_LEAVES);
    (line(&leaves, threshold.as_deref(), hidden), leaves)
}

fn line(leaves: &[Fact], threshold: Option<&str>, hidden: usize) -> String {
    let shown: Vec<String> = leaves.iter().map(|leaf| format!("{} = {}", leaf.name, leaf.value)).collect();
    let mut text = shown.join(", ");
    if text.is_empty() {
        text.push_str("the expression reads no values");
    }
    if let Some(threshold) = threshold {
        let _ = write!(text, " ({threshold})");
    }
    if hidden > 0 {
        let _ = write!(text, " and {hidden} more");
    }
    cut(&text, MAX_REASON)
}

/// How an override is told.
pub(crate) fn overridden(given: &GateOverride) -> String {
    let by = given.created_by.as_deref().filter(|by| !by.is_empty()).unwrap_or("somebody");
    let until = match given.expires_at {
        Some(expires) => format!("until {expires:.0}"),
        None => "without end".to_owned(),
    };
    format!("overridden by {}: {} ({until})", flat(by), cut(&flat(&given.reason), MAX_REASON))
}

/// The local time for gates that read only `schedule`, and the time that has gone by for gates that compare only that.
pub(crate) fn detail_of<C: Context>(
    language: &Language,
    expression: &Expression,
    context: &C,
    zone: &str,
) -> Option<String> {
    if expression.program.uses_now() || expression.references.is_empty() {
        return None;
    }
    if expression.references.iter().all(|reference| reference.root == SCHEDULE) {
        let zone = time_zone(zone).ok()?;
        return Some(context.now().to_zoned(zone).strftime("%A %H:%M %Z").to_string());
    }
    let comparison = comparison(&expression.tree, &[])?;
    let ExprKind::Int(wanted) = comparison.with.kind else { return None };
    let bound = match comparison.op {
        BinaryOp::Ge | BinaryOp::Gt => "min",
        BinaryOp::Le | BinaryOp::Lt => "max",
        _ => return None,
    };
    let Some(Attribute::Elapsed { title, unit }) = language.attribute(&comparison.names) else { return None };
    let (root, fields) = comparison.names.split_first()?;
    let elapsed = fields.iter().try_fold(context.get(root)?, |value, name| value.get(name))?.as_i64()?;
    let written = |count: i64| match unit {
        Unit::Minutes => hours_and_minutes(count),
        Unit::Seconds => format!("{count}s"),
    };
    Some(format!("{title}: {} ({bound}: {})", written(elapsed), written(wanted)))
}

fn hours_and_minutes(minutes: i64) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// An expression and what it is asked about.
struct Asked<'a> {
    language: &'a Language,
    expression: &'a Expression,
    world: &'a dyn Scope,
}

impl Asked<'_> {
    /// Collects the parts of an expression that decide its value.
    fn decisive<'e>(&self, part: &'e Expr, depth: usize, found: &mut Vec<&'e Expr>) {
        let terms = match &part.kind {
            ExprKind::Not(operand) if depth > 0 => return self.decisive(operand, depth - 1, found),
            ExprKind::And(terms) | ExprKind::Or(terms) if depth > 0 && terms.len() <= MAX_TERMS => terms,
            _ => return found.push(part),
        };
        let deciding = matches!(part.kind, ExprKind::Or(_));
        let mut chosen: Vec<&Expr> = terms.iter().filter(|term| self.value(term) == Some(deciding)).collect();
        if chosen.is_empty() {
            chosen = terms.iter().collect();
        }
        for term in chosen {
            self.decisive(term, depth - 1, found);
        }
    }

    fn value(&self, part: &Expr) -> Option<bool> {
        self.compile(part)?.program.evaluate(self.world, &LIMITS).ok()?.as_bool()
    }

    fn compile(&self, part: &Expr) -> Option<Expression> {
        Expression::compile(self.language, part.span.text(&self.expression.source)).ok()
    }
}

/// What the one value is compared with.
fn threshold(part: &Expr, source: &str) -> Option<String> {
    let comparison = comparison(part, &[])?;
    let word = match comparison.op {
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => "threshold",
        _ => "wanted",
    };
    let with = comparison.with.span.text(source);
    Some(format!("{word}: {} {}", comparison.op.symbol(), cut(&flat(with), MAX_VALUE)))
}

/// The value under a reference, as far as it can be followed.
fn shown(reference: &Reference, world: &dyn Scope) -> String {
    let Some(mut value) = world.get(&reference.root) else { return "(not set)".to_owned() };
    for step in &reference.path {
        let next = match step {
            PathStep::Field(name) | PathStep::Key(name) => value.get(name),
            PathStep::Index(position) => {
                usize::try_from(*position).ok().and_then(|position| value.get(position))
            }
            PathStep::Any => break,
        };
        let Some(next) = next else { return "(not set)".to_owned() };
        value = next;
    }
    cut(&value.to_string(), MAX_VALUE)
}

/// Whitespace in one piece.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first characters of a text.
fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_is_told_without_nanoseconds() {
        let given = GateOverride {
            reason: "outage".to_owned(),
            created_by: Some("alice".to_owned()),
            expires_at: Some("2026-04-09T10:30:00.123456789Z".parse().unwrap()),
            ..GateOverride::default()
        };
        assert_eq!(overridden(&given), "overridden by alice: outage (until 2026-04-09T10:30:00Z)");
    }
}
