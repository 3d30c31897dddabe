//! Text to tokens, one at a time. The lexer knows where literals end and what they mean, and nothing of grammar.

use crate::error::CompileError;
use crate::span::Span;

pub(crate) mod literal;

/// One token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Span,
}

/// The kinds of tokens. Names and literals are read from the source through the token's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Ident,
    Reserved,
    QuotedIdent,
    True,
    False,
    Null,
    In,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    LeftParen,
    RightParen,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    Dot,
    Comma,
    Colon,
    Question,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Not,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    End,
}

/// Words that are set aside for later versions of the language; they may name fields but no variables or functions.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Reads tokens from the front of a source.
pub(crate) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Lexer<'s> {
        Lexer { source, at: 0 }
    }

    /// The next token; after the last one `End`, again and again.
    pub(crate) fn next(&mut self) -> Result<Token, CompileError> {
        self.skip_blank();
        let start = self.at;
        let kind = match self.peek(0) {
            None => TokenKind::End,
            Some(b'"' | b'\'') => self.string()?,
            Some(b'`') => self.quoted_ident()?,
            Some(b'0'..=b'9') => self.number()?,
            Some(b'.') if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number()?,
            Some(first) if is_ident_start(first) => self.word()?,
            Some(first) => self.punctuation(first)?,
        };
        Ok(Token { kind, span: span(start, self.at) })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&accept) {
            self.at += 1;
        }
    }

    fn skip_blank(&mut self) {
        loop {
            self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\x0c'));
            if self.peek(0) == Some(b'/') && self.peek(1) == Some(b'/') {
                self.skip_while(|byte| byte != b'\n');
            } else {
                return;
            }
        }
    }

    fn word(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        self.skip_while(is_ident_part);
        let word = self.source.get(start..self.at).unwrap_or("");
        if literal::is_prefix(word) && matches!(self.peek(0), Some(b'"' | b'\'')) {
            self.at = start;
            return self.string();
        }
        Ok(match word {
            "true" => TokenKind::True,
            "false" => TokenKind::False,
            "null" => TokenKind::Null,
            "in" => TokenKind::In,
            _ if RESERVED.contains(&word) => TokenKind::Reserved,
            _ => TokenKind::Ident,
        })
    }

    fn string(&mut self) -> Result<TokenKind, CompileError> {
        let form = literal::find_end(self.source, self.at)?;
        self.at = form.end;
        Ok(if form.bytes { TokenKind::Bytes } else { TokenKind::String })
    }

    fn quoted_ident(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        self.at += 1;
        self.skip_while(|byte| is_ident_part(byte) || matches!(byte, b'.' | b'-' | b'/' | b' '));
        if self.peek(0) != Some(b'`') {
            let message = "a name in backticks may hold letters, digits, `_`, `.`, `-`, `/` and spaces, \
                and needs a closing backtick";
            return Err(CompileError::new(span(start, self.at), message));
        }
        self.at += 1;
        if self.at - start == 2 {
            return Err(CompileError::new(span(start, self.at), "a name in backticks must not be empty"));
        }
        Ok(TokenKind::QuotedIdent)
    }

    fn number(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.at;
        let mut kind = TokenKind::Int;
        if self.peek(0) == Some(b'0') && matches!(self.peek(1), Some(b'x' | b'X')) {
            self.at += 2;
            self.skip_while(|byte| byte.is_ascii_hexdigit());
            if self.at - start == 2 {
                let message = "a hexadecimal number needs at least one digit after `0x`";
                return Err(CompileError::new(span(start, self.at), message));
            }
        } else {
            self.skip_while(|byte| byte.is_ascii_digit());
            if self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|next| next.is_ascii_digit()) {
                kind = TokenKind::Double;
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
            }
            if self.exponent() {
                kind = TokenKind::Double;
            }
        }
        if kind == TokenKind::Int && matches!(self.peek(0), Some(b'u' | b'U')) {
            kind = TokenKind::Uint;
            self.at += 1;
        }
        Ok(kind)
    }

    /// Reads `e10`, `E-3` if it stands here in full; `1e` alone is a number and a name.
    fn exponent(&mut self) -> bool {
        if !matches!(self.peek(0), Some(b'e' | b'E')) {
            return false;
        }
        let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
        if !self.peek(1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
            return false;
        }
        self.at += 1 + sign;
        self.skip_while(|byte| byte.is_ascii_digit());
        true
    }

    fn punctuation(&mut self, first: u8) -> Result<TokenKind, CompileError> {
        let pair = match (first, self.peek(1)) {
            (b'=', Some(b'=')) => Some(TokenKind::Equal),
            (b'!', Some(b'=')) => Some(TokenKind::NotEqual),
            (b'<', Some(b'=')) => Some(TokenKind::LessEqual),
            (b'>', Some(b'=')) => Some(TokenKind::GreaterEqual),
            (b'&', Some(b'&')) => Some(TokenKind::And),
            (b'|', Some(b'|')) => Some(TokenKind::Or),
            _ => None,
        };
        if let Some(kind) = pair {
            self.at += 2;
            return Ok(kind);
        }
        let kind = match first {
            b'(' => TokenKind::LeftParen,
            b')' => TokenKind::RightParen,
            b'[' => TokenKind::LeftBracket,
            b']' => TokenKind::RightBracket,
            b'{' => TokenKind::LeftBrace,
            b'}' => TokenKind::RightBrace,
            b'.' => TokenKind::Dot,
            b',' => TokenKind::Comma,
            b':' => TokenKind::Colon,
            b'?' => TokenKind::Question,
            b'+' => TokenKind::Plus,
            b'-' => TokenKind::Minus,
            b'*' => TokenKind::Star,
            b'/' => TokenKind::Slash,
            b'%' => TokenKind::Percent,
            b'!' => TokenKind::Not,
            b'<' => TokenKind::Less,
            b'>' => TokenKind::Greater,
            _ => return Err(self.stray()),
        };
        self.at += 1;
        Ok(kind)
    }

    /// The error for a character that starts no token, with advice for those that other languages use.
    fn stray(&self) -> CompileError {
        let found = self.source.get(self.at..).and_then(|rest| rest.chars().next()).unwrap_or('\u{fffd}');
        let place = span(self.at, self.at + found.len_utf8());
        let error = CompileError::new(place, format!("unexpected character `{}`", found.escape_debug()));
        match found {
            '=' => error.with_hint("equality is written `==`"),
            '&' => error.with_hint("logical and is written `&&`"),
            '|' => error.with_hint("logical or is written `||`"),
            '$' => error.with_hint("inside `${…}` names are written without `$`"),
            '\u{201c}' | '\u{201d}' | '\u{2018}' | '\u{2019}' => {
                error.with_hint("strings are quoted with `\"` or `'`, not with typographic quotes")
            }
            _ => error,
        }
    }
}

pub(crate) fn is_ident_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(crate) fn is_ident_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offsets as a span. Sources are far smaller than `u32::MAX`, so the conversion never loses anything.
pub(crate) fn span(start: usize, end: usize) -> Span {
    Span::new(u32::try_from(start).unwrap_or(u32::MAX), u32::try_from(end).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
