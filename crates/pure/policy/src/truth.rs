//! Whether an expression can be true or false at all. What cannot would hold every promotion for ever.
//!
//! Only what is certain is refused: a value whose type is not known before it is asked may be true or false.

use kardinal_cel::CompileError;
use kardinal_cel::ast::{BinaryOp, ComprehensionKind, Expr, ExprKind};

use crate::attributes::is_variable;
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
pub(crate) fn check_truth(tree: &Expr) -> Vec<CompileError> {
    let mut errors = Vec::new();
    expect_truth(tree, &mut errors);
    errors
}

fn expect_truth(expr: &Expr, errors: &mut Vec<CompileError>) {
    match &expr.kind {
        ExprKind::And(terms) | ExprKind::Or(terms) => {
            terms.iter().for_each(|term| expect_truth(term, errors));
        }
        ExprKind::Not(operand) => expect_truth(operand, errors),
        ExprKind::Conditional { test, then, otherwise } => {
            [test, then, otherwise].into_iter().for_each(|part| expect_truth(part, errors));
        }
        // It changes what the compiler knows of a value, and not the value.
        ExprKind::Call { target: None, function, args } if function == "dyn" => {
            args.iter().for_each(|operand| expect_truth(operand, errors));
        }
        _ => errors.extend(value(expr).map(|what| {
            CompileError::new(expr.span, format!("this is {what} and can never be true or false"))
                .with_hint("compare it with something, such as `bundle.version == \"1.29.0\"`")
        })),
    }
}

/// What an expression gives that is neither true nor false, where that is certain.
fn value(expr: &Expr) -> Option<&'static str> {
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
        // The weekend is all that the context knows to be true or false.
        _ => chain(expr, &[])
            .filter(|names| names.first().is_some_and(|root| is_variable(root)))
            .filter(|names| names.as_slice() != ["schedule", "isWeekend"])
            .map(|_| "a value"),
    }
}

#[cfg(test)]
mod tests {
    use crate::check_expression;

    #[test]
    fn what_cannot_be_true_or_false_is_refused() {
        for expression in [
            "bundle.version",
            "1 + 1",
            "\"true\"",
            "null",
            "[true]",
            "-schedule.hour",
            "bundle.labels[\"hotfix\"]",
            "schedule.isWeekend ? 1 : true",
            "schedule.isWeekend && bundle.version",
            "!bundle.name",
            "size(bundle.intent.skip)",
            "bundle.intent.skip.map(x, x)",
            "bundle",
            "now()",
            "dyn(1)",
            "dyn(dyn(bundle.version))",
            "schedule.isWeekend || dyn(\"true\")",
        ] {
            let said = check_expression(expression).expect_err(expression);
            assert!(said.contains("can never be true or false") && said.contains("compare it"), "{said}");
        }
    }

    #[test]
    fn what_may_be_true_or_false_is_not() {
        for expression in [
            "true",
            "schedule.isWeekend",
            "!schedule.isWeekend && schedule.hour < 17",
            "bundle.labels[\"hotfix\"] == \"true\"",
            "bundle.labels[?\"hotfix\"].orValue(\"\") == \"true\"",
            "\"prod\" in bundle.intent.skip",
            "bundle.intent.skip.exists(x, x == \"prod\")",
            "has(bundle.labels.hotfix)",
            "bundle.version.startsWith(\"1.\")",
            "schedule.isWeekend ? bundle.upstreamSoakMinutes >= 60 : true",
            "dyn(true)",
            "dyn(schedule.isWeekend)",
            "dyn(bundle.version) == \"1.29.0\"",
        ] {
            check_expression(expression).expect(expression);
        }
    }
}
