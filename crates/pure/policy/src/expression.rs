//! A gate's expression, checked against the context, and what it needs to know of the time.

use std::sync::LazyLock;

use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{CompileError, Env, PathStep, Program, Reference, parse, render_error};

use crate::attributes;
use crate::labels::with_lenient_labels;
use crate::samples::check_types;
use crate::tree::{comparison, walk};
use crate::truth::check_truth;

/// The field that errors are shown under.
const FIELD: &str = "spec.expression";
/// More than a person reads; a status must stay small.
const MAX_RENDERED: usize = 4096;

static ENV: LazyLock<Env> =
    LazyLock::new(|| attributes::variables().fold(Env::standard(), |env, name| env.declare(name)));

/// A compiled expression of a gate.
pub(crate) struct Expression {
    /// The text as people wrote it, without surrounding blanks.
    pub(crate) source: String,
    /// Its tree.
    pub(crate) tree: Expr,
    /// What it reads, as people wrote it.
    pub(crate) references: Vec<Reference>,
    /// What is run: the text with labels made lenient.
    pub(crate) program: Program,
    /// Which moving parts of the context it reads.
    pub(crate) uses: Uses,
}

/// Which moving parts of the context an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    /// How `bundle.upstreamSoakMinutes` matters.
    pub(crate) soak_minutes: Soak,
    /// How `bundle.upstreamSoakSeconds` matters.
    pub(crate) soak_seconds: Soak,
    /// The parts of `schedule`.
    pub(crate) is_weekend: bool,
    pub(crate) day: bool,
    pub(crate) hour: bool,
    pub(crate) minute: bool,
}

/// How the soak time matters to an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Soak {
    /// Not at all.
    Unused,
    /// Only whether it has reached these numbers, in ascending order.
    Cuts(Vec<i64>),
    /// Every number may matter.
    Every,
}

impl Expression {
    /// Compiles the text against the context of gates.
    pub(crate) fn compile(source: &str) -> Result<Expression, Vec<CompileError>> {
        let tree = parse(source).map_err(|error| vec![error])?;
        let plain = ENV.compile(source)?;
        let references = plain.references().to_vec();
        let mut errors = attributes::check_references(&references);
        errors.extend(attributes::check_literals(&tree));
        errors.extend(check_truth(&tree));
        if !errors.is_empty() {
            return Err(errors);
        }
        let lenient = with_lenient_labels(source, &tree);
        let program = if lenient == source { plain } else { ENV.compile(&lenient)? };
        let uses = Uses {
            soak_minutes: soak(&tree, &references, "upstreamSoakMinutes"),
            soak_seconds: soak(&tree, &references, "upstreamSoakSeconds"),
            is_weekend: reads(&references, "schedule", "isWeekend"),
            day: reads(&references, "schedule", "dayOfWeek"),
            hour: reads(&references, "schedule", "hour"),
            minute: reads(&references, "schedule", "minute"),
        };
        Ok(Expression { source: source.to_owned(), tree, references, program, uses })
    }
}

/// Whether the expression compiles against the context of gates, and its parts work on the types that the context has. The
/// error is rendered under the line it is about, with a caret.
pub fn check_expression(expression: &str) -> Result<(), String> {
    let checked = Expression::compile(expression).and_then(|compiled| {
        let errors = check_types(&ENV, expression, &compiled.tree, &compiled.uses);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    });
    checked.map_err(|errors| {
        let rendered = render_error(expression, FIELD, &errors);
        if rendered.len() <= MAX_RENDERED { rendered } else { one_line(&errors) }
    })
}

/// The first error in one line.
pub(crate) fn one_line(errors: &[CompileError]) -> String {
    let Some(first) = errors.first() else { return "the expression does not compile".to_owned() };
    let hint = first.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
    let more = match errors.len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    format!("{}{hint}{more}", first.message)
}

/// Whether a reference may read this field: by name, by a computed key, or with the whole.
fn reads(references: &[Reference], root: &str, field: &str) -> bool {
    references.iter().filter(|reference| reference.root == root).any(|reference| {
        match reference.path.first() {
            None | Some(PathStep::Any) => true,
            Some(PathStep::Field(name) | PathStep::Key(name)) => name == field,
            Some(PathStep::Index(_)) => false,
        }
    })
}

/// When every mention of the soak time is compared with a whole number, only reaching these numbers can matter.
fn soak(tree: &Expr, references: &[Reference], name: &str) -> Soak {
    if !reads(references, "bundle", name) {
        return Soak::Unused;
    }
    let by_name = references
        .iter()
        .filter(|reference| reference.root == "bundle")
        .all(|reference| matches!(reference.path.first(), Some(PathStep::Field(_) | PathStep::Key(_))));
    let (mut mentions, mut compared, mut cuts) = (0_usize, 0_usize, Vec::new());
    walk(tree, &mut |expr, bound| {
        match &expr.kind {
            ExprKind::Select { field, .. } | ExprKind::Has { field, .. } if field == name => mentions += 1,
            ExprKind::String(text) if text == name => mentions += 1,
            _ => {}
        }
        if let Some(comparison) = comparison(expr, bound)
            && comparison.names == ["bundle", name]
            && let ExprKind::Int(number) = comparison.with.kind
        {
            compared += 1;
            cuts.extend([number, number.saturating_add(1)]);
        }
    });
    if !by_name || mentions != compared {
        return Soak::Every;
    }
    cuts.sort_unstable();
    cuts.dedup();
    Soak::Cuts(cuts)
}
