//! What follows a backslash.

use super::names;
use super::{Parser, Refused, refused, up_to, write_char};

/// Matches nothing, as a surrogate does: no string holds one.
pub(super) const NOTHING: &str = "[a&&b]";
/// Matches every character.
pub(super) const EVERYTHING: &str = "[\\x{0}-\\x{10FFFF}]";

impl<'a> Parser<'a> {
    /// An escape outside a class; `before` begins with the backslash, which is read already.
    pub(super) fn escaped(&mut self, before: &'a str) -> Result<(), Refused> {
        let text = match self.rest.chars().next() {
            Some('A') => "\\A",
            // Go's word boundaries are ASCII.
            Some('b') => "(?-u:\\b)",
            Some('B') => "(?-u:\\B)",
            Some('z') => "\\z",
            Some('C') => return refused("invalid escape sequence", "\\C"),
            Some('Q') => {
                let quoted = before.get(2..).unwrap_or_default();
                let (literal, rest) = quoted.split_once("\\E").unwrap_or((quoted, ""));
                for c in literal.chars() {
                    self.literal(c);
                }
                self.rest = rest;
                return Ok(());
            }
            _ => return self.escaped_characters(before),
        };
        self.push(text);
        self.next();
        Ok(())
    }

    fn escaped_characters(&mut self, before: &'a str) -> Result<(), Refused> {
        if let Some((class, rest)) = group(before)? {
            self.push_folded(class);
            self.rest = rest;
            return Ok(());
        }
        let (code, rest) = character(before)?;
        self.rest = rest;
        match char::from_u32(code) {
            Some(c) => self.literal(c),
            None => self.push(NOTHING),
        }
        Ok(())
    }
}

/// `\d`, `\pL`, `\p{Greek}` and their like in Rust's words, and what follows; nothing when `text` begins otherwise.
pub(super) fn group(text: &str) -> Result<Option<(String, &str)>, Refused> {
    if text.starts_with("\\p") || text.starts_with("\\P") {
        return unicode(text).map(Some);
    }
    let class = match text.get(..2) {
        Some("\\d") => "[0-9]",
        Some("\\D") => "[^0-9]",
        Some("\\s") => "[\\t\\n\\f\\r ]",
        Some("\\S") => "[^\\t\\n\\f\\r ]",
        Some("\\w") => "[0-9A-Za-z_]",
        Some("\\W") => "[^0-9A-Za-z_]",
        _ => return Ok(None),
    };
    Ok(Some((class.to_owned(), text.get(2..).unwrap_or_default())))
}

/// A Unicode class; `text` begins with `\p` or `\P`.
fn unicode(text: &str) -> Result<(String, &str), Refused> {
    const REASON: &str = "invalid character class range";
    let after = text.get(2..).unwrap_or_default();
    let (name, rest) = match after.strip_prefix('{') {
        Some(inside) => match inside.split_once('}') {
            Some(found) => found,
            None => return refused(REASON, text),
        },
        None => {
            let length = after.chars().next().map_or(0, char::len_utf8);
            after.split_at_checked(length).unwrap_or((after, ""))
        }
    };
    let (name, inverted) = name.strip_prefix('^').map_or((name, false), |name| (name, true));
    let negated = text.starts_with("\\P") != inverted;
    let Some(name) = names::known(name) else { return refused(REASON, up_to(text, rest)) };
    let class = match (name.as_str(), negated) {
        // Rust has no class for what no string can hold.
        ("gc=cs" | "gc=surrogate", false) => NOTHING.to_owned(),
        ("gc=cs" | "gc=surrogate", true) => EVERYTHING.to_owned(),
        (name, false) => format!("\\p{{{name}}}"),
        (name, true) => format!("\\P{{{name}}}"),
    };
    Ok((class, rest))
}

/// The one character that an escape stands for, as its number, and what follows; `text` begins with the backslash.
pub(super) fn character(text: &str) -> Result<(u32, &str), Refused> {
    let mut rest = text.get(1..).unwrap_or_default();
    let Some(c) = next(&mut rest) else {
        return refused("trailing backslash at end of expression", "");
    };
    let code = match c {
        '0'..='7' => octal(c, &mut rest),
        'x' => hexadecimal(&mut rest),
        'a' => Some(0x07),
        'f' => Some(0x0C),
        'n' => Some(0x0A),
        'r' => Some(0x0D),
        't' => Some(0x09),
        'v' => Some(0x0B),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(u32::from(c)),
        _ => None,
    };
    match code {
        Some(code) => Ok((code, rest)),
        None => refused("invalid escape sequence", up_to(text, rest)),
    }
}

fn next(rest: &mut &str) -> Option<char> {
    let c = rest.chars().next()?;
    *rest = rest.get(c.len_utf8()..).unwrap_or_default();
    Some(c)
}

/// Up to three digits. A single one that is not 0 would refer back to a group, which neither engine can.
fn octal(first: char, rest: &mut &str) -> Option<u32> {
    let digit = |text: &str| text.chars().next().and_then(|c| c.to_digit(8));
    if first != '0' && digit(rest).is_none() {
        return None;
    }
    let mut code = first.to_digit(8)?;
    for _ in 0..2 {
        let Some(value) = digit(rest) else { break };
        code = code * 8 + value;
        next(rest);
    }
    Some(code)
}

/// `41` or `{1F600}`.
fn hexadecimal(rest: &mut &str) -> Option<u32> {
    let first = next(rest)?;
    if first != '{' {
        let second = next(rest);
        return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
    }
    let mut code = None;
    loop {
        match next(rest)? {
            '}' => return code,
            c => {
                let value = code.unwrap_or(0) * 16 + c.to_digit(16)?;
                if value > u32::from(char::MAX) {
                    return None;
                }
                code = Some(value);
            }
        }
    }
}

/// Writes a range of characters into a class; surrogates are in no string and are left out.
pub(super) fn write_range(out: &mut String, low: u32, high: u32) {
    let low = char::from_u32(low).or(char::from_u32(0xE000));
    let high = char::from_u32(high).or(char::from_u32(0xD7FF));
    let (Some(low), Some(high)) = (low, high) else { return };
    if low > high {
        return;
    }
    write_char(out, low);
    if low != high {
        out.push('-');
        write_char(out, high);
    }
}
