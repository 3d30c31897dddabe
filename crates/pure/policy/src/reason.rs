//! Why a gate answers as it does, in one short line.

use std::fmt::Write as _;

use kardinal_api::PolicyGateSpec;
use kardinal_api::kardinal::GateOverride;
use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};
use kardinal_cel::{Limits, PathStep, Reference, Scope as _};
use kardinal_object::whole_second;

use crate::evaluate::evaluate;
use crate::expression::Expression;
use crate::facts::{Facts, soak};
use crate::tree::comparison;
use crate::when::time_zone;
use crate::world::World;

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

/// The values that led to the answer: of a false `&&` those of its false parts, of a true `||` those of its true parts.
pub(crate) fn values(expression: &Expression, world: &World) -> String {
    let mut parts = Vec::new();
    decisive(expression, &expression.tree, world, MAX_DEPTH, &mut parts);
    parts.truncate(MAX_TERMS);
    let mut leaves: Vec<(String, String)> = Vec::new();
    for part in &parts {
        let Ok(part) = Expression::compile(part.span.text(&expression.source)) else { continue };
        for reference in &part.references {
            let name = reference.to_string();
            if !leaves.iter().any(|(known, _)| *known == name) {
                leaves.push((name, shown(reference, world)));
            }
        }
        if part.program.uses_now() && !leaves.iter().any(|(known, _)| known == "now()") {
            leaves.push(("now()".to_owned(), whole_second(world.now()).to_string()));
        }
    }
    let threshold = match parts.as_slice() {
        [part] if leaves.len() == 1 => threshold(part, &expression.source),
        _ => None,
    };
    let hidden = leaves.len().saturating_sub(MAX_LEAVES);
    let shown: Vec<String> =
        leaves.iter().take(MAX_LEAVES).map(|(name, value)| format!("{name} = {value}")).collect();
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

/// The answer as the table of a pull request shows it: the local time for gates that read only `schedule`, the soak time
/// for gates that compare only that, and the reason otherwise.
pub fn detail(gate: &PolicyGateSpec, facts: &Facts<'_>) -> String {
    let verdict = evaluate(gate, facts);
    if verdict.error || verdict.overridden.is_some() {
        return verdict.reason;
    }
    special_detail(gate, facts).unwrap_or(verdict.reason)
}

fn special_detail(gate: &PolicyGateSpec, facts: &Facts<'_>) -> Option<String> {
    let expression = Expression::compile(&gate.expression).ok()?;
    if expression.program.uses_now() || expression.references.is_empty() {
        return None;
    }
    if expression.references.iter().all(|reference| reference.root == "schedule") {
        let zone = time_zone(gate.time_zone.as_deref().unwrap_or("UTC")).ok()?;
        return Some(facts.now.to_zoned(zone).strftime("%A %H:%M %Z").to_string());
    }
    let comparison = comparison(&expression.tree, &[])?;
    let ExprKind::Int(wanted) = comparison.with.kind else { return None };
    let bound = match comparison.op {
        BinaryOp::Ge | BinaryOp::Gt => "min",
        BinaryOp::Le | BinaryOp::Lt => "max",
        _ => return None,
    };
    let soaked = soak(facts.bundle, facts.environment.upstreams, facts.now).unwrap_or_default();
    let (soaked, wanted) = match comparison.names.as_slice() {
        ["bundle", "upstreamSoakMinutes"] => (hours_and_minutes(soaked.as_mins()), hours_and_minutes(wanted)),
        ["bundle", "upstreamSoakSeconds"] => (format!("{}s", soaked.as_secs()), format!("{wanted}s")),
        _ => return None,
    };
    Some(format!("Soak: {soaked} ({bound}: {wanted})"))
}

fn hours_and_minutes(minutes: i64) -> String {
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// Collects the parts of an expression that decide its value.
fn decisive<'e>(
    expression: &Expression,
    part: &'e Expr,
    world: &World,
    depth: usize,
    found: &mut Vec<&'e Expr>,
) {
    let terms = match &part.kind {
        ExprKind::Not(operand) if depth > 0 => {
            return decisive(expression, operand, world, depth - 1, found);
        }
        ExprKind::And(terms) | ExprKind::Or(terms) if depth > 0 && terms.len() <= MAX_TERMS => terms,
        _ => return found.push(part),
    };
    let deciding = matches!(part.kind, ExprKind::Or(_));
    let mut chosen: Vec<&Expr> =
        terms.iter().filter(|term| value(expression, term, world) == Some(deciding)).collect();
    if chosen.is_empty() {
        chosen = terms.iter().collect();
    }
    for term in chosen {
        decisive(expression, term, world, depth - 1, found);
    }
}

fn value(expression: &Expression, part: &Expr, world: &World) -> Option<bool> {
    let part = Expression::compile(part.span.text(&expression.source)).ok()?;
    part.program.evaluate(world, &LIMITS).ok()?.as_bool()
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
fn shown(reference: &Reference, world: &World) -> String {
    let Some(mut value) = world.root(&reference.root) else { return "(not set)".to_owned() };
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
