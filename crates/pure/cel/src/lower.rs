//! From the syntax tree to nodes that run: names become slots, functions become pointers, constants are folded and
//! literal patterns are compiled. It reports what cannot be resolved; it never looks at data.

mod names;

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;

use crate::ast::{BinaryOp, Comprehension, ComprehensionKind, Expr, ExprKind};
use crate::budget::{Context, Limits, compile_pattern};
use crate::env::Env;
use crate::error::CompileError;
use crate::eval::Machine;
use crate::functions::Function;
use crate::program::Scope;
use crate::span::Span;
use crate::time::Clock;
use crate::value::{Text, Value};

/// How many errors are reported for one expression.
const MAX_ERRORS: usize = 20;
/// What folding one constant part of an expression may cost; what costs more is left to the evaluation.
const FOLDING_COST: u64 = 1_000;
/// What folding all constant parts of an expression may cost together, which bounds the size of a program.
const ALL_FOLDING_COST: u64 = 10_000;
/// How many different literal patterns one expression may have.
const MAX_PATTERNS: usize = 100;

/// A part of a compiled expression.
pub(crate) struct Node {
    pub(crate) span: Span,
    pub(crate) op: Op,
}

/// What a node does.
pub(crate) enum Op {
    Const(Value<'static>),
    /// A call of a function that does not exist, where that is allowed.
    Unknown(String),
    Now,
    /// A variable of the scope, by its slot.
    Variable(usize),
    /// A variable that a macro binds, by its position among the bound ones.
    Local(usize),
    Select(Box<Select>),
    Index(Box<Index>),
    Call(&'static Function, Box<[Node]>),
    /// `matches` with a literal pattern.
    Matches(Box<(Node, Regex)>),
    /// `a.or(b)` and, with `true`, `a.orValue(b)`: the second is looked at only when the first has no value.
    Otherwise(Box<(Node, Node)>, bool),
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(BinaryOp, Box<(Node, Node)>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    Conditional(Box<(Node, Node, Node)>),
    List(Box<[Item]>),
    Map(Box<[Entry]>),
    Loop(Box<Loop>),
}

/// What is done with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// `.?`
    Optional,
    /// `has()`
    Test,
}

pub(crate) struct Select {
    pub(crate) operand: Node,
    pub(crate) field: Arc<str>,
    pub(crate) access: Access,
}

pub(crate) struct Index {
    pub(crate) operand: Node,
    pub(crate) index: Node,
    pub(crate) optional: bool,
}

pub(crate) struct Item {
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) optional: bool,
}

/// A macro that binds variables. They take the positions `first` and, with two of them, `first + 1`.
pub(crate) struct Loop {
    pub(crate) kind: ComprehensionKind,
    pub(crate) range: Node,
    pub(crate) two: bool,
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

/// A lowered expression.
pub(crate) struct Lowered {
    pub(crate) root: Node,
    /// The variables by slot.
    pub(crate) variables: Vec<String>,
    /// The first names of the variables as they are written, which differ for variables of a namespace.
    pub(crate) roots: BTreeSet<String>,
    pub(crate) uses_now: bool,
}

/// Lowers an expression or says everything that is wrong with it.
pub(crate) fn lower(env: &Env, expr: &Expr) -> Result<Lowered, Vec<CompileError>> {
    let mut lowering = Lowering {
        env,
        locals: Vec::new(),
        variables: Vec::new(),
        roots: BTreeSet::new(),
        uses_now: false,
        folding_left: ALL_FOLDING_COST,
        patterns: Vec::new(),
        errors: Vec::new(),
    };
    let root = lowering.expr(expr);
    if lowering.errors.is_empty() {
        let Lowering { variables, roots, uses_now, .. } = lowering;
        Ok(Lowered { root, variables, roots, uses_now })
    } else {
        lowering.errors.sort_by_key(|error| error.span);
        Err(lowering.errors)
    }
}

struct Lowering<'e> {
    env: &'e Env,
    locals: Vec<&'e str>,
    variables: Vec<String>,
    roots: BTreeSet<String>,
    uses_now: bool,
    folding_left: u64,
    patterns: Vec<Regex>,
    errors: Vec<CompileError>,
}

impl<'e> Lowering<'e> {
    fn expr(&mut self, expr: &'e Expr) -> Node {
        let op = self.op(expr);
        self.fold(Node { span: expr.span, op })
    }

    /// Replaces a node whose operands are all constant by its value. What fails is kept, so that it fails when it runs.
    fn fold(&mut self, node: Node) -> Node {
        if !foldable(&node.op) {
            return node;
        }
        let cost = FOLDING_COST.min(self.folding_left);
        let mut machine = Machine::new(&[], &Nothing, Context::new(&Limits { cost }, Clock::new(0, false)));
        let result = machine.run(&node);
        self.folding_left -= machine.into_context().spent();
        match result {
            Ok(value) => Node { span: node.span, op: Op::Const(value) },
            Err(_) => node,
        }
    }

    /// The compiled form of a literal pattern.
    fn pattern(&mut self, pattern: &str) -> Result<Regex, String> {
        if let Some(known) = self.patterns.iter().find(|known| known.as_str() == pattern) {
            return Ok(known.clone());
        }
        if self.patterns.len() >= MAX_PATTERNS {
            return Err(format!("an expression may have at most {MAX_PATTERNS} regular expressions"));
        }
        let compiled = compile_pattern(pattern)?;
        self.patterns.push(compiled.clone());
        Ok(compiled)
    }

    fn report(&mut self, error: CompileError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    fn boxed(&mut self, expr: &'e Expr) -> Box<Node> {
        Box::new(self.expr(expr))
    }

    fn all(&mut self, exprs: &'e [Expr]) -> Box<[Node]> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn op(&mut self, expr: &'e Expr) -> Op {
        match &expr.kind {
            ExprKind::Null => Op::Const(Value::Null),
            ExprKind::Bool(value) => Op::Const(Value::Bool(*value)),
            ExprKind::Int(value) => Op::Const(Value::Int(*value)),
            ExprKind::Uint(value) => Op::Const(Value::Uint(*value)),
            ExprKind::Double(value) => Op::Const(Value::Double(*value)),
            ExprKind::String(text) => Op::Const(Value::String(Text::Shared(text.as_str().into()))),
            ExprKind::Bytes(bytes) => Op::Const(Value::Bytes(bytes.as_slice().into())),
            ExprKind::Ident { name, absolute } => self.ident(expr.span, name, *absolute),
            ExprKind::Select { operand, field, optional } => {
                if let Some(op) = self.qualified(expr) {
                    return op;
                }
                let access = if *optional { Access::Optional } else { Access::Read };
                self.select(operand, field, access)
            }
            // `has(a.?b)` asks whether the optional has a value, which is the same question.
            ExprKind::Has { operand, field, .. } => self.select(operand, field, Access::Test),
            ExprKind::Index { operand, index, optional } => {
                let (operand, index) = (self.expr(operand), self.expr(index));
                Op::Index(Box::new(Index { operand, index, optional: *optional }))
            }
            ExprKind::Call { target, function, args } => {
                self.call(expr.span, target.as_deref(), function, args)
            }
            ExprKind::Not(operand) => Op::Not(self.boxed(operand)),
            ExprKind::Negate(operand) => Op::Negate(self.boxed(operand)),
            ExprKind::Binary { op, left, right } => {
                Op::Binary(*op, Box::new((self.expr(left), self.expr(right))))
            }
            ExprKind::And(terms) => Op::And(self.all(terms)),
            ExprKind::Or(terms) => Op::Or(self.all(terms)),
            ExprKind::Conditional { test, then, otherwise } => {
                Op::Conditional(Box::new((self.expr(test), self.expr(then), self.expr(otherwise))))
            }
            ExprKind::List(_) | ExprKind::Map(_) => self.literal(expr),
            ExprKind::Message { name, .. } => {
                self.report(CompileError::new(expr.span, format!("unknown message type `{name}`")));
                Op::Const(Value::Null)
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn literal(&mut self, expr: &'e Expr) -> Op {
        match &expr.kind {
            ExprKind::List(entries) => {
                let items = entries
                    .iter()
                    .map(|entry| Item { value: self.expr(&entry.value), optional: entry.optional });
                Op::List(items.collect())
            }
            ExprKind::Map(entries) => {
                let entries = entries.iter().map(|entry| {
                    let (key, value) = (self.expr(&entry.key), self.expr(&entry.value));
                    Entry { key, value, optional: entry.optional }
                });
                Op::Map(entries.collect())
            }
            _ => Op::Const(Value::Null),
        }
    }

    fn select(&mut self, operand: &'e Expr, field: &str, access: Access) -> Op {
        let operand = self.expr(operand);
        Op::Select(Box::new(Select { operand, field: field.into(), access }))
    }

    fn comprehension(&mut self, comprehension: &'e Comprehension) -> Op {
        let range = self.expr(&comprehension.range);
        let depth = self.locals.len();
        self.locals.push(&comprehension.var);
        if let Some(second) = &comprehension.var2 {
            self.locals.push(second);
        }
        let filter = comprehension.filter.as_ref().map(|filter| self.expr(filter));
        let body = self.expr(&comprehension.body);
        self.locals.truncate(depth);
        Op::Loop(Box::new(Loop {
            kind: comprehension.kind,
            range,
            two: comprehension.var2.is_some(),
            filter,
            body,
        }))
    }

    /// A call of `matches` with a literal pattern gets its pattern compiled here, and calls that must not evaluate all
    /// of their arguments become nodes of their own.
    fn resolved_call(&mut self, function: &'static Function, mut args: Vec<Node>) -> Op {
        if matches!(function.name, "or" | "orValue")
            && let Some(other) = args.pop()
            && let Some(optional) = args.pop()
        {
            return Op::Otherwise(Box::new((optional, other)), function.name == "orValue");
        }
        if function.name == "matches"
            && let [_, Node { span, op: Op::Const(Value::String(pattern)) }] = args.as_slice()
        {
            match self.pattern(pattern) {
                Ok(regex) => {
                    args.truncate(1);
                    if let Some(text) = args.pop() {
                        return Op::Matches(Box::new((text, regex)));
                    }
                }
                Err(message) => {
                    let error = CompileError::new(*span, message);
                    self.report(error);
                }
            }
        }
        Op::Call(function, args.into_boxed_slice())
    }
}

/// A scope without variables, for constants.
struct Nothing;

impl Scope for Nothing {
    fn get(&self, _name: &str) -> Option<&serde_json::Value> {
        None
    }

    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
}

fn foldable(op: &Op) -> bool {
    match op {
        Op::Const(_) | Op::Unknown(_) | Op::Now | Op::Variable(_) | Op::Local(_) | Op::Loop(_) => false,
        Op::Select(select) => is_const(&select.operand),
        Op::Index(index) => is_const(&index.operand) && is_const(&index.index),
        Op::Call(_, args) => args.iter().all(is_const),
        Op::Matches(parts) => is_const(&parts.0),
        Op::Otherwise(parts, _) => is_const(&parts.0) && is_const(&parts.1),
        Op::Not(operand) | Op::Negate(operand) => is_const(operand),
        Op::Binary(_, sides) => is_const(&sides.0) && is_const(&sides.1),
        Op::And(terms) | Op::Or(terms) => terms.iter().all(is_const),
        Op::Conditional(parts) => is_const(&parts.0) && is_const(&parts.1) && is_const(&parts.2),
        Op::List(items) => items.iter().all(|item| is_const(&item.value)),
        Op::Map(entries) => entries.iter().all(|entry| is_const(&entry.key) && is_const(&entry.value)),
    }
}

fn is_const(node: &Node) -> bool {
    matches!(node.op, Op::Const(_))
}
