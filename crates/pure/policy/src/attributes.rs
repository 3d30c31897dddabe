//! The names that an expression may use, and the values that some of them can have at all.
//!
//! A name that is not in the table is found when the gate is written, not when it is asked.

use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};
use kardinal_cel::{CompileError, PathStep, Reference};

use crate::tree::{comparison, walk};

/// The names of the days, Sunday first.
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// How many wrong names are reported at once.
const MAX_ERRORS: usize = 10;

/// What stands under a name.
enum Shape {
    /// A text, number or truth value.
    Leaf,
    /// A list or a map whose keys are the user's.
    Open,
    /// These names and no others.
    Fields(&'static [(&'static str, Shape)]),
}

use Shape::{Fields, Leaf, Open};

/// All that an expression may name.
const CONTEXT: &[(&str, Shape)] = &[
    (
        "bundle",
        Fields(&[
            ("name", Leaf),
            ("version", Leaf),
            ("type", Leaf),
            ("labels", Open),
            ("annotations", Open),
            (
                "metadata",
                Fields(&[
                    ("name", Leaf),
                    ("labels", Open),
                    ("annotations", Open),
                    ("creationTimestamp", Leaf),
                ]),
            ),
            (
                "provenance",
                Fields(&[
                    ("commitSHA", Leaf),
                    ("ciRunURL", Leaf),
                    ("author", Leaf),
                    ("buildTimestamp", Leaf),
                    ("rollbackOf", Leaf),
                ]),
            ),
            ("intent", Fields(&[("target", Leaf), ("skip", Open)])),
            ("upstreamSoakMinutes", Leaf),
            ("upstreamSoakSeconds", Leaf),
        ]),
    ),
    ("schedule", Fields(&[("isWeekend", Leaf), ("hour", Leaf), ("minute", Leaf), ("dayOfWeek", Leaf)])),
    ("environment", Fields(&[("name", Leaf), ("approval", Leaf)])),
    ("previousBundle", Fields(&[("name", Leaf), ("version", Leaf)])),
];

/// Names that the design knows and gates cannot read yet, with what they would be.
const LATER: [(&str, &str); 5] = [
    ("metrics", "metrics"),
    ("delegation", "the state of progressive delivery"),
    ("externalApproval", "approvals from elsewhere"),
    ("contracts", "contracts with other Pipelines"),
    ("targetDrift", "drift of the target"),
];

/// Attributes whose values are known beforehand.
const CLOSED: [(&[&str], &[&str]); 3] = [
    (&["schedule", "dayOfWeek"], &DAYS),
    (&["environment", "approval"], &["auto", "pr-review"]),
    (&["bundle", "type"], &["image", "config", "mixed"]),
];

/// The variables that are declared. Those that come later are declared too, for a better message than "undeclared".
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    CONTEXT.iter().map(|(name, _)| *name).chain(LATER.iter().map(|(name, _)| *name))
}

/// Whether a name is one of the variables that gates can read.
pub(crate) fn is_variable(name: &str) -> bool {
    CONTEXT.iter().any(|(known, _)| *known == name)
}

/// What is wrong with the names that an expression uses.
pub(crate) fn check_references(references: &[Reference]) -> Vec<CompileError> {
    references.iter().filter_map(check_reference).take(MAX_ERRORS).collect()
}

fn check_reference(reference: &Reference) -> Option<CompileError> {
    if let Some((name, what)) = LATER.iter().find(|(name, _)| *name == reference.root) {
        let message = format!("`{name}` is not available: gates cannot read {what} in this version");
        return Some(CompileError::new(reference.span, message).with_hint("remove it from the expression"));
    }
    let mut known = CONTEXT.iter().find(|(name, _)| *name == reference.root).map(|(_, shape)| shape)?;
    let mut so_far = reference.root.clone();
    for step in &reference.path {
        let name = match (known, step) {
            (Open, _) | (Fields(_), PathStep::Any) => return None,
            (Leaf, _) => {
                let message = format!("`{so_far}` is a single value and has no `{step}`");
                return Some(CompileError::new(reference.span, message));
            }
            (Fields(_), PathStep::Index(_)) => "",
            (Fields(_), PathStep::Field(name) | PathStep::Key(name)) => name,
        };
        let Fields(fields) = known else { return None };
        let Some((_, shape)) = fields.iter().find(|(field, _)| *field == name) else {
            let names: Vec<String> = fields.iter().map(|(field, _)| format!("`{field}`")).collect();
            let error = CompileError::new(reference.span, format!("`{so_far}` has no `{step}`"));
            return Some(error.with_hint(format!("`{so_far}` has {}", names.join(", "))));
        };
        so_far = format!("{so_far}.{name}");
        known = shape;
    }
    None
}

/// What is wrong with the values that an expression compares attributes with: a misspelt day would never come.
pub(crate) fn check_literals(expr: &Expr) -> Vec<CompileError> {
    let mut errors = Vec::new();
    walk(expr, &mut |expr, bound| {
        let Some(comparison) = comparison(expr, bound) else { return };
        let Some((_, values)) = CLOSED.iter().find(|(names, _)| *names == comparison.names) else { return };
        match (comparison.op, &comparison.with.kind) {
            (BinaryOp::Eq | BinaryOp::Ne, _) => {
                check_literal(&comparison.names, values, comparison.with, &mut errors)
            }
            (BinaryOp::In, ExprKind::List(entries)) => {
                for entry in entries {
                    check_literal(&comparison.names, values, &entry.value, &mut errors);
                }
            }
            _ => {}
        }
    });
    errors.truncate(MAX_ERRORS);
    errors
}

fn check_literal(names: &[&str], values: &[&str], literal: &Expr, errors: &mut Vec<CompileError>) {
    let shown = match &literal.kind {
        ExprKind::String(text) if values.contains(&text.as_str()) => return,
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Int(number) => number.to_string(),
        ExprKind::Bool(value) => value.to_string(),
        _ => return,
    };
    let allowed: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    let error = CompileError::new(literal.span, format!("`{}` is never {shown}", names.join(".")));
    errors.push(error.with_hint(format!("it is one of {}", allowed.join(", "))));
}
