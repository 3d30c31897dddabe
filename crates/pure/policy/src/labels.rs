//! Labels as the expressions of gates see them.
//!
//! Kubernetes keeps labels and annotations as text, and people write `bundle.labels.hotfix == true`. Both
//! `== true` and `== "true"` hold for the text `true`, and a label that is not there reads as empty text instead of
//! failing. CEL finds a text and a truth value never equal, so the expression is rewritten before it is compiled:
//! `bundle.labels.hotfix == true` becomes `bundle.labels[?"hotfix"].orValue("") == "true"`. `has(…)`, `.?` and keys
//! that are computed stay as they are.

use kardinal_cel::Span;
use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};

use crate::language::Language;
use crate::shape::Attribute;
use crate::tree::{chain, walk};

/// The same expression with the two liberties for labels spelled out.
pub(crate) fn with_lenient_labels(language: &Language, source: &str, expr: &Expr) -> String {
    let mut edits: Vec<(Span, String)> = Vec::new();
    walk(expr, &mut |expr, bound| {
        if let Some((map, key)) = label(language, expr, bound) {
            edits.push((expr.span, format!("{map}[?{}].orValue(\"\")", quoted(key))));
        }
        if let ExprKind::Binary { op: BinaryOp::Eq | BinaryOp::Ne, left, right } = &expr.kind {
            for (side, other) in [(left, right), (right, left)] {
                if let (Some(_), ExprKind::Bool(value)) = (label(language, side, bound), &other.kind) {
                    edits.push((other.span, format!("\"{value}\"")));
                }
            }
        }
    });
    apply(source, edits)
}

/// The map and the key, when the expression reads one label or annotation under a literal key.
fn label<'e>(language: &Language, expr: &'e Expr, bound: &[&str]) -> Option<(String, &'e str)> {
    let names = chain(expr, bound)?;
    let (key, map) = names.split_last()?;
    // The text would name the loop variable instead.
    let is_hidden = map.first().is_some_and(|root| bound.contains(root));
    let is_map_of_texts = matches!(language.attribute(map), Some(Attribute::Labels));
    (is_map_of_texts && !is_hidden).then(|| (map.join("."), *key))
}

/// A CEL string literal; JSON writes strings in a subset of CEL's way.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Replaces the spans, none of which overlap.
fn apply(source: &str, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| span.start);
    let mut text = String::with_capacity(source.len());
    let mut from = 0;
    for (span, replacement) in edits {
        text.push_str(source.get(from..span.start as usize).unwrap_or_default());
        text.push_str(&replacement);
        from = span.end as usize;
    }
    text.push_str(source.get(from..).unwrap_or_default());
    text
}
