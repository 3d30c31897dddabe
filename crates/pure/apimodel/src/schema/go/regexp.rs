//! Go's regular expressions, run by Rust's engine.
//!
//! The two dialects look alike and differ in many places: what a `-`, `[` or `:` in a class means, whether `\d` is
//! ASCII, whether `a**` is allowed, what `{` stands for, which names `\p` knows. So a pattern is not patched but parsed,
//! step by step as Go's `regexp/syntax` does, and written anew in a form in which Rust leaves nothing open. What Go
//! refuses is refused with Go's words.

mod class;
mod escape;
mod names;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// Patterns of more bytes than this are refused before they are looked at.
const LENGTH: usize = 64 * 1024;
/// Groups inside groups. Go takes more; Rust's compiler is recursive and its own bound is 250.
const DEPTH: usize = 100;
/// The highest repetition, also of repetitions inside repetitions multiplied: Go's own bound.
const REPEAT: u32 = 1000;
/// The memory that one compiled pattern may take.
const SIZE: usize = 4 << 20;

/// Compiles a Go regular expression; the error is Go's own.
pub(in crate::schema) fn regex(pattern: &str) -> Result<Regex, String> {
    let text = translate(pattern).map_err(|error| format!("error parsing regexp: {error}"))?;
    RegexBuilder::new(&text).size_limit(SIZE).dfa_size_limit(SIZE).build().map_err(|error| {
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
    })
}

/// Why Go refuses a pattern: its words, and the part of the pattern in question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: `{part}`")]
struct Refused {
    reason: &'static str,
    part: String,
}

/// A refusal for `part`.
fn refused<T>(reason: &'static str, part: &str) -> Result<T, Refused> {
    Err(Refused { reason, part: part.to_owned() })
}

/// What `(?imsU)` switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    lazy: bool,
}

/// What a repetition can be put behind, written for Rust.
#[derive(Debug)]
struct Atom {
    text: String,
    /// The number of repetitions inside, multiplied; see [`REPEAT`].
    weight: u32,
    /// Whether it ends in a repetition, so that another one needs a group.
    repeated: bool,
}

/// An open group, or the whole pattern.
#[derive(Debug, Default)]
struct Group {
    /// The flags to go back to when it closes.
    outside: Flags,
    /// The finished branches, each followed by `|`.
    before: String,
    /// The branch being read.
    atoms: Vec<Atom>,
    weight: u32,
}

impl Group {
    /// Ends a branch.
    fn branch(&mut self) {
        for atom in self.atoms.drain(..) {
            self.before.push_str(&atom.text);
            self.weight = self.weight.max(atom.weight);
        }
    }
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    flags: Flags,
    current: Group,
    open: Vec<Group>,
}

/// The pattern in Rust's syntax. Groups capture nothing, because nobody asks what they captured.
fn translate(pattern: &str) -> Result<String, Refused> {
    if pattern.len() > LENGTH {
        return refused("expression too large", pattern.get(..32).unwrap_or_default());
    }
    let mut parser = Parser {
        whole: pattern,
        rest: pattern,
        flags: Flags::default(),
        current: Group::default(),
        open: Vec::new(),
    };
    // The repetition that the last step read, with all that follows it: a second one right behind it is refused.
    let mut last = None;
    while !parser.rest.is_empty() {
        last = parser.step(last)?;
    }
    if !parser.open.is_empty() {
        return refused("missing closing )", pattern);
    }
    parser.current.branch();
    Ok(parser.current.before)
}

impl<'a> Parser<'a> {
    /// Reads one element. A repetition returns where it began.
    fn step(&mut self, last: Option<&'a str>) -> Result<Option<&'a str>, Refused> {
        let before = self.rest;
        let Some(c) = self.next() else { return Ok(None) };
        match c {
            '(' if self.rest.starts_with('?') => self.special_group(before)?,
            '(' => self.open_group()?,
            '|' => {
                self.current.branch();
                self.current.before.push('|');
            }
            ')' => self.close_group()?,
            '^' if self.flags.multi_line => self.push("(?m:^)"),
            '^' => self.push("\\A"),
            '$' if self.flags.multi_line => self.push("(?m:$)"),
            '$' => self.push("\\z"),
            '.' if self.flags.dot_newline => self.push("(?s:.)"),
            '.' => self.push("[^\\n]"),
            '[' => self.class(before)?,
            '*' => return self.repeat("*", None, before, last),
            '+' => return self.repeat("+", None, before, last),
            '?' => return self.repeat("?", None, before, last),
            '{' => match counts(before) {
                Some((low, high, rest)) => {
                    self.rest = rest;
                    let part = before.strip_suffix(rest).unwrap_or(before);
                    let (Some(low), Some(high)) = (low, high) else {
                        return refused("invalid repeat count", part);
                    };
                    if low > REPEAT || high.is_some_and(|high| high > REPEAT || low > high) {
                        return refused("invalid repeat count", part);
                    }
                    let text = match high {
                        None => format!("{{{low},}}"),
                        Some(high) => format!("{{{low},{high}}}"),
                    };
                    return self.repeat(&text, Some((low, high)), before, last);
                }
                None => self.literal('{'),
            },
            '\\' => self.escaped(before)?,
            c => self.literal(c),
        }
        Ok(None)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    fn push(&mut self, text: impl Into<String>) {
        self.current.atoms.push(Atom { text: text.into(), weight: 0, repeated: false });
    }

    fn literal(&mut self, c: char) {
        let mut text = String::new();
        write_char(&mut text, c);
        self.push_folded(text);
    }

    /// Pushes what the flag `i` says something about.
    fn push_folded(&mut self, text: String) {
        if self.flags.fold_case { self.push(format!("(?i:{text})")) } else { self.push(text) }
    }

    fn open_group(&mut self) -> Result<(), Refused> {
        if self.open.len() >= DEPTH {
            return refused("expression nests too deeply", self.whole);
        }
        let group = Group { outside: self.flags, ..Group::default() };
        self.open.push(std::mem::replace(&mut self.current, group));
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), Refused> {
        let Some(outer) = self.open.pop() else { return refused("unexpected )", self.whole) };
        let mut group = std::mem::replace(&mut self.current, outer);
        group.branch();
        self.flags = group.outside;
        let text = format!("(?:{})", group.before);
        self.current.atoms.push(Atom { text, weight: group.weight, repeated: false });
        Ok(())
    }

    /// `(?P<name>…)`, `(?<name>…)`, `(?flags)` and `(?flags:…)`; `before` starts with `(?`.
    fn special_group(&mut self, before: &'a str) -> Result<(), Refused> {
        let inside = before.get(2..).unwrap_or_default();
        let named = inside.strip_prefix("P<").or_else(|| inside.strip_prefix('<'));
        if let Some(named) = named.filter(|rest| !rest.is_empty()) {
            let Some((name, rest)) = named.split_once('>') else {
                return refused("invalid named capture", before);
            };
            if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return refused("invalid named capture", up_to(before, rest));
            }
            self.rest = rest;
            return self.open_group();
        }
        self.rest = inside;
        let mut flags = self.flags;
        let mut on = true;
        let mut seen = false;
        while let Some(c) = self.next() {
            match c {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    (on, seen) = (false, false);
                    continue;
                }
                ':' | ')' if on || seen => {
                    if c == ':' {
                        self.open_group()?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            seen = true;
        }
        refused("invalid or unsupported Perl syntax", up_to(before, self.rest))
    }

    /// Repeats the last atom. `before` begins with the repetition, `last` with the one read just before, if any.
    fn repeat(
        &mut self,
        operator: &str,
        counts: Option<(u32, Option<u32>)>,
        before: &'a str,
        last: Option<&'a str>,
    ) -> Result<Option<&'a str>, Refused> {
        let asked = self.rest.strip_prefix('?');
        self.rest = asked.unwrap_or(self.rest);
        if let Some(last) = last {
            return refused("invalid nested repetition operator", up_to(last, self.rest));
        }
        let part = up_to(before, self.rest);
        let Some(atom) = self.current.atoms.pop() else {
            return refused("missing argument to repetition operator", part);
        };
        let weight = counts.map_or(atom.weight, |(low, high)| match high.unwrap_or(low) {
            0 if high == Some(0) => 0,
            0 => atom.weight,
            times => times.saturating_mul(atom.weight.max(1)),
        });
        if weight > REPEAT {
            return refused("invalid repeat count", part);
        }
        let lazy = if asked.is_some() != self.flags.lazy { "?" } else { "" };
        let text = match atom.repeated {
            true => format!("(?:{}){operator}{lazy}", atom.text),
            false => format!("{}{operator}{lazy}", atom.text),
        };
        self.current.atoms.push(Atom { text, weight, repeated: true });
        Ok(Some(before))
    }
}

/// The numbers of `{3}`, `{3,}` or `{3,5}` and what follows; nothing when the `{` stands for itself. A number that is far
/// too large is nothing inside. The upper one of `{3,}` is nothing.
type Counts<'a> = (Option<u32>, Option<Option<u32>>, &'a str);

fn counts(text: &str) -> Option<Counts<'_>> {
    let (low, rest) = number(text.strip_prefix('{')?)?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((low, low.map(Some), rest));
    }
    let rest = rest.strip_prefix(',')?;
    if let Some(rest) = rest.strip_prefix('}') {
        return Some((low, Some(None), rest));
    }
    let (high, rest) = number(rest)?;
    Some((low, high.map(Some), rest.strip_prefix('}')?))
}

/// A number without leading zeros, and what follows.
fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), rest))
}

/// The part of `text` before `rest`, which is its end.
fn up_to<'a>(text: &'a str, rest: &str) -> &'a str {
    text.get(..text.len().saturating_sub(rest.len())).unwrap_or(text)
}

/// Writes a character so that it can only mean itself, in a class and outside.
fn write_char(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
    }
}
