//! The Common Expression Language as the whole house speaks it: parse once, evaluate often over borrowed JSON.
//!
//! Expressions and templates are hostile input. Everything in this crate is bounded (source bytes, nodes, depth,
//! evaluation cost) and nothing in it reads a clock, a file or the network: `now` comes in with the [`Scope`].
//!
//! The way of an expression: [`parse`] turns text into [`ast::Expr`], [`Env::compile`] checks names and lowers it to a
//! [`Program`], [`Program::evaluate`] runs it. [`Template`] does the same for JSON trees whose strings hold `${…}`.

pub mod ast;
mod budget;
mod env;
mod error;
mod eval;
mod fault;
mod functions;
mod lexer;
mod lower;
mod macros;
mod parser;
mod program;
mod references;
mod scan;
#[cfg(test)]
mod show;
mod span;
mod template;
mod time;
mod value;

pub use budget::Limits;
pub use env::Env;
pub use error::{CompileError, render_error};
pub use fault::{EvalError, EvalErrorKind};
pub use parser::parse;
pub use program::{MapScope, Program, Scope};
pub use references::{PathStep, Reference};
pub use span::Span;
pub use template::{FieldPath, FieldStep, RenderError, Template, TemplateError};
pub use time::{Duration, Time};
pub use value::{Key, List, Map, Opaque, Text, Type, Value};
