//! What number literals stand for, within the bounds of their types.

use crate::ast::ExprKind;
use crate::lexer::TokenKind;

/// The value of a number token; the error says what does not fit.
pub(super) fn value(kind: TokenKind, text: &str, negative: bool) -> Result<ExprKind, String> {
    let sign = if negative { "-" } else { "" };
    match kind {
        TokenKind::Int => {
            let (digits, radix) = digits(text);
            i64::from_str_radix(&format!("{sign}{digits}"), radix).map(ExprKind::Int).map_err(|_| {
                format!("`{sign}{text}` does not fit into an int, allowed is {} to {}", i64::MIN, i64::MAX)
            })
        }
        TokenKind::Uint => {
            let (digits, radix) = digits(text.trim_end_matches(['u', 'U']));
            u64::from_str_radix(digits, radix)
                .map(ExprKind::Uint)
                .map_err(|_| format!("`{text}` does not fit into a uint, allowed is 0 to {}", u64::MAX))
        }
        _ => match format!("{sign}{text}").parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(ExprKind::Double(number)),
            _ => Err(format!("`{sign}{text}` does not fit into a double")),
        },
    }
}

fn digits(text: &str) -> (&str, u32) {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    }
}
