//! Calls that are macros, told by name and number of arguments. They become nodes of their own and are not expanded.
//!
//! A macro's name with another number of arguments stays an ordinary call, as the language has it.

use crate::ast::{Comprehension, ComprehensionKind, Expr, ExprKind};
use crate::error::CompileError;

/// The node for a call as written: a macro where it is one.
pub(crate) fn call(
    target: Option<Box<Expr>>,
    function: String,
    args: Vec<Expr>,
) -> Result<ExprKind, CompileError> {
    let Some(target) = target else {
        return if function == "has" && args.len() == 1 {
            has(args)
        } else {
            Ok(ExprKind::Call { target: None, function, args })
        };
    };
    match shape(&target, &function, args.len()) {
        Some(shape) => bind(shape, *target, &function, args),
        None => Ok(ExprKind::Call { target: Some(target), function, args }),
    }
}

/// How the arguments of a macro are to be read.
struct Shape {
    kind: ComprehensionKind,
    variables: usize,
    filtered: bool,
}

fn shape(target: &Expr, function: &str, count: usize) -> Option<Shape> {
    use ComprehensionKind::*;
    let (kind, variables, filtered) = match (function, count) {
        ("all", 2) => (All, 1, false),
        ("all", 3) => (All, 2, false),
        ("exists", 2) => (Exists, 1, false),
        ("exists", 3) => (Exists, 2, false),
        ("exists_one" | "existsOne", 2) => (ExistsOne, 1, false),
        ("exists_one" | "existsOne", 3) => (ExistsOne, 2, false),
        ("map", 2) => (Map, 1, false),
        ("map", 3) => (Map, 1, true),
        ("filter", 2) => (Filter, 1, false),
        ("transformList", 3) => (TransformList, 2, false),
        ("transformList", 4) => (TransformList, 2, true),
        ("transformMap", 3) => (TransformMap, 2, false),
        ("transformMap", 4) => (TransformMap, 2, true),
        ("transformMapEntry", 3) => (TransformMapEntry, 2, false),
        ("transformMapEntry", 4) => (TransformMapEntry, 2, true),
        ("optMap", 2) => (OptMap, 1, false),
        ("optFlatMap", 2) => (OptFlatMap, 1, false),
        ("sortBy", 2) => (SortBy, 1, false),
        ("bind", 3) if is_cel(target) => (Bind, 1, false),
        _ => return None,
    };
    Some(Shape { kind, variables, filtered })
}

fn is_cel(target: &Expr) -> bool {
    matches!(&target.kind, ExprKind::Ident { name, absolute: false } if name == "cel")
}

fn bind(shape: Shape, target: Expr, function: &str, args: Vec<Expr>) -> Result<ExprKind, CompileError> {
    let mut args = args.into_iter();
    let mut next = || args.next().ok_or_else(|| CompileError::new(target.span, "macro lacks an argument"));
    let var = variable(&next()?, function)?;
    let var2 = if shape.variables == 2 {
        let second = next()?;
        let name = variable(&second, function)?;
        if name == var {
            let message = format!("`{function}` needs two different variables, both are `{name}`");
            return Err(CompileError::new(second.span, message));
        }
        Some(name)
    } else {
        None
    };
    let bound = if shape.kind == ComprehensionKind::Bind { Some(next()?) } else { None };
    let filter = if shape.filtered { Some(next()?) } else { None };
    let body = next()?;
    let range = bound.unwrap_or(target);
    Ok(ExprKind::Comprehension(Box::new(Comprehension { kind: shape.kind, range, var, var2, filter, body })))
}

fn variable(expr: &Expr, function: &str) -> Result<String, CompileError> {
    match &expr.kind {
        ExprKind::Ident { name, absolute: false } => Ok(name.clone()),
        _ => {
            let message = format!("`{function}` needs a simple name for its variable here");
            Err(CompileError::new(expr.span, message).with_hint("for example `items.all(item, item.ready)`"))
        }
    }
}

fn has(args: Vec<Expr>) -> Result<ExprKind, CompileError> {
    let Some(arg) = args.into_iter().next() else {
        return Err(CompileError::new(crate::span::Span::default(), "`has` lacks an argument"));
    };
    match arg.kind {
        ExprKind::Select { operand, field, optional } => Ok(ExprKind::Has { operand, field, optional }),
        _ => Err(CompileError::new(arg.span, "`has` takes a field selection such as `has(a.b)`")
            .with_hint("for a key use `\"key\" in a`, for a position compare with `size(a)`")),
    }
}

#[cfg(test)]
mod tests;
