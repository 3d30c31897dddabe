//! Where string and bytes literals end and what they stand for; the `${…}` scanner uses the same rules.

use super::span;
use crate::error::CompileError;

/// The shape of a string or bytes literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Offset of the first byte of the content.
    pub(crate) content: usize,
    /// Offset one past the last byte of the content.
    pub(crate) content_end: usize,
    /// Offset one past the closing quotes.
    pub(crate) end: usize,
    /// Whether backslashes stand for themselves.
    pub(crate) raw: bool,
    /// Whether it is a bytes literal.
    pub(crate) bytes: bool,
}

/// Whether a word directly before a quote belongs to the literal.
pub(crate) fn is_prefix(word: &str) -> bool {
    matches!(word, "r" | "R" | "b" | "B" | "br" | "bR" | "Br" | "BR")
}

/// Finds the end of the literal that begins at `start` with its prefix or its quote.
pub(crate) fn find_end(source: &str, start: usize) -> Result<Form, CompileError> {
    let text = source.as_bytes();
    let mut at = start;
    let bytes = matches!(text.get(at), Some(b'b' | b'B'));
    at += usize::from(bytes);
    let raw = matches!(text.get(at), Some(b'r' | b'R'));
    at += usize::from(raw);
    let quote = text.get(at).copied().unwrap_or(b'"');
    let long = text.get(at + 1) == Some(&quote) && text.get(at + 2) == Some(&quote);
    let width = if long { 3 } else { 1 };
    let content = at + width;
    at = content;
    loop {
        match text.get(at) {
            None => return Err(unclosed(start, source.len(), quote, width)),
            Some(b'\n' | b'\r') if !long => return Err(unclosed(start, at, quote, width)),
            Some(b'\\') if !raw => at += escape_width(source, at),
            Some(byte) if *byte == quote && (!long || closes(text, at, quote)) => {
                return Ok(Form { content, content_end: at, end: at + width, raw, bytes });
            }
            Some(_) => at += 1,
        }
    }
}

fn closes(text: &[u8], at: usize, quote: u8) -> bool {
    text.get(at + 1) == Some(&quote) && text.get(at + 2) == Some(&quote)
}

/// A backslash and the character after it. A line end is left alone so that a short literal still ends there.
fn escape_width(source: &str, at: usize) -> usize {
    match source.get(at + 1..).and_then(|rest| rest.chars().next()) {
        Some('\n' | '\r') | None => 1,
        Some(escaped) => 1 + escaped.len_utf8(),
    }
}

fn unclosed(start: usize, end: usize, quote: u8, width: usize) -> CompileError {
    let quotes = String::from(char::from(quote)).repeat(width);
    let error = CompileError::new(span(start, end), format!("string is not closed, expected `{quotes}`"));
    if width == 1 { error.with_hint("a string over several lines needs triple quotes") } else { error }
}

/// The text that a string literal stands for.
pub(crate) fn string_value(source: &str, start: usize) -> Result<String, CompileError> {
    let form = find_end(source, start)?;
    let content = source.get(form.content..form.content_end).unwrap_or("");
    let mut value = String::with_capacity(content.len());
    unescape(content, &form, |piece, place| match piece {
        Piece::Char(letter) => {
            value.push(letter);
            Ok(())
        }
        Piece::Byte(code) => {
            value.push(char::from(code));
            Ok(())
        }
        Piece::Code(code) => match char::from_u32(code) {
            Some(letter) => {
                value.push(letter);
                Ok(())
            }
            None => Err(CompileError::new(place, format!("`U+{code:04X}` is not a Unicode character"))),
        },
    })?;
    Ok(value)
}

/// The bytes that a bytes literal stands for.
pub(crate) fn bytes_value(source: &str, start: usize) -> Result<Vec<u8>, CompileError> {
    let form = find_end(source, start)?;
    let content = source.get(form.content..form.content_end).unwrap_or("");
    let mut value = Vec::with_capacity(content.len());
    unescape(content, &form, |piece, place| match piece {
        Piece::Char(letter) => {
            value.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(())
        }
        Piece::Byte(byte) => {
            value.push(byte);
            Ok(())
        }
        Piece::Code(_) => Err(CompileError::new(place, "`\\u` and `\\U` are not allowed in bytes")
            .with_hint("write the bytes as `\\x..` or the character itself")),
    })?;
    Ok(value)
}

enum Piece {
    /// A character as written, or a simple escape.
    Char(char),
    /// `\x41`, `\101`: a byte in bytes, a code point in strings.
    Byte(u8),
    /// `\u0041`, `\U00000041`
    Code(u32),
}

/// Walks over the content, resolves escapes and makes every line end a `\n`.
fn unescape(
    content: &str,
    form: &Form,
    mut emit: impl FnMut(Piece, crate::span::Span) -> Result<(), CompileError>,
) -> Result<(), CompileError> {
    let mut rest = content;
    while let Some(first) = rest.chars().next() {
        let here = form.content_end - rest.len();
        let (piece, width) = match first {
            '\r' => (Piece::Char('\n'), if rest.starts_with("\r\n") { 2 } else { 1 }),
            '\\' if !form.raw => match escape(rest) {
                Some(found) => found,
                None => return Err(bad_escape(rest, here)),
            },
            letter => (Piece::Char(letter), letter.len_utf8()),
        };
        emit(piece, span(here, here + width))?;
        rest = rest.get(width..).unwrap_or("");
    }
    Ok(())
}

/// Reads the escape at the front of the text: what it means and how long it is.
fn escape(text: &str) -> Option<(Piece, usize)> {
    let letter = text.chars().nth(1)?;
    let simple = match letter {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' | '?' | '"' | '\'' | '`' => letter,
        'x' | 'X' => {
            let code = digits(text, 2, 2, 16)?;
            return Some((Piece::Byte(u8::try_from(code).ok()?), 4));
        }
        'u' => return Some((Piece::Code(digits(text, 2, 4, 16)?), 6)),
        'U' => return Some((Piece::Code(digits(text, 2, 8, 16)?), 10)),
        '0'..='3' => {
            let code = digits(text, 1, 3, 8)?;
            return Some((Piece::Byte(u8::try_from(code).ok()?), 4));
        }
        _ => return None,
    };
    Some((Piece::Char(simple), 2))
}

fn digits(text: &str, from: usize, count: usize, radix: u32) -> Option<u32> {
    let digits = text.get(from..from + count)?;
    if digits.chars().all(|digit| digit.is_digit(radix)) {
        u32::from_str_radix(digits, radix).ok()
    } else {
        None
    }
}

fn bad_escape(rest: &str, here: usize) -> CompileError {
    let shown: String = rest.chars().take(2).collect();
    let place = span(here, here + shown.len());
    let message = match shown.chars().nth(1) {
        Some(letter) if !letter.is_control() => format!("invalid escape `{shown}` in a string"),
        _ => "invalid escape: a backslash at the end of a line".to_owned(),
    };
    let hint = "allowed are `\\a \\b \\f \\n \\r \\t \\v \\\\ \\? \\\" \\' \\``, `\\xHH`, `\\uHHHH`, `\\UHHHHHHHH` and \
        `\\OOO` (octal up to 377); in a raw string `r'…'` backslashes stand for themselves";
    CompileError::new(place, message).with_hint(hint)
}
