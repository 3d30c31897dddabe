//! Classes: `[…]`.

use super::escape::{EVERYTHING, NOTHING, character, group, write_range};
use super::{Parser, Refused, refused, up_to};

/// Go's named classes; Rust's have the same names and members.
const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

impl<'a> Parser<'a> {
    /// Reads a class; `before` begins with its `[`, which is read already.
    pub(super) fn class(&mut self, before: &'a str) -> Result<(), Refused> {
        let negated = self.rest.starts_with('^');
        let mut rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        let mut members = String::new();
        // A `]` that opens the class is a member.
        let mut first = true;
        while first || !rest.starts_with(']') {
            first = false;
            if let Some((name, after)) = named(rest)? {
                members.push_str(name);
                rest = after;
            } else if let Some((class, after)) = group(rest)? {
                members.push_str(&class);
                rest = after;
            } else {
                rest = range(&mut members, rest, before)?;
            }
        }
        self.rest = rest.get(1..).unwrap_or_default();
        let text = match (members.is_empty(), negated) {
            (true, false) => NOTHING.to_owned(),
            (true, true) => EVERYTHING.to_owned(),
            (false, false) => format!("[{members}]"),
            (false, true) => format!("[^{members}]"),
        };
        self.push_folded(text);
        Ok(())
    }
}

/// `[:alpha:]` or `[:^alpha:]`, and what follows.
fn named(text: &str) -> Result<Option<(&str, &str)>, Refused> {
    let Some(length) = text.strip_prefix("[:").and_then(|inside| inside.find(":]")) else { return Ok(None) };
    let Some((whole, rest)) = text.split_at_checked(length + 4) else { return Ok(None) };
    let name = whole.get(2..length + 2).unwrap_or_default();
    if !NAMED.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return refused("invalid character class range", whole);
    }
    Ok(Some((whole, rest)))
}

/// Reads `a` or `a-z` and returns what follows.
fn range<'a>(members: &mut String, text: &'a str, class: &str) -> Result<&'a str, Refused> {
    let (low, mut rest) = member(text, class)?;
    let mut high = low;
    // In `[a-]` the `-` is a member.
    if let Some(after) = rest.strip_prefix('-').filter(|after| !after.is_empty() && !after.starts_with(']')) {
        (high, rest) = member(after, class)?;
        if high < low {
            return refused("invalid character class range", up_to(text, rest));
        }
    }
    write_range(members, low, high);
    Ok(rest)
}

fn member<'a>(text: &'a str, class: &str) -> Result<(u32, &'a str), Refused> {
    match text.chars().next() {
        None => refused("missing closing ]", class),
        Some('\\') => character(text),
        Some(c) => Ok((u32::from(c), text.get(c.len_utf8()..).unwrap_or_default())),
    }
}
