//! Walking over expressions: what stands below a node, and which nodes merely name a piece of the context.

use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};

/// Calls `visit` for the expression and everything below it, with the loop variables that are in sight there.
pub(crate) fn walk<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Expr, &[&'e str])) {
    descend(expr, &mut Vec::new(), visit);
}

fn descend<'e>(expr: &'e Expr, bound: &mut Vec<&'e str>, visit: &mut dyn FnMut(&'e Expr, &[&'e str])) {
    visit(expr, bound);
    if let ExprKind::Comprehension(comprehension) = &expr.kind {
        descend(&comprehension.range, bound, visit);
        let outside = bound.len();
        bound.push(&comprehension.var);
        bound.extend(comprehension.var2.as_deref());
        for inner in comprehension.filter.iter().chain([&comprehension.body]) {
            descend(inner, bound, visit);
        }
        bound.truncate(outside);
        return;
    }
    for child in children(expr) {
        descend(child, bound, visit);
    }
}

fn children(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Select { operand, .. } | ExprKind::Has { operand, .. } => vec![operand],
        ExprKind::Not(operand) | ExprKind::Negate(operand) => vec![operand],
        ExprKind::Index { operand, index, .. } => vec![operand, index],
        ExprKind::Call { target, args, .. } => target.as_deref().into_iter().chain(args).collect(),
        ExprKind::Binary { left, right, .. } => vec![left, right],
        ExprKind::And(terms) | ExprKind::Or(terms) => terms.iter().collect(),
        ExprKind::Conditional { test, then, otherwise } => vec![test, then, otherwise],
        ExprKind::List(entries) => entries.iter().map(|entry| &entry.value).collect(),
        ExprKind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
        ExprKind::Message { fields, .. } => fields.iter().map(|field| &field.value).collect(),
        _ => Vec::new(),
    }
}

/// The names of a chain such as `bundle.labels["team"]`, when the expression is nothing but that. A chain that starts
/// from a loop variable names no piece of the context.
pub(crate) fn chain<'e>(expr: &'e Expr, bound: &[&str]) -> Option<Vec<&'e str>> {
    match &expr.kind {
        ExprKind::Ident { name, absolute } => {
            (*absolute || !bound.contains(&name.as_str())).then(|| vec![name.as_str()])
        }
        ExprKind::Select { operand, field, optional: false } => {
            let mut names = chain(operand, bound)?;
            names.push(field);
            Some(names)
        }
        ExprKind::Index { operand, index, optional: false } => {
            let ExprKind::String(key) = &index.kind else { return None };
            let mut names = chain(operand, bound)?;
            names.push(key);
            Some(names)
        }
        _ => None,
    }
}

/// A comparison of a piece of the context with something else, turned so that the piece stands on the left.
pub(crate) struct Comparison<'e> {
    /// The names of the piece.
    pub(crate) names: Vec<&'e str>,
    /// The operator.
    pub(crate) op: BinaryOp,
    /// What it is compared with.
    pub(crate) with: &'e Expr,
}

/// The expression as a comparison, when it is one.
pub(crate) fn comparison<'e>(expr: &'e Expr, bound: &[&str]) -> Option<Comparison<'e>> {
    let ExprKind::Binary { op, left, right } = &expr.kind else { return None };
    let turned = turn(*op);
    match (chain(left, bound), chain(right, bound)) {
        (Some(names), None) if turned.is_some() || *op == BinaryOp::In => {
            Some(Comparison { names, op: *op, with: right })
        }
        (None, Some(names)) => Some(Comparison { names, op: turned?, with: left }),
        _ => None,
    }
}

/// The operator that means the same with its sides exchanged; nothing when there is none.
fn turn(op: BinaryOp) -> Option<BinaryOp> {
    match op {
        BinaryOp::Eq | BinaryOp::Ne => Some(op),
        BinaryOp::Lt => Some(BinaryOp::Gt),
        BinaryOp::Le => Some(BinaryOp::Ge),
        BinaryOp::Gt => Some(BinaryOp::Lt),
        BinaryOp::Ge => Some(BinaryOp::Le),
        _ => None,
    }
}
