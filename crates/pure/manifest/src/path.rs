//! Paths such as `.image.tag`, `.items[0].name` and `."a.b"`.

use crate::Error;
use crate::tree::{Kind, Node};

/// One step of a path: a key of a mapping or, when it is a number, an index of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The key as text.
    pub(crate) key: String,
    /// Written as `[0]`, so it can only be an index.
    pub(crate) index_only: bool,
}

/// Reads a path. The leading dot may be left out.
pub(crate) fn parse(file: &str, path: &str) -> Result<Vec<Step>, Error> {
    let bad = |message: &str| Error::BadPath {
        file: file.to_owned(),
        path: path.to_owned(),
        message: message.to_owned(),
    };
    let mut steps = Vec::new();
    let mut rest = path;
    let mut first = true;
    while !rest.is_empty() {
        let step = if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = bracketed(inside).map_err(&bad)?;
            rest = after;
            step
        } else {
            let start = match rest.strip_prefix('.') {
                Some(start) => start,
                None if first => rest,
                None => return Err(bad("a `.` is missing between two keys")),
            };
            if first && start.is_empty() {
                return Ok(steps);
            }
            if start.starts_with('[') && first {
                rest = start;
                first = false;
                continue;
            }
            let (key, after) = key(start).map_err(&bad)?;
            rest = after;
            Step { key, index_only: false }
        };
        first = false;
        steps.push(step);
    }
    Ok(steps)
}

/// The inside of `[0]`, `["key"]` or `['key']`, and what follows the closing bracket.
fn bracketed(inside: &str) -> Result<(Step, &str), &'static str> {
    let (step, rest) = if inside.starts_with(['"', '\'']) {
        let (key, rest) = key(inside)?;
        (Step { key, index_only: false }, rest)
    } else {
        let end = inside.find(']').ok_or("a `]` is missing")?;
        let (digits, rest) = inside.split_at(end);
        if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit()) {
            return Err("between `[` and `]` there must be a number or a quoted key");
        }
        (Step { key: digits.to_owned(), index_only: true }, rest)
    };
    Ok((step, rest.strip_prefix(']').ok_or("a `]` is missing")?))
}

/// A key, quoted or not, and what follows it.
fn key(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let end = text.find(['.', '[']).unwrap_or(text.len());
        let (key, rest) = text.split_at(end);
        return if key.is_empty() { Err("a key is empty") } else { Ok((key.to_owned(), rest)) };
    };
    let mut key = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((key, text.get(at + 1..).unwrap_or_default()));
        }
        if c == '\\' && quote == '"' {
            key.extend(chars.next().map(|(_, c)| c));
        } else {
            key.push(c);
        }
    }
    Err("a quote is not closed")
}

/// Where a path ends in a document.
pub(crate) enum Found {
    /// The children to descend, one number per step.
    At(Vec<usize>),
    /// The path leaves the document; the words say where.
    Missing(String),
    /// The path meets something that an edit cannot go through.
    Blocked(String),
}

/// Follows a path without going through aliases, because what they stand for is written elsewhere.
pub(crate) fn find(root: &Node, steps: &[Step]) -> Found {
    let mut node = root;
    let mut place = Vec::new();
    let mut walked = String::new();
    for step in steps {
        let shown = if walked.is_empty() { "the top level".to_owned() } else { format!("`{walked}`") };
        let next = match &node.kind {
            Kind::Mapping { pairs, .. } if !step.index_only => {
                let mut hits =
                    pairs.iter().enumerate().filter(|(_, (key, _))| key.text() == Some(step.key.as_str()));
                match (hits.next(), hits.next()) {
                    (Some((index, (_, value))), None) => Some((index, value)),
                    (Some(_), Some(_)) => {
                        return Found::Blocked(format!("{shown} has the key `{}` twice", step.key));
                    }
                    (None, _) => None,
                }
            }
            Kind::Sequence { items, .. } => {
                let index = step.key.parse::<usize>().ok();
                index.and_then(|index| items.get(index).map(|item| (index, item)))
            }
            Kind::Alias(_) => {
                return Found::Blocked(format!("{shown} is an alias; name the anchored place instead"));
            }
            Kind::Mapping { .. } | Kind::Scalar { .. } => None,
        };
        let Some((index, child)) = next else {
            return Found::Missing(format!("{shown} has no `{}`{}", step.key, contents(node)));
        };
        place.push(index);
        walked.push_str(&shown_step(step));
        node = child;
    }
    Found::At(place)
}

fn shown_step(step: &Step) -> String {
    if step.index_only {
        format!("[{}]", step.key)
    } else if step.key.contains(['.', '[', '"']) {
        format!(".{:?}", step.key)
    } else {
        format!(".{}", step.key)
    }
}

/// What there is instead, for an error message.
fn contents(node: &Node) -> String {
    match &node.kind {
        Kind::Mapping { pairs, .. } => {
            let keys: Vec<String> = pairs
                .iter()
                .filter_map(|(key, _)| key.text())
                .take(8)
                .map(|key| format!("`{key}`"))
                .collect();
            let more = if pairs.len() > keys.len() { ", …" } else { "" };
            format!("; it has {}{more}", keys.join(", "))
        }
        Kind::Sequence { items, .. } => format!("; it is a list of {}", items.len()),
        Kind::Scalar { .. } => "; it is a single value".to_owned(),
        Kind::Alias(_) => String::new(),
    }
}
