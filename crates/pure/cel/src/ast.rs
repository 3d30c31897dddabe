//! The syntax tree of an expression, as written: macros stay whole and nothing is resolved yet.
//!
//! The parser keeps every tree within [`MAX_DEPTH`] and [`MAX_NODES`], so code that walks, clones or drops a tree
//! may recurse. Whoever builds trees in another way has to keep to the same bounds.

use crate::span::Span;

/// How many expressions may enclose one another. Left-leaning chains (`a.b.c`) count one level per link.
pub const MAX_DEPTH: u32 = 250;
/// How many expressions one source may hold in all.
pub const MAX_NODES: u32 = 20_000;
/// How many bytes one source may have.
pub const MAX_SOURCE_BYTES: usize = 64 * 1024;

/// An expression and the range of the source it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub kind: ExprKind,
}

/// The forms of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`, `0xff`; a minus directly before the literal is part of it.
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.5`, `1e9`
    Double(f64),
    /// A string literal with its escapes resolved.
    String(String),
    /// A bytes literal with its escapes resolved.
    Bytes(Vec<u8>),
    /// `a`; `.a` is absolute, which means it is looked up past every loop variable.
    Ident {
        /// The name without a leading dot.
        name: String,
        /// Whether a dot was written before it.
        absolute: bool,
    },
    /// `a.b`, and `a.?b` when optional.
    Select {
        /// What is selected from.
        operand: Box<Expr>,
        /// The field's name, without backticks.
        field: String,
        /// Whether it was written `.?`.
        optional: bool,
    },
    /// `has(a.b)`, and `has(a.?b)` when optional.
    Has {
        /// What is selected from.
        operand: Box<Expr>,
        /// The field's name, without backticks.
        field: String,
        /// Whether it was written `.?`.
        optional: bool,
    },
    /// `a[b]`, and `a[?b]` when optional.
    Index {
        /// What is indexed.
        operand: Box<Expr>,
        /// The key or position.
        index: Box<Expr>,
        /// Whether it was written `[?`.
        optional: bool,
    },
    /// `f(x)`, and `a.f(x)` with a target. A namespaced function such as `math.greatest` has the target `math`.
    Call {
        /// What stands before the dot.
        target: Option<Box<Expr>>,
        /// The function's name; functions have no scopes, so a leading dot (`.f(x)`) is dropped.
        function: String,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `!a`
    Not(Box<Expr>),
    /// `-a` of something that is not a literal number.
    Negate(Box<Expr>),
    /// Arithmetic, comparison and membership.
    Binary {
        /// Which operation.
        op: BinaryOp,
        /// The left side.
        left: Box<Expr>,
        /// The right side.
        right: Box<Expr>,
    },
    /// `a && b && c`: two or more terms.
    And(Vec<Expr>),
    /// `a || b || c`: two or more terms.
    Or(Vec<Expr>),
    /// `test ? then : otherwise`
    Conditional {
        /// The condition.
        test: Box<Expr>,
        /// The value when it holds.
        then: Box<Expr>,
        /// The value when it does not.
        otherwise: Box<Expr>,
    },
    /// `[a, ?b]`
    List(Vec<ListEntry>),
    /// `{a: b, ?c: d}`
    Map(Vec<MapEntry>),
    /// `a.b.C{field: value}`
    Message {
        /// The dotted name; a leading dot is kept.
        name: String,
        /// The fields in the order written.
        fields: Vec<FieldEntry>,
    },
    /// A macro that binds variables.
    Comprehension(Box<Comprehension>),
}

/// The binary operators that evaluate both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `in`
    In,
}

impl BinaryOp {
    /// The operator as it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::In => "in",
        }
    }
}

/// One element of a list literal.
#[derive(Clone, Debug, PartialEq)]
pub struct ListEntry {
    /// The element.
    pub value: Expr,
    /// Written `?value`: an optional whose absence leaves the element out.
    pub optional: bool,
}

/// One entry of a map literal.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry {
    /// The key.
    pub key: Expr,
    /// The value.
    pub value: Expr,
    /// Written `?key: value`: an optional whose absence leaves the entry out.
    pub optional: bool,
}

/// One field of a message literal.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldEntry {
    /// The field's name, without backticks.
    pub field: String,
    /// Where the name stands.
    pub span: Span,
    /// The value.
    pub value: Expr,
    /// Written `?field: value`: an optional whose absence leaves the field unset.
    pub optional: bool,
}

/// A macro that binds one or two variables. `range` is evaluated outside of their scope, `filter` and `body` inside.
#[derive(Clone, Debug, PartialEq)]
pub struct Comprehension {
    /// Which macro.
    pub kind: ComprehensionKind,
    /// What is walked over; the bound value of `cel.bind`; the optional of `optMap`.
    pub range: Expr,
    /// The first variable: the element, or with two variables the index or key.
    pub var: String,
    /// The second variable of the two-variable forms: the element or the value.
    pub var2: Option<String>,
    /// The condition of the forms that both select and transform (`map` with three arguments, `transform…` with four).
    pub filter: Option<Expr>,
    /// The condition (`all`, `exists`, `existsOne`, `filter`), the result (`map`, `transform…`, `bind`, `opt…`) or the
    /// sort key (`sortBy`).
    pub body: Expr,
}

/// The macros that bind variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ComprehensionKind {
    /// `range.all(x, p)`, `range.all(k, v, p)`
    All,
    /// `range.exists(x, p)`, `range.exists(k, v, p)`
    Exists,
    /// `range.exists_one(x, p)`, `range.existsOne(k, v, p)`
    ExistsOne,
    /// `range.map(x, t)`, `range.map(x, p, t)`
    Map,
    /// `range.filter(x, p)`
    Filter,
    /// `range.transformList(k, v, t)`, `range.transformList(k, v, p, t)`
    TransformList,
    /// `range.transformMap(k, v, t)`, `range.transformMap(k, v, p, t)`
    TransformMap,
    /// `range.transformMapEntry(k, v, t)`, `range.transformMapEntry(k, v, p, t)`
    TransformMapEntry,
    /// `cel.bind(x, value, t)`
    Bind,
    /// `optional.optMap(x, t)`
    OptMap,
    /// `optional.optFlatMap(x, t)`
    OptFlatMap,
    /// `range.sortBy(x, key)`
    SortBy,
}
