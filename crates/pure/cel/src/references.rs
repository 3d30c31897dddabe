//! Which data an expression reads: its free references as paths. This module resolves no names against an environment.

use std::collections::BTreeSet;
use std::fmt;

use crate::ast::{Comprehension, Expr, ExprKind};
use crate::span::Span;

/// One way from a free variable into its data, as far as it is written as a chain of selections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The variable.
    pub root: String,
    /// The selections after it; empty when the whole value is used.
    pub path: Vec<PathStep>,
    /// Whether the first step after the root is `.?` or `[?`, so that the expression tolerates an absent root.
    pub optional: bool,
    /// Where the chain first stands in the source.
    pub span: Span,
}

/// One selection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathStep {
    /// `.name`
    Field(String),
    /// `[3]`
    Index(i64),
    /// `["name"]`
    Key(String),
    /// An index that is computed: any element may be meant.
    Any,
}

impl fmt::Display for PathStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathStep::Field(name) => write!(out, ".{name}"),
            PathStep::Index(position) => write!(out, "[{position}]"),
            PathStep::Key(key) => write!(out, "[{key:?}]"),
            PathStep::Any => out.write_str("[*]"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.root)?;
        self.path.iter().try_for_each(|step| step.fmt(out))
    }
}

/// The free references of an expression, each once, in the order in which they first stand in the source.
///
/// `is_function(namespace, name)` says whether `namespace.name(…)` calls a function of a library; the namespace is
/// then no reference. Loop variables are no references; `.x` passes by a loop variable `x`.
pub(crate) fn free_references(expr: &Expr, is_function: &dyn Fn(&str, &str) -> bool) -> Vec<Reference> {
    let mut collector = Collector { is_function, bound: Vec::new(), found: Vec::new() };
    collector.visit(expr);
    let mut found = collector.found;
    found.sort_by_key(|reference| (reference.span.start, reference.span.end));
    let mut seen = BTreeSet::new();
    found.retain(|reference| {
        seen.insert((reference.root.clone(), reference.path.clone(), reference.optional))
    });
    found
}

struct Collector<'e> {
    is_function: &'e dyn Fn(&str, &str) -> bool,
    bound: Vec<&'e str>,
    found: Vec<Reference>,
}

impl<'e> Collector<'e> {
    fn visit(&mut self, expr: &'e Expr) {
        match &expr.kind {
            ExprKind::Null
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Uint(_)
            | ExprKind::Double(_)
            | ExprKind::String(_)
            | ExprKind::Bytes(_) => {}
            ExprKind::Ident { .. }
            | ExprKind::Select { .. }
            | ExprKind::Has { .. }
            | ExprKind::Index { .. } => self.chain(expr),
            ExprKind::Call { target, function, args } => {
                if let Some(target) = target
                    && !self.is_namespace(target, function)
                {
                    self.visit(target);
                }
                args.iter().for_each(|arg| self.visit(arg));
            }
            ExprKind::Not(operand) | ExprKind::Negate(operand) => self.visit(operand),
            ExprKind::Binary { left, right, .. } => {
                self.visit(left);
                self.visit(right);
            }
            ExprKind::And(terms) | ExprKind::Or(terms) => terms.iter().for_each(|term| self.visit(term)),
            ExprKind::Conditional { test, then, otherwise } => {
                self.visit(test);
                self.visit(then);
                self.visit(otherwise);
            }
            ExprKind::List(entries) => entries.iter().for_each(|entry| self.visit(&entry.value)),
            ExprKind::Map(entries) => {
                for entry in entries {
                    self.visit(&entry.key);
                    self.visit(&entry.value);
                }
            }
            ExprKind::Message { fields, .. } => fields.iter().for_each(|field| self.visit(&field.value)),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn comprehension(&mut self, comprehension: &'e Comprehension) {
        self.visit(&comprehension.range);
        let outside = self.bound.len();
        self.bound.push(&comprehension.var);
        if let Some(second) = &comprehension.var2 {
            self.bound.push(second);
        }
        if let Some(filter) = &comprehension.filter {
            self.visit(filter);
        }
        self.visit(&comprehension.body);
        self.bound.truncate(outside);
    }

    /// Follows a chain of selections down to what it starts from.
    fn chain(&mut self, expr: &'e Expr) {
        let mut steps = Vec::new();
        let mut guarded = false;
        let mut at = expr;
        loop {
            match &at.kind {
                ExprKind::Select { operand, field, optional }
                | ExprKind::Has { operand, field, optional } => {
                    steps.push(PathStep::Field(field.clone()));
                    guarded = *optional;
                    at = operand;
                }
                ExprKind::Index { operand, index, optional } => {
                    steps.push(self.step(index));
                    guarded = *optional;
                    at = operand;
                }
                ExprKind::Ident { name, absolute } => {
                    if *absolute || !self.bound.contains(&name.as_str()) {
                        steps.reverse();
                        let span = expr.span;
                        self.found.push(Reference {
                            root: name.clone(),
                            path: steps,
                            optional: guarded,
                            span,
                        });
                    }
                    return;
                }
                _ => return self.visit(at),
            }
        }
    }

    /// The step an index makes; what a computed index reads counts as well.
    fn step(&mut self, index: &'e Expr) -> PathStep {
        match &index.kind {
            ExprKind::Int(position) => PathStep::Index(*position),
            ExprKind::Uint(position) => i64::try_from(*position).map_or(PathStep::Any, PathStep::Index),
            ExprKind::String(key) => PathStep::Key(key.clone()),
            _ => {
                self.visit(index);
                PathStep::Any
            }
        }
    }

    fn is_namespace(&self, target: &Expr, function: &str) -> bool {
        match dotted(target) {
            Some((root, namespace)) => {
                !self.bound.contains(&root) && (self.is_function)(&namespace, function)
            }
            None => false,
        }
    }
}

/// `a.b.c` as its first name and as a whole, when the expression is nothing but that.
fn dotted(expr: &Expr) -> Option<(&str, String)> {
    match &expr.kind {
        ExprKind::Ident { name, .. } => Some((name, name.clone())),
        ExprKind::Select { operand, field, optional: false } => {
            let (root, namespace) = dotted(operand)?;
            Some((root, format!("{namespace}.{field}")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
