//! JSON trees in which strings may hold `${…}`: compiled once, rendered often.
//!
//! A string that is exactly one expression takes the expression's value with its type. Expressions inside of text are
//! put into it as text. Keys are never evaluated, and neither is anything that comes out of data: only what the author
//! of the template wrote is ever scanned.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::budget::Limits;
use crate::env::Env;
use crate::error::{CompileError, render_error};
use crate::fault::EvalError;
use crate::lexer::span;
use crate::program::{Program, Scope};
use crate::references::Reference;
use crate::scan::{Segment, scan};
use crate::span::Span;

mod path;
mod render;

pub use path::{FieldPath, FieldStep};

/// How many objects and lists may enclose one another in a template.
const MAX_TREE_DEPTH: usize = 100;
/// How many errors are reported at once. Each holds a copy of its string, so there has to be an end.
const MAX_ERRORS: usize = 100;

/// A JSON tree in which strings may hold `${…}`.
#[derive(Clone, Debug)]
pub struct Template {
    root: Node,
}

/// A part of a template. Parts without expressions are kept as the JSON they are.
#[derive(Clone, Debug)]
enum Node {
    Constant(Json),
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
    Standalone(Program),
    Text(Vec<Part>),
}

/// A piece of a text with expressions in it.
#[derive(Clone, Debug)]
enum Part {
    Plain(String),
    Expression(Program),
}

/// An expression of a template that does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{error}", prefix(path))]
pub struct TemplateError {
    /// Where in the tree the string stands.
    pub path: FieldPath,
    /// Byte offset of the expression inside the string; the error's span counts from there.
    pub offset: usize,
    /// The whole string.
    pub text: String,
    /// What is wrong.
    #[source]
    pub error: CompileError,
}

/// An expression of a template that has no usable value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{source}", prefix(path))]
pub struct RenderError {
    /// Where in the tree the string stands.
    pub path: FieldPath,
    /// What went wrong; its span counts from the start of the expression.
    pub source: EvalError,
}

fn prefix(path: &FieldPath) -> String {
    if path.is_root() { String::new() } else { format!("`{path}`: ") }
}

impl TemplateError {
    /// The error's range inside of the whole string.
    pub fn span(&self) -> Span {
        let Span { start, end } = self.error.span;
        span(self.offset + start as usize, self.offset + end as usize)
    }

    /// Shows the error under the string it is about.
    pub fn render(&self) -> String {
        let shifted = CompileError { span: self.span(), ..self.error.clone() };
        render_error(&self.text, &self.path.to_string(), &[shifted])
    }
}

impl Template {
    /// Compiles every expression of a tree; all that do not compile are reported, up to a hundred.
    pub fn compile(env: &Env, value: &Json) -> Result<Template, Vec<TemplateError>> {
        let mut compiler = Compiler { env, path: FieldPath::root(), errors: Vec::new() };
        let root = compiler.node(value);
        if compiler.errors.is_empty() { Ok(Template { root }) } else { Err(compiler.errors) }
    }

    /// Compiles a text that has to be exactly one `${…}`; blanks around it do not matter.
    pub fn compile_expression(env: &Env, text: &str) -> Result<Program, TemplateError> {
        let failed = |offset: usize, error: CompileError| TemplateError {
            path: FieldPath::root(),
            offset,
            text: text.to_owned(),
            error,
        };
        let mut found = scan(text).map_err(|error| {
            let (offset, error) = relative(error);
            failed(offset, error)
        })?;
        found.retain(|segment| !matches!(segment, Segment::Text(plain) if plain.trim().is_empty()));
        match found.as_slice() {
            [Segment::Expression(range)] => {
                let (offset, source) = trimmed(text, range.clone());
                env.compile(source).map_err(|errors| failed(offset, first_of(errors)))
            }
            _ => {
                let error = CompileError::new(span(0, text.len()), "expected exactly one expression `${…}`")
                    .with_hint(
                        "put the whole condition into one pair of braces, as in `${a.ready && b.ready}`",
                    );
                Err(failed(0, error))
            }
        }
    }

    /// The free references of all expressions and where in the tree they stand.
    pub fn references(&self) -> Vec<(FieldPath, &Reference)> {
        let mut found = Vec::new();
        self.root.visit(&mut FieldPath::root(), &mut |path, program| {
            found.extend(program.references().iter().map(|reference| (path.clone(), reference)));
        });
        found
    }

    /// All expressions, in the order of the tree.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        let mut found = Vec::new();
        self.root.visit(&mut FieldPath::root(), &mut |_, program| found.push(program));
        found.into_iter()
    }

    /// Whether there is nothing to evaluate.
    pub fn is_constant(&self) -> bool {
        matches!(self.root, Node::Constant(_))
    }

    /// The tree with every expression replaced by its value. The limits hold for each expression; the values together
    /// may take 16 MiB.
    pub fn render(&self, scope: &dyn Scope, limits: &Limits) -> Result<Json, RenderError> {
        render::now(&self.root, scope, limits)
    }

    /// The tree, and the earliest instant after `scope.now()` at which it can differ.
    pub fn render_until(
        &self,
        scope: &dyn Scope,
        limits: &Limits,
    ) -> Result<(Json, Option<Timestamp>), RenderError> {
        render::until(&self.root, scope, limits)
    }
}

impl Node {
    fn visit<'t>(&'t self, path: &mut FieldPath, see: &mut dyn FnMut(&FieldPath, &'t Program)) {
        match self {
            Node::Constant(_) => {}
            Node::Object(fields) => {
                for (name, node) in fields {
                    path.push(FieldStep::Field(name.clone()));
                    node.visit(path, see);
                    path.pop();
                }
            }
            Node::List(elements) => {
                for (position, node) in elements.iter().enumerate() {
                    path.push(FieldStep::Index(position));
                    node.visit(path, see);
                    path.pop();
                }
            }
            Node::Standalone(program) => see(path, program),
            Node::Text(parts) => {
                for part in parts {
                    if let Part::Expression(program) = part {
                        see(path, program);
                    }
                }
            }
        }
    }
}

struct Compiler<'e> {
    env: &'e Env,
    path: FieldPath,
    errors: Vec<TemplateError>,
}

impl Compiler<'_> {
    fn node(&mut self, value: &Json) -> Node {
        if matches!(value, Json::Object(_) | Json::Array(_)) && self.path.steps().len() >= MAX_TREE_DEPTH {
            let message =
                format!("template is nested too deeply, at most {MAX_TREE_DEPTH} levels are allowed");
            self.fail("", 0, CompileError::new(Span::default(), message));
            return Node::Constant(Json::Null);
        }
        match value {
            Json::String(text) => self.string(text),
            Json::Object(fields) => {
                let mut nodes = Vec::with_capacity(fields.len());
                for (name, value) in fields {
                    self.path.push(FieldStep::Field(name.clone()));
                    nodes.push((name.clone(), self.node(value)));
                    self.path.pop();
                }
                object(nodes)
            }
            Json::Array(elements) => {
                let mut nodes = Vec::with_capacity(elements.len());
                for (position, value) in elements.iter().enumerate() {
                    self.path.push(FieldStep::Index(position));
                    nodes.push(self.node(value));
                    self.path.pop();
                }
                list(nodes)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Node::Constant(value.clone()),
        }
    }

    fn string(&mut self, text: &str) -> Node {
        let segments = match scan(text) {
            Ok(segments) => segments,
            Err(error) => {
                let (offset, error) = relative(error);
                self.fail(text, offset, error);
                return Node::Constant(Json::Null);
            }
        };
        let alone = segments.len() == 1;
        let mut parts = Vec::with_capacity(segments.len());
        for segment in segments {
            match segment {
                Segment::Text(plain) if alone => return Node::Constant(Json::String(plain.into_owned())),
                Segment::Text(plain) => parts.push(Part::Plain(plain.into_owned())),
                Segment::Expression(range) => {
                    let (offset, source) = trimmed(text, range);
                    match self.env.compile(source) {
                        Ok(program) if alone => return Node::Standalone(program),
                        Ok(program) => parts.push(Part::Expression(program)),
                        Err(errors) => errors.into_iter().for_each(|error| self.fail(text, offset, error)),
                    }
                }
            }
        }
        if parts.is_empty() { Node::Constant(Json::String(String::new())) } else { Node::Text(parts) }
    }

    fn fail(&mut self, text: &str, offset: usize, error: CompileError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(TemplateError { path: self.path.clone(), offset, text: text.to_owned(), error });
        }
    }
}

/// An object of which nothing is to be evaluated is a constant.
fn object(nodes: Vec<(String, Node)>) -> Node {
    if !nodes.iter().all(|(_, node)| matches!(node, Node::Constant(_))) {
        return Node::Object(nodes);
    }
    Node::Constant(Json::Object(
        nodes
            .into_iter()
            .filter_map(|(name, node)| match node {
                Node::Constant(value) => Some((name, value)),
                _ => None,
            })
            .collect(),
    ))
}

/// A list of which nothing is to be evaluated is a constant.
fn list(nodes: Vec<Node>) -> Node {
    if !nodes.iter().all(|node| matches!(node, Node::Constant(_))) {
        return Node::List(nodes);
    }
    Node::Constant(Json::Array(
        nodes
            .into_iter()
            .filter_map(|node| match node {
                Node::Constant(value) => Some(value),
                _ => None,
            })
            .collect(),
    ))
}

/// An expression without the blanks around it, and where it begins in the text.
fn trimmed(text: &str, range: std::ops::Range<usize>) -> (usize, &str) {
    let blank = |letter: char| matches!(letter, ' ' | '\t' | '\r' | '\n' | '\x0c');
    let whole = text.get(range.clone()).unwrap_or("");
    let front = whole.trim_start_matches(blank);
    (range.start + whole.len() - front.len(), front.trim_end_matches(blank))
}

/// Moves the error of the scanner to where its text begins.
fn relative(error: CompileError) -> (usize, CompileError) {
    let Span { start, end } = error.span;
    (start as usize, CompileError { span: Span::new(0, end.saturating_sub(start)), ..error })
}

fn first_of(errors: Vec<CompileError>) -> CompileError {
    let unknown = || CompileError::new(Span::default(), "expression does not compile");
    errors.into_iter().next().unwrap_or_else(unknown)
}

#[cfg(test)]
mod tests;
