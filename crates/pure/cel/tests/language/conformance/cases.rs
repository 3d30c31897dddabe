//! Running one case and comparing what comes out with what should.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{Duration, Env, Key, Limits, List, Map, Scope, Text, Time, Value, parse};

use super::textproto::{Field, Message};

/// What came of a case.
pub(crate) enum Outcome {
    Passed,
    Failed(String),
    /// It needs messages, a checker or a library that is not here.
    LeftOut,
}

/// Whole files that are about something else: the results of a checker, and macros that exist for tests of an
/// optimiser only.
const OTHER_FILES: [&str; 3] = ["type_deductions", "block_ext", "unknowns"];
/// Words that only occur where messages, enums and extensions of protobuf are used.
const PROTO_WORDS: [&str; 7] = [
    "TestAllTypes",
    "conformance.proto",
    "Enum",
    "proto.hasExt",
    "proto.getExt",
    "NestedTestAllTypes",
    "Value{",
];

struct Bindings(BTreeMap<String, Value<'static>>);

impl Scope for Bindings {
    fn get(&self, _name: &str) -> Option<&serde_json::Value> {
        None
    }

    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn value(&self, name: &str) -> Option<Value<'_>> {
        self.0.get(name).cloned()
    }
}

/// Runs a case.
pub(crate) fn run(file: &str, test: &Message) -> Outcome {
    let source = test.text("expr").unwrap_or_default();
    if OTHER_FILES.contains(&file) || test.is_true("check_only") || test.message("typed_result").is_some() {
        return Outcome::LeftOut;
    }
    if PROTO_WORDS.iter().any(|word| source.contains(word)) {
        return Outcome::LeftOut;
    }
    let parsed = parse(&source);
    if parsed.as_ref().is_ok_and(has_message) {
        return Outcome::LeftOut;
    }
    let mut bindings = BTreeMap::new();
    for binding in test.messages("bindings") {
        let value = binding.message("value").and_then(|value| value.message("value"));
        let Some(Some(value)) = value.map(to_value) else { return Outcome::LeftOut };
        bindings.insert(binding.text("key").unwrap_or_default(), value);
    }
    let fails = test.message("eval_error").is_some() || test.message("any_eval_errors").is_some();
    let expected = match test.message("value") {
        Some(value) => match Expected::of(value) {
            Some(expected) => Some(expected),
            None => return Outcome::LeftOut,
        },
        None if fails => None,
        None => Some(Expected::Value(Value::Bool(true))),
    };
    if let Err(error) = parsed {
        return Outcome::Failed(format!("does not parse: {error}"));
    }
    evaluate(&source, test, bindings, expected)
}

fn evaluate(
    source: &str,
    test: &Message,
    bindings: BTreeMap<String, Value<'static>>,
    expected: Option<Expected>,
) -> Outcome {
    let mut env = Env::standard().container(test.text("container").unwrap_or_default());
    if test.is_true("disable_check") {
        env = env.allow_undeclared();
    }
    for declaration in test.messages("type_env") {
        env = env.declare(declaration.text("name").unwrap_or_default());
    }
    for name in bindings.keys() {
        env = env.declare(name.clone());
    }
    let scope = Bindings(bindings);
    let result = match env.compile(source) {
        Ok(program) => program.evaluate(&scope, &Limits::default()).map_err(|error| error.to_string()),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    };
    match (result, expected) {
        (Err(_), None) => Outcome::Passed,
        (Ok(value), None) => Outcome::Failed(format!("`{source}` should fail but is {value:?}")),
        (Err(error), Some(_)) => Outcome::Failed(format!("`{source}` fails: {error}")),
        (Ok(value), Some(expected)) if expected.matches(&value) => Outcome::Passed,
        (Ok(value), Some(expected)) => Outcome::Failed(format!("`{source}` is {value:?}, not {expected:?}")),
    }
}

/// What a case should give. Types cannot be made outside of the crate, so they are compared by name.
#[derive(Debug)]
enum Expected {
    Value(Value<'static>),
    Type(String),
}

impl Expected {
    fn of(message: &Message) -> Option<Expected> {
        match message.text("type_value") {
            Some(name) => Some(Expected::Type(name)),
            None => to_value(message).map(Expected::Value),
        }
    }

    fn matches(&self, found: &Value<'_>) -> bool {
        match (self, found) {
            (Expected::Value(expected), found) => same(expected, found),
            (Expected::Type(name), Value::Type(found)) => found.name() == name,
            _ => false,
        }
    }
}

fn same(expected: &Value<'_>, found: &Value<'_>) -> bool {
    match (expected, found) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Uint(left), Value::Uint(right)) => left == right,
        (Value::Double(left), Value::Double(right)) => left == right || (left.is_nan() && right.is_nan()),
        (Value::String(left), Value::String(right)) => **left == **right,
        (Value::Bytes(left), Value::Bytes(right)) => left == right,
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len()
                && left.iter().zip(right.iter()).all(|(left, right)| same(&left, &right))
        }
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(&key).is_some_and(|right| same(&left, &right)))
        }
        (Value::Timestamp(left), Value::Timestamp(right)) => left.to_timestamp() == right.to_timestamp(),
        (Value::Duration(left), Value::Duration(right)) => {
            left.to_signed_duration() == right.to_signed_duration()
        }
        _ => false,
    }
}

/// A value as the data writes it; nothing when it needs messages.
fn to_value(message: &Message) -> Option<Value<'static>> {
    let (name, field) = message.fields.first()?;
    Some(match (name.as_str(), field) {
        ("null_value", _) => Value::Null,
        ("bool_value", Field::Word(word)) => Value::Bool(word == "true"),
        ("int64_value", Field::Word(word)) => Value::Int(integer(word)?),
        ("uint64_value", Field::Word(word)) => Value::Uint(word.parse().ok()?),
        ("double_value", Field::Word(word)) => Value::Double(word.parse().ok()?),
        ("string_value", Field::Text(text)) => {
            Value::String(Text::Shared(String::from_utf8(text.clone()).ok()?.into()))
        }
        ("bytes_value", Field::Text(bytes)) => Value::Bytes(bytes.as_slice().into()),
        ("list_value", Field::Message(list)) => {
            let items: Option<Vec<_>> = list.messages("values").map(to_value).collect();
            Value::List(List::Shared(Arc::new(items?)))
        }
        ("map_value", Field::Message(map)) => {
            let mut entries = BTreeMap::new();
            for entry in map.messages("entries") {
                entries.insert(to_key(entry.message("key")?)?, to_value(entry.message("value")?)?);
            }
            Value::Map(Map::Shared(Arc::new(entries)))
        }
        ("object_value", Field::Message(object)) => well_known(object)?,
        _ => return None,
    })
}

fn integer(word: &str) -> Option<i64> {
    match word.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

fn to_key(message: &Message) -> Option<Key<'static>> {
    Some(match to_value(message)? {
        Value::Bool(value) => Key::Bool(value),
        Value::Int(value) => Key::Int(value),
        Value::Uint(value) => Key::Uint(value),
        Value::String(text) => Key::String(text),
        _ => return None,
    })
}

/// Timestamps and durations, which are messages in the data but values of the language.
fn well_known(object: &Message) -> Option<Value<'static>> {
    let (name, field) = object.fields.first()?;
    let Field::Message(message) = field else { return None };
    let number = |name: &str| message.word(name).map_or(Some(0), |word| word.parse::<i64>().ok());
    let (seconds, nanos) = (number("seconds")?, number("nanos")?);
    match name.as_str() {
        "[type.googleapis.com/google.protobuf.Timestamp]" => {
            let at = Timestamp::new(seconds, nanos as i32).ok()?;
            Some(Value::Timestamp(Time::from_timestamp(at)))
        }
        "[type.googleapis.com/google.protobuf.Duration]" => {
            let length = SignedDuration::new(seconds, nanos as i32);
            Some(Value::Duration(Duration::from_signed_duration(length)))
        }
        _ => None,
    }
}

fn has_message(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Message { .. } => true,
        ExprKind::Select { operand, .. } | ExprKind::Has { operand, .. } => has_message(operand),
        ExprKind::Index { operand, index, .. } => has_message(operand) || has_message(index),
        ExprKind::Call { target, args, .. } => {
            target.as_deref().is_some_and(has_message) || args.iter().any(has_message)
        }
        ExprKind::Not(operand) | ExprKind::Negate(operand) => has_message(operand),
        ExprKind::Binary { left, right, .. } => has_message(left) || has_message(right),
        ExprKind::And(terms) | ExprKind::Or(terms) => terms.iter().any(has_message),
        ExprKind::Conditional { test, then, otherwise } => {
            has_message(test) || has_message(then) || has_message(otherwise)
        }
        ExprKind::List(entries) => entries.iter().any(|entry| has_message(&entry.value)),
        ExprKind::Map(entries) => {
            entries.iter().any(|entry| has_message(&entry.key) || has_message(&entry.value))
        }
        ExprKind::Comprehension(each) => {
            has_message(&each.range)
                || each.filter.as_ref().is_some_and(has_message)
                || has_message(&each.body)
        }
        _ => false,
    }
}
