//! Whether an expression can be true or false at all. What cannot would hold every promotion for ever.
//!
//! Only what is certain is refused: a value whose type is not known before it is asked may be true or false.

use kardinal_cel::CompileError;
use kardinal_cel::ast::{BinaryOp, ComprehensionKind, Expr, ExprKind};

use crate::language::Language;
use crate::shape::Attribute;
use crate::tree::chain;

/// Functions whose results are never true or false.
const VALUES: [&str; 32] = [
    "size",
    "int",
    "uint",
    "double",
    "string",
    "bytes",
    "type",
    "timestamp",
    "duration",
    "now",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "join",
    "substring",
    "trim",
    "indexOf",
    "lastIndexOf",
    "charAt",
    "format",
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "reverse",
];

/// What is wrong with an expression whose value must be true or false.
pub(crate) fn check_truth(language: &Language, tree: &Expr) -> Vec<CompileError> {
    let mut errors = Vec::new();
    expect_truth(language, tree, &mut errors);
    errors
}

fn expect_truth(language: &Language, expr: &Expr, errors: &mut Vec<CompileError>) {
    match &expr.kind {
        ExprKind::And(terms) | ExprKind::Or(terms) => {
            terms.iter().for_each(|term| expect_truth(language, term, errors));
        }
        ExprKind::Not(operand) => expect_truth(language, operand, errors),
        ExprKind::Conditional { test, then, otherwise } => {
            [test, then, otherwise].into_iter().for_each(|part| expect_truth(language, part, errors));
        }
        // It changes what the compiler knows of a value, and not the value.
        ExprKind::Call { target: None, function, args } if function == "dyn" => {
            args.iter().for_each(|operand| expect_truth(language, operand, errors));
        }
        _ => errors.extend(value(language, expr).map(|what| {
            CompileError::new(expr.span, format!("this is {what} and can never be true or false"))
                .with_hint(format!("compare it with something, such as `{}`", language.example()))
        })),
    }
}

/// What an expression gives that is neither true nor false, where that is certain.
fn value(language: &Language, expr: &Expr) -> Option<&'static str> {
    match &expr.kind {
        ExprKind::Null => Some("null"),
        ExprKind::Int(_) | ExprKind::Uint(_) | ExprKind::Double(_) | ExprKind::Negate(_) => Some("a number"),
        ExprKind::String(_) => Some("a text"),
        ExprKind::Bytes(_) => Some("bytes"),
        ExprKind::List(_) => Some("a list"),
        ExprKind::Map(_) | ExprKind::Message { .. } => Some("a map"),
        ExprKind::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem,
            ..
        } => Some("the result of a calculation"),
        ExprKind::Call { function, .. } if VALUES.contains(&function.as_str()) => Some("a value"),
        ExprKind::Comprehension(inner) => match inner.kind {
            ComprehensionKind::Map | ComprehensionKind::Filter => Some("a list"),
            _ => None,
        },
        _ => chain(expr, &[])
            .filter(|names| names.first().is_some_and(|root| language.is_variable(root)))
            .filter(|names| !matches!(language.attribute(names), Some(Attribute::Truth)))
            .map(|_| "a value"),
    }
}
