//! The names that an expression may use, and the values that some of them can have at all.
//!
//! A name that is not in the shape is found when the gate is written, not when it is asked.

use std::sync::{Arc, Mutex, PoisonError};

use kardinal_cel::ast::{BinaryOp, Expr, ExprKind};
use kardinal_cel::{CompileError, Env, PathStep, Reference};

use crate::schedule::{self, SCHEDULE};
use crate::shape::{Attribute, Shape, find};
use crate::tree::{comparison, walk};

/// How many wrong names are reported at once.
const MAX_ERRORS: usize = 10;

/// What expressions are checked and compiled against: the shape of a context, and `schedule`.
pub(crate) struct Language {
    shape: &'static Shape,
    /// The variables that are declared. Those that come later are declared too, for a better message than "undeclared".
    pub(crate) env: Env,
}

impl Language {
    /// The language of contexts of this shape. It takes longer to make than an expression to evaluate, so each is kept.
    pub(crate) fn of(shape: &'static Shape) -> Arc<Language> {
        static KNOWN: Mutex<Vec<Arc<Language>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(language) = known.iter().find(|language| std::ptr::eq(language.shape, shape)) {
            return Arc::clone(language);
        }
        let language = Arc::new(Language::new(shape));
        known.push(Arc::clone(&language));
        language
    }

    fn new(shape: &'static Shape) -> Language {
        let later = shape.later.iter().map(|(name, _)| *name);
        let names = shape.variables.iter().map(|(name, _)| *name).chain(later).chain([SCHEDULE]);
        Language { shape, env: names.fold(Env::standard(), |env, name| env.declare(name)) }
    }

    /// What these names lead to.
    pub(crate) fn attribute(&self, names: &[&str]) -> Option<&'static Attribute> {
        let (root, fields) = names.split_first()?;
        fields.iter().try_fold(self.variable(root)?, |attribute, name| attribute.field(name))
    }

    fn variable(&self, name: &str) -> Option<&'static Attribute> {
        if name == SCHEDULE { Some(&schedule::ATTRIBUTES) } else { find(self.shape.variables, name) }
    }

    /// Whether a name is one of the variables that expressions can read.
    pub(crate) fn is_variable(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    /// The paths of all numbers that grow with the time.
    pub(crate) fn elapsed(&self) -> Vec<Vec<&'static str>> {
        let mut found = Vec::new();
        for (name, attribute) in self.shape.variables {
            collect_elapsed(vec![name], attribute, &mut found);
        }
        found
    }

    /// The variables of the context, `schedule` aside.
    pub(crate) fn variables(&self) -> &'static [(&'static str, Attribute)] {
        self.shape.variables
    }

    /// An expression that is true or false.
    pub(crate) fn example(&self) -> &'static str {
        self.shape.example
    }

    /// What is wrong with the names that an expression uses.
    pub(crate) fn check_references(&self, references: &[Reference]) -> Vec<CompileError> {
        references.iter().filter_map(|reference| self.check_reference(reference)).take(MAX_ERRORS).collect()
    }

    fn check_reference(&self, reference: &Reference) -> Option<CompileError> {
        if let Some((name, what)) = self.shape.later.iter().find(|(name, _)| *name == reference.root) {
            let message = format!("`{name}` is not available: gates cannot read {what} in this version");
            return Some(
                CompileError::new(reference.span, message).with_hint("remove it from the expression"),
            );
        }
        let mut known = self.variable(&reference.root)?;
        let mut so_far = reference.root.clone();
        for step in &reference.path {
            let (fields, name) = match (known, step) {
                (Attribute::Labels | Attribute::Texts(_), _) | (Attribute::Fields(_), PathStep::Any) => {
                    return None;
                }
                (Attribute::Fields(fields), PathStep::Index(_)) => (fields, ""),
                (Attribute::Fields(fields), PathStep::Field(name) | PathStep::Key(name)) => {
                    (fields, name.as_str())
                }
                _ => {
                    let message = format!("`{so_far}` is a single value and has no `{step}`");
                    return Some(CompileError::new(reference.span, message));
                }
            };
            let Some(attribute) = known.field(name) else {
                let names: Vec<String> = fields.iter().map(|(field, _)| format!("`{field}`")).collect();
                let error = CompileError::new(reference.span, format!("`{so_far}` has no `{step}`"));
                return Some(error.with_hint(format!("`{so_far}` has {}", names.join(", "))));
            };
            so_far = format!("{so_far}.{name}");
            known = attribute;
        }
        None
    }

    /// What is wrong with the values that an expression compares attributes with: a misspelt day would never come.
    pub(crate) fn check_literals(&self, expr: &Expr) -> Vec<CompileError> {
        let mut errors = Vec::new();
        walk(expr, &mut |expr, bound| {
            let Some(comparison) = comparison(expr, bound) else { return };
            let Some(Attribute::Choice(values)) = self.attribute(&comparison.names) else { return };
            match (comparison.op, &comparison.with.kind) {
                (BinaryOp::Eq | BinaryOp::Ne, _) => {
                    check_literal(&comparison.names, values, comparison.with, &mut errors)
                }
                (BinaryOp::In, ExprKind::List(entries)) => {
                    for entry in entries {
                        check_literal(&comparison.names, values, &entry.value, &mut errors);
                    }
                }
                _ => {}
            }
        });
        errors.truncate(MAX_ERRORS);
        errors
    }
}

fn collect_elapsed(
    path: Vec<&'static str>,
    attribute: &'static Attribute,
    found: &mut Vec<Vec<&'static str>>,
) {
    match attribute {
        Attribute::Elapsed { .. } => found.push(path),
        Attribute::Fields(fields) => {
            for (name, attribute) in *fields {
                collect_elapsed([path.as_slice(), &[name]].concat(), attribute, found);
            }
        }
        _ => {}
    }
}

fn check_literal(names: &[&str], values: &[&str], literal: &Expr, errors: &mut Vec<CompileError>) {
    let shown = match &literal.kind {
        ExprKind::String(text) if values.contains(&text.as_str()) => return,
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Int(number) => number.to_string(),
        ExprKind::Bool(value) => value.to_string(),
        _ => return,
    };
    let allowed: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    let error = CompileError::new(literal.span, format!("`{}` is never {shown}", names.join(".")));
    errors.push(error.with_hint(format!("it is one of {}", allowed.join(", "))));
}
