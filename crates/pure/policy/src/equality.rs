//! Whether the sides of `==`, `!=` and `in` can be equal at all.
//!
//! CEL lets values of different kinds be compared for equality, and they are never equal: `schedule.hour == "9"` is a
//! gate that never opens, `schedule.hour != "9"` one that never closes. Both sides are evaluated in sample contexts, and
//! a comparison is refused when the kinds differ in all of them. What has no value there is not known.

use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};
use kardinal_cel::{CompileError, Env, Limits, Value};

use crate::samples::Sampled;
use crate::tree::walk;

/// How many comparisons of an expression are tried.
const MAX_COMPARISONS: usize = 200;
/// What evaluating one side may cost.
const COST: Limits = Limits { cost: 10_000 };

/// Two expressions that are compared for equality.
struct Sides<'e> {
    left: &'e Expr,
    right: &'e Expr,
    /// What the error marks.
    marked: &'e Expr,
    /// What becomes of the comparison when the two are never equal.
    outcome: &'static str,
}

/// The comparisons whose sides are never equal because of their kinds.
pub(crate) fn check_equality(env: &Env, source: &str, tree: &Expr, samples: &[Sampled]) -> Vec<CompileError> {
    let kinds = |expr: &Expr| kinds(env, source, expr, samples);
    let differing = |sides: Sides<'_>| {
        let (left, right) = differing(&kinds(sides.left)?, &kinds(sides.right)?)?;
        let message = format!("this is {}: {left} and {right} are never equal", sides.outcome);
        Some(CompileError::new(sides.marked.span, message).with_hint(hint(left, right)))
    };
    comparisons(tree).into_iter().filter_map(differing).collect()
}

/// What an expression compares for equality, as far as it stands for itself; the elements of a list one by one.
fn comparisons(tree: &Expr) -> Vec<Sides<'_>> {
    let mut found = Vec::new();
    walk(tree, &mut |expr, bound| {
        let ExprKind::Binary { op, left, right } = &expr.kind else { return };
        // What depends on a loop variable has a value only within its loop.
        if !bound.is_empty() {
            return;
        }
        match (op, &right.kind) {
            (BinaryOp::Eq, _) => found.push(Sides { left, right, marked: expr, outcome: "never true" }),
            (BinaryOp::Ne, _) => found.push(Sides { left, right, marked: expr, outcome: "always true" }),
            (BinaryOp::In, ExprKind::List(entries)) => {
                // An optional element is compared by what is in it, if anything is.
                let certain = entries.iter().filter(|entry| !entry.optional).map(|entry| &entry.value);
                found.extend(certain.map(|right| Sides {
                    left,
                    right,
                    marked: right,
                    outcome: "never found",
                }));
            }
            _ => {}
        }
    });
    found.truncate(MAX_COMPARISONS);
    found
}

/// The kinds of an expression's value in each of the contexts; nothing when they are not certain in all of them.
fn kinds(env: &Env, source: &str, expr: &Expr, samples: &[Sampled]) -> Option<Vec<&'static str>> {
    if !is_certain(expr) {
        return None;
    }
    let program = env.compile(source.get(expr.span.range())?).ok()?;
    let kind = |sample: &Sampled| match program.evaluate(sample, &COST).ok()? {
        // Comparing with null asks whether there is a value, whatever its kind.
        Value::Null => None,
        value => Some(value.type_name()),
    };
    samples.iter().map(kind).collect()
}

/// Whether the samples tell the kind of an expression for all contexts. They do not when it is picked among several
/// values, which may be of several kinds, or when the author says with `dyn` that it is not known.
fn is_certain(expr: &Expr) -> bool {
    let (mut picks, mut reads_into, mut literal) = (false, false, false);
    walk(expr, &mut |expr, _| match &expr.kind {
        ExprKind::Conditional { .. } => picks = true,
        ExprKind::Call { function, .. } => picks |= matches!(function.as_str(), "dyn" | "or" | "orValue"),
        ExprKind::Index { .. } | ExprKind::Select { .. } => reads_into = true,
        ExprKind::List(_) | ExprKind::Map(_) => literal = true,
        _ => {}
    });
    let may_pick = reads_into && literal;
    !picks && !may_pick
}

/// The kinds of the two sides in the first context, when they differ in every one.
fn differing(left: &[&'static str], right: &[&'static str]) -> Option<(&'static str, &'static str)> {
    let mut pairs = left.iter().copied().zip(right.iter().copied());
    let differ = |(left, right): (&str, &str)| left != right && !(is_number(left) && is_number(right));
    pairs.clone().all(differ).then(|| pairs.next()).flatten()
}

/// Numbers are equal across their types.
fn is_number(kind: &str) -> bool {
    matches!(kind, "int" | "uint" | "double")
}

fn hint(left: &str, right: &str) -> &'static str {
    if [left, right].contains(&"optional_type") {
        return "say what counts when there is no value, such as `.orValue(\"\")`";
    }
    KINDS_HINT
}

/// What to do about values of different kinds.
pub(crate) const KINDS_HINT: &str =
    "numbers, texts and truth values are compared with their own kind: `9` is a number, `\"9\"` a text";
