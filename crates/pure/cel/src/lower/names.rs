//! Finding what names stand for, and saying which known name is nearest when they stand for nothing.

use super::{Lowering, MAX_ERRORS, Node, Op};
use crate::ast::{Expr, ExprKind};
use crate::error::CompileError;
use crate::functions::Function;
use crate::span::Span;
use crate::value::Value;

impl<'e> Lowering<'e> {
    pub(super) fn ident(&mut self, span: Span, name: &str, absolute: bool) -> Op {
        if !absolute && let Some(position) = self.locals.iter().rposition(|local| *local == name) {
            return Op::Local(position);
        }
        if let Some(op) = self.global(name, name, absolute) {
            return op;
        }
        if self.env.allows_undeclared() {
            return self.variable(name, name);
        }
        if self.errors.len() >= MAX_ERRORS {
            return Op::Const(Value::Null);
        }
        let mut known: Vec<&str> = self.locals.clone();
        known.extend(self.env.variables());
        self.env.type_names().for_each(|name| known.push(name));
        let error = CompileError::new(span, format!("undeclared name `{name}`"));
        let error = with_nearest(error, name, known.into_iter());
        self.report(error);
        Op::Const(Value::Null)
    }

    /// A declared variable or a type of this name in the container or outside of it.
    fn global(&mut self, name: &str, root: &str, absolute: bool) -> Option<Op> {
        for candidate in self.env.candidates(name, absolute) {
            if self.env.declares(&candidate) {
                return Some(self.variable(&candidate, root));
            }
            if let Some(ty) = self.env.type_named(&candidate) {
                return Some(Op::Const(Value::Type(ty)));
            }
        }
        None
    }

    fn variable(&mut self, name: &str, root: &str) -> Op {
        self.roots.insert(root.to_owned());
        if let Some(slot) = self.variables.iter().position(|known| known == name) {
            return Op::Variable(slot);
        }
        self.variables.push(name.to_owned());
        Op::Variable(self.variables.len() - 1)
    }

    /// A chain of selections that is the name of a variable or a type, such as `google.protobuf.Timestamp`.
    pub(super) fn qualified(&mut self, expr: &Expr) -> Option<Op> {
        let (name, root, absolute) = dotted(expr)?;
        if !absolute && self.locals.contains(&root) {
            return None;
        }
        self.global(&name, root, absolute)
    }

    pub(super) fn call(
        &mut self,
        span: Span,
        target: Option<&'e Expr>,
        function: &'e str,
        args: &'e [Expr],
    ) -> Op {
        let Some(target) = target else {
            let name = function.trim_start_matches('.');
            if name == "now" && args.is_empty() {
                self.uses_now = true;
                return Op::Now;
            }
            let args = args.iter().map(|arg| self.expr(arg)).collect();
            return self.resolve(span, name, false, args);
        };
        if let Some(name) = self.namespaced(target, function) {
            let args = args.iter().map(|arg| self.expr(arg)).collect();
            return self.resolve(span, &name, false, args);
        }
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(self.expr(target));
        all.extend(args.iter().map(|arg| self.expr(arg)));
        self.resolve(span, function, true, all)
    }

    /// The full name of a function of a namespace, if the target is a namespace and not a value.
    fn namespaced(&self, target: &Expr, function: &str) -> Option<String> {
        let (namespace, root, absolute) = dotted(target)?;
        if !absolute && self.locals.contains(&root) {
            return None;
        }
        let name = format!("{namespace}.{function}");
        if self.env.functions().any(|known| !known.receiver && known.name == name) {
            return Some(name);
        }
        // A misspelt function of a namespace is told as that, and not as a misspelt variable.
        let prefix = format!("{namespace}.");
        let is_namespace =
            self.env.functions().any(|known| !known.receiver && known.name.starts_with(&prefix));
        (is_namespace && !self.env.declares(root)).then_some(name)
    }

    fn resolve(&mut self, span: Span, name: &str, receiver: bool, args: Vec<Node>) -> Op {
        let named: Vec<&'static Function> =
            self.env.functions().filter(|known| known.name == name && known.receiver == receiver).collect();
        if let Some(function) = named.iter().find(|known| known.takes(args.len())) {
            return self.resolved_call(function, args);
        }
        if self.env.allows_undeclared() {
            return Op::Unknown(name.to_owned());
        }
        if self.errors.len() >= MAX_ERRORS {
            return Op::Const(Value::Null);
        }
        let error = match named.first() {
            Some(_) => wrong_count(span, name, receiver, args.len(), &named),
            None => self.unknown_function(span, name, receiver),
        };
        self.report(error);
        Op::Const(Value::Null)
    }

    fn unknown_function(&self, span: Span, name: &str, receiver: bool) -> CompileError {
        let error = CompileError::new(span, format!("unknown function `{name}`"));
        if self.env.functions().any(|known| known.name == name) {
            let hint = if receiver {
                format!("call it as `{name}(…)`")
            } else {
                format!("call it on a value: `x.{name}(…)`")
            };
            return error.with_hint(hint);
        }
        let known = self.env.functions().filter(|known| known.receiver == receiver).map(|known| known.name);
        let nearest = with_nearest(error.clone(), name, known);
        if nearest.hint.is_some() {
            return nearest;
        }
        with_nearest(error, name, self.env.functions().map(|known| known.name))
    }
}

fn wrong_count(
    span: Span,
    name: &str,
    receiver: bool,
    given: usize,
    named: &[&'static Function],
) -> CompileError {
    let hidden = usize::from(receiver);
    let mut counts = Vec::new();
    for function in named {
        let (least, most) = (function.least - hidden, function.most.map(|most| most - hidden));
        counts.push(match most {
            Some(most) if most == least => least.to_string(),
            Some(most) => format!("{least} to {most}"),
            None => format!("at least {least}"),
        });
    }
    let message = format!("`{name}` takes {} arguments, not {}", counts.join(" or "), given - hidden);
    CompileError::new(span, message)
}

/// The dotted name that a chain of plain selections spells, its first part, and whether it began with a dot.
fn dotted(expr: &Expr) -> Option<(String, &str, bool)> {
    match &expr.kind {
        ExprKind::Ident { name, absolute } => Some((name.clone(), name, *absolute)),
        ExprKind::Select { operand, field, optional: false } => {
            let (mut name, root, absolute) = dotted(operand)?;
            name.push('.');
            name.push_str(field);
            Some((name, root, absolute))
        }
        _ => None,
    }
}

/// Adds the known name that differs least, when one is near enough to be meant.
fn with_nearest<'n>(error: CompileError, name: &str, known: impl Iterator<Item = &'n str>) -> CompileError {
    let allowed = match name.len() {
        0..=2 => 1,
        3..=6 => 2,
        7..=64 => 3,
        // Nobody means a known name by that, and measuring would take long.
        _ => return error,
    };
    let nearest = known.map(|known| (distance(name, known), known)).filter(|(far, _)| *far <= allowed).min();
    match nearest {
        Some((_, nearest)) => error.with_hint(format!("did you mean `{nearest}`?")),
        None => error,
    }
}

/// How many single-character edits lead from one text to the other, upper and lower case taken as one.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(line + 1);
        for ((to, above), above_left) in right.iter().zip(row.iter().skip(1)).zip(row.iter()) {
            let same = from.eq_ignore_ascii_case(to);
            let before = next.last().copied().unwrap_or(0);
            next.push((above_left + usize::from(!same)).min(above + 1).min(before + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
