//! Finds `${…}` in text. The scanner follows the literals and comments of the expression language far enough to see
//! where an expression ends; it neither parses nor evaluates.
//!
//! `$${…}` stands for the text `${…}`: with several dollar signs one is taken away and nothing is evaluated, so that
//! every stage a text passes through takes one.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::CompileError;
use crate::lexer::{is_ident_part, is_ident_start, literal, span};

/// A piece of a scanned text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment<'t> {
    /// Text that stands for itself.
    Text(Cow<'t, str>),
    /// The bytes between `${` and its closing brace.
    Expression(Range<usize>),
}

/// Splits a text into plain text and expressions. Plain pieces are never empty and never adjacent.
pub(crate) fn scan(text: &str) -> Result<Vec<Segment<'_>>, CompileError> {
    let mut segments = Vec::new();
    let mut plain = Cow::Borrowed("");
    let mut at = 0;
    while let Some(dollar) = find_from(text, at, "${") {
        let close = find_close(text, dollar)?;
        if dollar > at && text.as_bytes().get(dollar - 1) == Some(&b'$') {
            append(&mut plain, text, at..dollar - 1);
            append(&mut plain, text, dollar..close + 1);
        } else {
            append(&mut plain, text, at..dollar);
            flush(&mut segments, &mut plain);
            segments.push(Segment::Expression(dollar + 2..close));
        }
        at = close + 1;
    }
    append(&mut plain, text, at..text.len());
    flush(&mut segments, &mut plain);
    Ok(segments)
}

fn find_from(text: &str, at: usize, pattern: &str) -> Option<usize> {
    text.get(at..)?.find(pattern).map(|found| at + found)
}

fn append<'t>(plain: &mut Cow<'t, str>, text: &'t str, range: Range<usize>) {
    let piece = text.get(range).unwrap_or("");
    if plain.is_empty() {
        *plain = Cow::Borrowed(piece);
    } else if !piece.is_empty() {
        plain.to_mut().push_str(piece);
    }
}

fn flush<'t>(segments: &mut Vec<Segment<'t>>, plain: &mut Cow<'t, str>) {
    if !plain.is_empty() {
        segments.push(Segment::Text(std::mem::take(plain)));
    }
}

/// Offset of the brace that closes the `${` at `dollar`.
///
/// Only braces are counted: in a well-formed expression brackets and parentheses are balanced between them, and in any
/// other one the parser has more to say about the mistake than the scanner.
fn find_close(text: &str, dollar: usize) -> Result<usize, CompileError> {
    let bytes = text.as_bytes();
    let mut at = dollar + 2;
    let mut depth = 0_usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => at = literal::find_end(text, at)?.end,
            b'`' => at = skip_quoted_name(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = find_from(text, at, "\n").ok_or_else(|| {
                    unclosed(text, dollar)
                        .with_hint("a comment `// …` hides everything up to the end of its line")
                })?;
            }
            b'{' => {
                depth += 1;
                at += 1;
            }
            b'}' if depth == 0 => return Ok(at),
            b'}' => {
                depth -= 1;
                at += 1;
            }
            _ if is_ident_start(byte) => at = skip_word(text, at)?,
            _ => at += 1,
        }
    }
    Err(unclosed(text, dollar).with_hint("for the text `${` itself write `${\"${\"}`"))
}

fn unclosed(text: &str, dollar: usize) -> CompileError {
    CompileError::new(span(dollar, text.len()), "`${` is not closed, expected `}`")
}

/// Skips a name, together with the string it is the prefix of.
fn skip_word(text: &str, start: usize) -> Result<usize, CompileError> {
    let bytes = text.as_bytes();
    let mut end = start;
    while bytes.get(end).is_some_and(|byte| is_ident_part(*byte)) {
        end += 1;
    }
    let quoted = matches!(bytes.get(end), Some(b'"' | b'\''));
    if quoted && text.get(start..end).is_some_and(literal::is_prefix) {
        return Ok(literal::find_end(text, start)?.end);
    }
    Ok(end)
}

/// Skips a name in backticks, which may hold slashes; anything else in backticks is left to the parser.
fn skip_quoted_name(bytes: &[u8], start: usize) -> usize {
    let mut end = start + 1;
    while bytes.get(end).is_some_and(|byte| is_ident_part(*byte) || matches!(byte, b'.' | b'-' | b'/' | b' '))
    {
        end += 1;
    }
    if bytes.get(end) == Some(&b'`') { end + 1 } else { start + 1 }
}

#[cfg(test)]
mod tests;
