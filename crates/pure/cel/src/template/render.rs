//! Replaces the expressions of a template by their values.

use jiff::Timestamp;
use serde_json::Value as Json;

use super::path::{FieldPath, FieldStep};
use super::{Node, Part, RenderError};
use crate::budget::Limits;
use crate::fault::{EvalError, EvalErrorKind};
use crate::program::{Program, Scope};
use crate::span::Span;
use crate::value::Value;

/// How large all values together may become. A few bytes of template can ask for the same large value many times.
const MAX_RENDERED_BYTES: usize = 16 * 1024 * 1024;

/// Renders for this moment.
pub(super) fn now(root: &Node, scope: &dyn Scope, limits: &Limits) -> Result<Json, RenderError> {
    let mut renderer = Renderer { scope, limits, looks_ahead: false, until: None, room: MAX_RENDERED_BYTES };
    renderer.root(root)
}

/// Renders for this moment and says until when the result holds.
pub(super) fn until(
    root: &Node,
    scope: &dyn Scope,
    limits: &Limits,
) -> Result<(Json, Option<Timestamp>), RenderError> {
    let mut renderer = Renderer { scope, limits, looks_ahead: true, until: None, room: MAX_RENDERED_BYTES };
    let value = renderer.root(root)?;
    Ok((value, renderer.until))
}

struct Renderer<'s> {
    scope: &'s dyn Scope,
    limits: &'s Limits,
    looks_ahead: bool,
    until: Option<Timestamp>,
    room: usize,
}

/// An error on its way up; every level adds its step.
struct Failure {
    steps: Vec<FieldStep>,
    error: EvalError,
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Failure {
        Failure { steps: Vec::new(), error }
    }
}

impl Failure {
    fn inside(mut self, step: FieldStep) -> Failure {
        self.steps.push(step);
        self
    }
}

impl<'s> Renderer<'s> {
    fn root(&mut self, root: &Node) -> Result<Json, RenderError> {
        match self.node(root) {
            Ok(value) => Ok(value.unwrap_or(Json::Null)),
            Err(failure) => {
                Err(RenderError { path: FieldPath::from_inside(failure.steps), source: failure.error })
            }
        }
    }

    /// The value of a part, or nothing when it is to be left out.
    fn node(&mut self, node: &Node) -> Result<Option<Json>, Failure> {
        Ok(Some(match node {
            Node::Constant(value) => value.clone(),
            Node::Object(fields) => {
                let mut rendered = serde_json::Map::new();
                for (name, node) in fields {
                    let value =
                        self.node(node).map_err(|fail| fail.inside(FieldStep::Field(name.clone())))?;
                    if let Some(value) = value {
                        rendered.insert(name.clone(), value);
                    }
                }
                Json::Object(rendered)
            }
            Node::List(elements) => {
                let mut rendered = Vec::with_capacity(elements.len());
                for (position, node) in elements.iter().enumerate() {
                    rendered.extend(self.node(node).map_err(|fail| fail.inside(FieldStep::Index(position)))?);
                }
                Json::Array(rendered)
            }
            Node::Standalone(program) => {
                let value = self.evaluate(program)?;
                if value.is_none() {
                    return Ok(None);
                }
                let value = value.to_json()?;
                self.take_room(size_of(&value), program)?;
                value
            }
            Node::Text(parts) => Json::String(self.text(parts)?),
        }))
    }

    fn evaluate(&mut self, program: &Program) -> Result<Value<'s>, EvalError> {
        if !self.looks_ahead {
            return program.evaluate(self.scope, self.limits);
        }
        let (value, until) = program.evaluate_until(self.scope, self.limits)?;
        self.until = [self.until, until].into_iter().flatten().min();
        Ok(value)
    }

    fn take_room(&mut self, size: usize, program: &Program) -> Result<(), EvalError> {
        match self.room.checked_sub(size) {
            Some(left) => {
                self.room = left;
                Ok(())
            }
            None => Err(EvalError {
                kind: EvalErrorKind::Budget,
                span: whole(program),
                message: format!(
                    "the values of this template take more than {MAX_RENDERED_BYTES} bytes together"
                ),
            }),
        }
    }

    fn text(&mut self, parts: &[Part]) -> Result<String, EvalError> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Plain(plain) => text.push_str(plain),
                Part::Expression(program) => {
                    let value = self.evaluate(program)?;
                    let piece = as_text(&value, program)?;
                    self.take_room(piece.len(), program)?;
                    text.push_str(&piece);
                }
            }
        }
        Ok(text)
    }
}

/// About how many bytes a value takes.
fn size_of(value: &Json) -> usize {
    let inside: usize = match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(elements) => elements.iter().map(size_of).sum(),
        Json::Object(fields) => fields.iter().map(|(name, value)| name.len() + size_of(value)).sum(),
    };
    size_of_val(value) + inside
}

/// How a value reads inside of text. What has no obvious text is refused rather than guessed.
fn as_text(value: &Value<'_>, program: &Program) -> Result<String, EvalError> {
    match value {
        Value::Optional(Some(inner)) => return as_text(inner, program),
        // People read this text, and so do programs that know no exponents: numbers are written out.
        Value::Double(number) if number.is_finite() => return Ok(number.to_string()),
        Value::Double(_) => return Err(no_text(value, program)),
        Value::Bytes(_) | Value::Type(_) => return Err(no_text(value, program)),
        _ => {}
    }
    match value.to_json()? {
        Json::String(text) => Ok(text),
        Json::Bool(truth) => Ok(truth.to_string()),
        Json::Number(number) => Ok(number.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(no_text(value, program)),
    }
}

fn whole(program: &Program) -> Span {
    Span::new(0, u32::try_from(program.source().len()).unwrap_or(u32::MAX))
}

fn no_text(value: &Value<'_>, program: &Program) -> EvalError {
    let source = program.source();
    EvalError {
        kind: EvalErrorKind::Type,
        span: whole(program),
        message: format!(
            "`${{{source}}}` is a value of type {} and cannot be part of a text; string, int, uint, double, bool, \
             timestamp and duration can",
            value.type_name()
        ),
    }
}
