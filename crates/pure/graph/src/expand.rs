//! Rendering the body of a node, once or once per element of its `forEach` lists.
//!
//! Expansion is all or nothing: when one element cannot be rendered, none is.

use jiff::Timestamp;
use kardinal_cel::{EvalErrorKind, FieldPath, FieldStep, Limits, Scope};
use serde_json::Value;

use crate::compile::join_path;
use crate::graph::Node;
use crate::scope::{Layer, earliest};

const COLLECTION_LIMIT: usize = 1000;

/// Why a body has no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It reads something that is not there yet.
    Missing(String),
    /// It failed.
    Failed(String),
}

/// The rendered bodies, in expansion order, and when they can change by time alone.
pub(crate) type Rendered = (Vec<Value>, Option<Timestamp>);

/// Renders the body of `node`.
pub(crate) fn expand(node: &Node, base: &dyn Scope, limits: &Limits) -> Result<Rendered, Stop> {
    let mut until = None;
    let mut axes = Vec::with_capacity(node.for_each.len());
    for (variable, program) in &node.for_each {
        let failed = |message: &str| format!("forEach.{variable}: `{}`: {message}", program.source());
        let (value, change) = program.evaluate_until(base, limits).map_err(|error| match error.kind {
            EvalErrorKind::Missing => Stop::Missing(failed(&error.message)),
            _ => Stop::Failed(failed(&error.message)),
        })?;
        until = earliest(until, change);
        match value.to_json() {
            Ok(Value::Array(items)) => axes.push((variable.as_str(), items)),
            _ => {
                return Err(Stop::Failed(failed(&format!("must give a list, not {}", value.type_name()))));
            }
        }
    }
    let total = axes.iter().fold(1usize, |total, (_, items)| total.saturating_mul(items.len()));
    if total > COLLECTION_LIMIT {
        return Err(Stop::Failed(format!(
            "forEach gives {total} items; at most {COLLECTION_LIMIT} are allowed"
        )));
    }
    let mut bodies = Vec::with_capacity(total);
    for at in 0..total {
        let names = combination(&axes, at);
        let scope = Layer { base, names: &names };
        let (body, change) = node.body.render_until(&scope, limits).map_err(|error| {
            let field = join_path(node.kind.keyword(), &error.path.to_string());
            let text = written(node, &error.path).map(|text| format!("`{text}`: ")).unwrap_or_default();
            let detail = format!("{field}: {text}{}", error.source.message);
            match error.source.kind {
                EvalErrorKind::Missing => Stop::Missing(detail),
                _ => Stop::Failed(detail),
            }
        })?;
        until = earliest(until, change);
        bodies.push(body);
    }
    Ok((bodies, until))
}

/// The loop variables of the `at`-th element of the product; the first list varies slowest.
fn combination<'a>(axes: &'a [(&'a str, Vec<Value>)], at: usize) -> Vec<(&'a str, &'a Value)> {
    let mut rest = at;
    let mut names: Vec<(&str, &Value)> = Vec::with_capacity(axes.len());
    for (variable, items) in axes.iter().rev() {
        let count = items.len().max(1);
        if let Some(item) = items.get(rest % count) {
            names.push((variable, item));
        }
        rest /= count;
    }
    names
}

/// The text that the user wrote at `path`.
fn written(node: &Node, path: &FieldPath) -> Option<String> {
    let body: Value = serde_json::from_str(&node.written).ok()?;
    let mut at = &body;
    for step in path.steps() {
        at = match step {
            FieldStep::Field(name) => at.get(name)?,
            FieldStep::Index(index) => at.get(*index)?,
        };
    }
    at.as_str().map(str::to_owned)
}
