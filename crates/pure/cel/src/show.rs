//! Trees as short text, for tests.

use crate::ast::{Expr, ExprKind};

/// The tree in prefix form, without spans.
pub(crate) fn show(expr: &Expr) -> String {
    let mark = |optional: bool| if optional { "?" } else { "" };
    let all = |exprs: &[Expr]| exprs.iter().map(show).collect::<Vec<_>>().join(" ");
    match &expr.kind {
        ExprKind::Null => "null".into(),
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Uint(value) => format!("{value}u"),
        ExprKind::Double(value) => format!("{value:?}"),
        ExprKind::String(value) => format!("{value:?}"),
        ExprKind::Bytes(value) => format!("b{value:?}"),
        ExprKind::Ident { name, absolute } => format!("{}{name}", if *absolute { "." } else { "" }),
        ExprKind::Select { operand, field, optional } => {
            format!("{}.{}{field}", show(operand), mark(*optional))
        }
        ExprKind::Has { operand, field, optional } => {
            format!("has({}.{}{field})", show(operand), mark(*optional))
        }
        ExprKind::Index { operand, index, optional } => {
            format!("{}[{}{}]", show(operand), mark(*optional), show(index))
        }
        ExprKind::Call { target: None, function, args } => format!("{function}({})", all(args)),
        ExprKind::Call { target: Some(target), function, args } => {
            format!("{}.{function}({})", show(target), all(args))
        }
        ExprKind::Not(operand) => format!("(! {})", show(operand)),
        ExprKind::Negate(operand) => format!("(- {})", show(operand)),
        ExprKind::Binary { op, left, right } => format!("({} {} {})", op.symbol(), show(left), show(right)),
        ExprKind::And(terms) => format!("(&& {})", all(terms)),
        ExprKind::Or(terms) => format!("(|| {})", all(terms)),
        ExprKind::Conditional { test, then, otherwise } => {
            format!("(? {} {} {})", show(test), show(then), show(otherwise))
        }
        ExprKind::List(entries) => {
            let shown: Vec<_> = entries
                .iter()
                .map(|entry| format!("{}{}", mark(entry.optional), show(&entry.value)))
                .collect();
            format!("[{}]", shown.join(" "))
        }
        ExprKind::Map(entries) => {
            let shown: Vec<_> = entries
                .iter()
                .map(|entry| format!("{}{}:{}", mark(entry.optional), show(&entry.key), show(&entry.value)))
                .collect();
            format!("{{{}}}", shown.join(" "))
        }
        ExprKind::Message { name, fields } => {
            let shown: Vec<_> = fields
                .iter()
                .map(|entry| format!("{}{}:{}", mark(entry.optional), entry.field, show(&entry.value)))
                .collect();
            format!("{name}{{{}}}", shown.join(" "))
        }
        ExprKind::Comprehension(it) => {
            let var2 = it.var2.as_ref().map_or(String::new(), |name| format!(",{name}"));
            let filter = it.filter.as_ref().map_or(String::new(), |filter| format!(" if {}", show(filter)));
            format!("<{:?} {}{var2} of {}{filter}: {}>", it.kind, it.var, show(&it.range), show(&it.body))
        }
    }
}
