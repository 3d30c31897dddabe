//! What an expression may name: variables, function libraries and types. It evaluates nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::CompileError;
use crate::functions::{Function, Library, STANDARD};
use crate::lower;
use crate::parser::parse;
use crate::program::{Code, Program};
use crate::references::free_references;
use crate::value::{TYPE_NAMES, Type};

/// The names that are known where an expression stands.
#[derive(Clone)]
pub struct Env {
    variables: Arc<BTreeSet<String>>,
    libraries: Vec<&'static Library>,
    container: String,
    undeclared: bool,
}

impl Env {
    /// All function libraries and no variables.
    pub fn standard() -> Env {
        Env {
            variables: Arc::default(),
            libraries: STANDARD.to_vec(),
            container: String::new(),
            undeclared: false,
        }
    }

    /// Declares a variable of any type. A dotted name is a variable of a namespace: `a.b` hides the field `b` of `a`.
    #[must_use]
    pub fn declare(mut self, name: impl Into<String>) -> Env {
        Arc::make_mut(&mut self.variables).insert(name.into());
        self
    }

    /// The namespace in which names are looked up first.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Env {
        self.container = name.into();
        self
    }

    /// Takes every unknown name for a variable and leaves unknown functions to fail when they are called. This is for
    /// tests: a misspelt name is then found only at run time.
    #[must_use]
    pub fn allow_undeclared(mut self) -> Env {
        self.undeclared = true;
        self
    }

    /// Checks and prepares an expression. Undeclared names, unknown functions and wrong numbers of arguments are errors,
    /// and all of them are reported.
    pub fn compile(&self, source: &str) -> Result<Program, Vec<CompileError>> {
        let expr = parse(source).map_err(|error| vec![error])?;
        let lowered = lower::lower(self, &expr)?;
        let mut references = free_references(&expr, &|namespace, name| self.is_namespaced(namespace, name));
        // Type names look like references to the collector, which knows no environment.
        references.retain(|reference| lowered.roots.contains(&reference.root));
        Ok(Program::new(Code {
            source: source.to_owned(),
            root: lowered.root,
            variables: lowered.variables,
            references,
            uses_now: lowered.uses_now,
        }))
    }

    /// Whether `namespace.name` is a function of a library.
    fn is_namespaced(&self, namespace: &str, name: &str) -> bool {
        self.functions().any(|function| {
            !function.receiver
                && function.name.strip_prefix(namespace).and_then(|rest| rest.strip_prefix('.')) == Some(name)
        })
    }

    pub(crate) fn declares(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    pub(crate) fn allows_undeclared(&self) -> bool {
        self.undeclared
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &'static Function> {
        self.libraries.iter().flat_map(|library| library.functions.iter())
    }

    /// The type of this name.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        self.type_names().find(|known| *known == name).map(Type)
    }

    pub(crate) fn type_names(&self) -> impl Iterator<Item = &'static str> {
        let of_libraries = self.libraries.iter().flat_map(|library| library.types.iter());
        TYPE_NAMES.iter().chain(of_libraries).copied()
    }

    /// The full names that `name` may stand for, the most specific first.
    pub(crate) fn candidates(&self, name: &str, absolute: bool) -> Vec<String> {
        let mut candidates = Vec::new();
        if !absolute {
            let mut container = self.container.as_str();
            while !container.is_empty() {
                candidates.push(format!("{container}.{name}"));
                container = container.rsplit_once('.').map_or("", |(outer, _)| outer);
            }
        }
        candidates.push(name.to_owned());
        candidates
    }
}
