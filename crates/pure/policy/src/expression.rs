//! A gate's expression, checked against a context's shape, and what it needs to know of the time.

use kardinal_cel::ast::{Expr, ExprKind};
use kardinal_cel::{CompileError, PathStep, Program, Reference, parse, render_error};

use crate::context::Context;
use crate::labels::with_lenient_labels;
use crate::language::Language;
use crate::samples::check_types;
use crate::schedule::SCHEDULE;
use crate::tree::{comparison, walk};
use crate::truth::check_truth;

/// The field that errors are shown under.
const FIELD: &str = "spec.expression";
/// More than a person reads; a status must stay small.
const MAX_RENDERED: usize = 4096;

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
    pub(crate) reads: Reads,
}

/// What an expression reads of what changes with the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The numbers that grow, by their paths.
    elapsed: Vec<(Vec<&'static str>, Need)>,
    /// The parts of `schedule`.
    pub(crate) schedule: ScheduleReads,
}

/// The parts of `schedule` that an expression reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduleReads {
    pub(crate) is_weekend: bool,
    pub(crate) day: bool,
    pub(crate) hour: bool,
    pub(crate) minute: bool,
}

/// How a number that grows matters to an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// Not at all.
    Unused,
    /// Only whether it has reached these numbers, in ascending order.
    Cuts(Vec<i64>),
    /// Every number may matter.
    Every,
}

impl Reads {
    fn of(language: &Language, tree: &Expr, references: &[Reference]) -> Reads {
        let scheduled = |field: &'static str| reads(references, &[SCHEDULE, field]);
        let elapsed = language.elapsed().into_iter().map(|path| {
            let need = need(tree, references, &path);
            (path, need)
        });
        Reads {
            elapsed: elapsed.collect(),
            schedule: ScheduleReads {
                is_weekend: scheduled("isWeekend"),
                day: scheduled("dayOfWeek"),
                hour: scheduled("hour"),
                minute: scheduled("minute"),
            },
        }
    }

    /// How the number under this path matters, one name after the other.
    pub fn need(&self, path: &[&str]) -> Need {
        let found = self.elapsed.iter().find(|(known, _)| known == path);
        found.map_or(Need::Unused, |(_, need)| need.clone())
    }

    /// Whether any part of `schedule` matters.
    pub fn has_schedule(&self) -> bool {
        self.schedule != ScheduleReads::default()
    }
}

impl Expression {
    /// Compiles the text.
    pub(crate) fn compile(language: &Language, source: &str) -> Result<Expression, Vec<CompileError>> {
        let tree = parse(source).map_err(|error| vec![error])?;
        let plain = language.env.compile(source)?;
        let references = plain.references().to_vec();
        let mut errors = language.check_references(&references);
        errors.extend(language.check_literals(&tree));
        errors.extend(check_truth(language, &tree));
        if !errors.is_empty() {
            return Err(errors);
        }
        let lenient = with_lenient_labels(language, source, &tree);
        let program = if lenient == source { plain } else { language.env.compile(&lenient)? };
        let reads = Reads::of(language, &tree, &references);
        Ok(Expression { source: source.to_owned(), tree, references, program, reads })
    }
}

/// Whether the expression compiles against contexts of this kind, and its parts work on the types that they have. The error
/// is rendered under the line it is about, with a caret.
pub fn check_expression<C: Context>(expression: &str) -> Result<(), String> {
    let language = Language::of(C::SHAPE);
    let checked = Expression::compile(&language, expression).and_then(|compiled| {
        let errors = check_types(&language, expression, &compiled.tree);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    });
    checked.map_err(|errors| {
        let rendered = render_error(expression, FIELD, &errors);
        if rendered.len() <= MAX_RENDERED { rendered } else { one_line(&errors) }
    })
}

/// What an expression reads of what changes with the time. One that does not compile reads nothing.
pub fn reads_of<C: Context>(expression: &str) -> Reads {
    let compiled = Expression::compile(&Language::of(C::SHAPE), expression);
    compiled.map(|expression| expression.reads).unwrap_or_default()
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

/// Whether a reference may read what is under this path: by name, by a computed key, or with the whole.
fn reads(references: &[Reference], path: &[&str]) -> bool {
    references.iter().any(|reference| may_read(reference, path))
}

fn may_read(reference: &Reference, path: &[&str]) -> bool {
    let Some((root, fields)) = path.split_first() else { return false };
    let leads_there = |(step, field): (&PathStep, &&str)| match step {
        PathStep::Any => true,
        PathStep::Field(name) | PathStep::Key(name) => name == field,
        PathStep::Index(_) => false,
    };
    reference.root == *root && reference.path.iter().zip(fields).all(leads_there)
}

/// Whether a reference names every part of a path that it may read.
fn is_by_name(reference: &Reference, path: &[&str]) -> bool {
    let named = |step: &PathStep| matches!(step, PathStep::Field(_) | PathStep::Key(_));
    let steps = path.len().saturating_sub(1);
    reference.path.len() >= steps && reference.path.iter().take(steps).all(named)
}

/// When every mention of a number that grows is compared with a whole number, only reaching these numbers can matter.
fn need(tree: &Expr, references: &[Reference], path: &[&str]) -> Need {
    let mut reading = references.iter().filter(|reference| may_read(reference, path)).peekable();
    if reading.peek().is_none() {
        return Need::Unused;
    }
    let by_name = reading.all(|reference| is_by_name(reference, path));
    let last = path.last().copied().unwrap_or_default();
    let (mut mentions, mut compared, mut cuts) = (0_usize, 0_usize, Vec::new());
    walk(tree, &mut |expr, bound| {
        match &expr.kind {
            ExprKind::Select { field, .. } | ExprKind::Has { field, .. } if field == last => mentions += 1,
            ExprKind::String(text) if text == last => mentions += 1,
            _ => {}
        }
        if let Some(comparison) = comparison(expr, bound)
            && comparison.names == path
            && let ExprKind::Int(number) = comparison.with.kind
        {
            compared += 1;
            cuts.extend([number, number.saturating_add(1)]);
        }
    });
    if !by_name || mentions != compared {
        return Need::Every;
    }
    cuts.sort_unstable();
    cuts.dedup();
    Need::Cuts(cuts)
}
