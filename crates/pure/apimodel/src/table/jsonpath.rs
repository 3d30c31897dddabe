//! The part of kubectl's JSONPath that printer columns use: `.a.b`, `['a']`, `[0]`, `[*]`, `.*`, `..a` and
//! `[?(@.type=="Ready")]`.

use serde_json::Value;

/// A path that has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<Step>);

/// Why a path cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("JSONPath `{path}` is not valid: {reason}")]
pub struct JsonPathError {
    /// The path as written.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Descend(String),
    Filter { path: Vec<Step>, test: Option<(Operator, Value)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer two-character operators come first, so that `<=` is not read as `<`.
const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// A path longer than this is refused: nobody writes one by hand.
const MAX_LENGTH: usize = 4096;

impl JsonPath {
    /// Reads a path, with or without the braces that kubectl wants.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text).trim();
        let fail = |reason: &str| JsonPathError { path: text.to_owned(), reason: reason.to_owned() };
        if inner.len() > MAX_LENGTH {
            return Err(fail("it is longer than 4096 bytes"));
        }
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        steps(inner).map(Self).map_err(|reason| fail(&reason))
    }

    /// Everything the path finds, in document order.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        find(&self.0, value)
    }
}

fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let (name, after) = field(after);
            if name.is_empty() {
                return Err("`..` needs a field name".to_owned());
            }
            out.push(Step::Descend(name));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('.') {
            let (name, after) = field(after);
            match name.as_str() {
                "*" => out.push(Step::All),
                // A lone dot is the object itself, and `.[0]` is `[0]`.
                "" if after.is_empty() || after.starts_with('[') => {}
                "" => return Err("a field name is missing after `.`".to_owned()),
                _ => out.push(Step::Field(name)),
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = bracket(after)?;
            out.push(subscript(inside)?);
            rest = after;
        } else if out.is_empty() {
            // kubectl accepts a first field without its dot.
            let (name, after) = field(rest);
            if name.is_empty() {
                return Err("it must start with `.`".to_owned());
            }
            out.push(Step::Field(name));
            rest = after;
        } else {
            return Err(format!("`{rest}` cannot follow here"));
        }
    }
    Ok(out)
}

/// A field name and what follows it; a backslash takes the next character as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            c => name.push(c),
        }
    }
    (name, "")
}

/// The inside of a bracket and what follows it, minding quotes and nesting.
fn bracket(text: &str) -> Result<(&str, &str), String> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => {
                let inside = text.get(..at).unwrap_or_default().trim();
                return Ok((inside, text.get(at + 1..).unwrap_or_default()));
            }
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    Err("`[` is not closed".to_owned())
}

fn subscript(inside: &str) -> Result<Step, String> {
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = unquote(inside) {
        return Ok(Step::Field(name.to_owned()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return self::filter(filter.trim());
    }
    inside
        .parse()
        .map(Step::Index)
        .map_err(|_| format!("`[{inside}]` is not an index, a quoted name, `*` or a filter"))
}

fn filter(text: &str) -> Result<Step, String> {
    let Some(path) = text.strip_prefix('@') else {
        return Err("a filter must start with `@`".to_owned());
    };
    let Some((at, sign, operator)) = operator(path) else {
        return Ok(Step::Filter { path: steps(path.trim())?, test: None });
    };
    let left = path.get(..at).unwrap_or_default().trim();
    let right = path.get(at + sign.len()..).unwrap_or_default().trim();
    let literal = match unquote(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right)
            .map_err(|_| format!("`{right}` is not a quoted string, a number or a flag"))?,
    };
    Ok(Step::Filter { path: steps(left)?, test: Some((operator, literal)) })
}

/// The first operator outside of quotes.
fn operator(text: &str) -> Option<(usize, &'static str, Operator)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) => {
                let here = text.get(at..).unwrap_or_default();
                if let Some((sign, operator)) = OPERATORS.iter().find(|(sign, _)| here.starts_with(sign)) {
                    return Some((at, sign, *operator));
                }
            }
        }
    }
    None
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

fn find<'v>(steps: &[Step], value: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            apply(step, value, &mut next);
        }
        found = next;
    }
    found
}

fn apply<'v>(step: &Step, value: &'v Value, out: &mut Vec<&'v Value>) {
    match step {
        Step::Field(name) => out.extend(value.get(name)),
        Step::Index(index) => {
            let Some(list) = value.as_array() else { return };
            let at = if *index < 0 { list.len() as i64 + index } else { *index };
            out.extend(usize::try_from(at).ok().and_then(|at| list.get(at)));
        }
        Step::All => out.extend(children(value)),
        Step::Descend(name) => {
            let mut todo = vec![value];
            while let Some(value) = todo.pop() {
                out.extend(value.get(name));
                todo.extend(children(value).rev());
            }
        }
        Step::Filter { path, test } => {
            let Some(list) = value.as_array() else { return };
            out.extend(list.iter().filter(|item| match test {
                None => !find(path, item).is_empty(),
                Some((operator, literal)) => {
                    find(path, item).into_iter().next().is_some_and(|left| compare(*operator, left, literal))
                }
            }));
        }
    }
}

fn children(value: &Value) -> Box<dyn DoubleEndedIterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn compare(operator: Operator, left: &Value, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match operator {
        Operator::Equal => order.is_some_and(|o| o.is_eq()),
        Operator::NotEqual => order.is_none_or(|o| o.is_ne()),
        Operator::Less => order.is_some_and(|o| o.is_lt()),
        Operator::LessOrEqual => order.is_some_and(|o| o.is_le()),
        Operator::Greater => order.is_some_and(|o| o.is_gt()),
        Operator::GreaterOrEqual => order.is_some_and(|o| o.is_ge()),
    }
}
