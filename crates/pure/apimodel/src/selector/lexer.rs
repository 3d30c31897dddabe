//! The tokens of label selectors.

/// What a piece of a label selector is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Identifier,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    In,
    NotIn,
    Comma,
    Open,
    Close,
    Bad,
    End,
}

/// A token and its text.
#[derive(Clone, Debug)]
pub(super) struct Lexeme {
    pub(super) token: Token,
    pub(super) text: String,
}

/// Cuts a selector into tokens; it never fails, unknown symbols become [`Token::Bad`].
pub(super) fn lex(text: &str) -> Vec<Lexeme> {
    let mut lexemes = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let Some(first) = rest.chars().next() else { break };
        // A symbol is looked at where it begins: searching the end of a run of symbols at each of them is quadratic.
        let (token, length) = if is_symbol(first) {
            symbol(rest)
        } else {
            let end = rest.find(|c: char| is_symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n'));
            let piece = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            (word(piece), piece.len())
        };
        lexemes.push(Lexeme { token, text: rest.get(..length).unwrap_or_default().to_owned() });
        rest = rest.get(length..).unwrap_or_default();
    }
    lexemes.push(Lexeme { token: Token::End, text: String::new() });
    lexemes
}

fn is_symbol(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn word(text: &str) -> Token {
    match text {
        "in" => Token::In,
        "notin" => Token::NotIn,
        _ => Token::Identifier,
    }
}

/// The longest known symbol at the start of a text.
fn symbol(run: &str) -> (Token, usize) {
    let known = [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Not),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
        (">", Token::Greater),
        ("<", Token::Less),
    ];
    let found = known.iter().find(|(text, _)| run.starts_with(text));
    found.map_or((Token::Bad, 1), |(text, token)| (*token, text.len()))
}
