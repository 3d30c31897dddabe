//! Tokens to a syntax tree, by recursive descent within bounds. The parser knows the grammar and the macros, and
//! nothing about which names exist.
//!
//! Hostile text must not exhaust the stack. Three things see to that: nesting that recurses here is counted (in
//! `expr`), operators of any length are read with a stack on the heap (`chain`), and every node knows its depth, so that
//! no tree deeper than [`MAX_DEPTH`] ever exists, not even to be dropped.

use crate::ast::{
    BinaryOp, Expr, ExprKind, FieldEntry, ListEntry, MAX_DEPTH, MAX_NODES, MAX_SOURCE_BYTES, MapEntry,
};
use crate::error::CompileError;
use crate::lexer::{self, Lexer, Token, TokenKind, literal};
use crate::macros;
use crate::span::Span;

mod number;

/// Parses one expression. The first thing that is wrong is the error.
pub fn parse(source: &str) -> Result<Expr, CompileError> {
    if source.len() > MAX_SOURCE_BYTES {
        let place = lexer::span(MAX_SOURCE_BYTES, source.len());
        let message =
            format!("expression has {} bytes, at most {MAX_SOURCE_BYTES} are allowed", source.len());
        return Err(CompileError::new(place, message));
    }
    whole(source).map_err(|error| *error)
}

fn whole(source: &str) -> Parsed<Expr> {
    let mut parser = Parser::new(source)?;
    let node = parser.expr()?;
    match parser.token.kind {
        TokenKind::End => Ok(*node.expr),
        _ => Err(parser.unexpected("an operator or the end of the expression")),
    }
}

/// An expression and how deep it is. It is boxed, as errors are, to keep the frames of the recursion small.
struct Node {
    expr: Box<Expr>,
    depth: u32,
}

struct Parser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    /// The token to be read next.
    token: Token,
    /// Where the token before it stood.
    previous: Span,
    nesting: u32,
    nodes: u32,
}

type Parsed<T> = Result<T, Box<CompileError>>;

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Parsed<Parser<'s>> {
        let mut lexer = Lexer::new(source);
        let token = lexer.next()?;
        Ok(Parser { source, lexer, token, previous: Span::default(), nesting: 0, nodes: 0 })
    }

    fn bump(&mut self) -> Parsed<Token> {
        let token = self.token;
        self.token = self.lexer.next()?;
        self.previous = token.span;
        Ok(token)
    }

    fn take(&mut self, kind: TokenKind) -> Parsed<bool> {
        let here = self.token.kind == kind;
        if here {
            self.bump()?;
        }
        Ok(here)
    }

    fn expect(&mut self, kind: TokenKind, wanted: &str) -> Parsed<Token> {
        if self.token.kind == kind { self.bump() } else { Err(self.unexpected(wanted)) }
    }

    fn text(&self, token: Token) -> &'s str {
        token.span.text(self.source)
    }

    fn unexpected(&self, wanted: &str) -> Box<CompileError> {
        let text = self.text(self.token);
        let message = match self.token.kind {
            TokenKind::End => format!("expected {wanted}, found the end of the expression"),
            TokenKind::Reserved => format!("expected {wanted}, found the reserved word `{text}`"),
            TokenKind::String | TokenKind::Bytes => format!("expected {wanted}, found a string"),
            _ => format!("expected {wanted}, found `{text}`"),
        };
        CompileError::new(self.token.span, message).into()
    }

    fn too_deep(&self) -> Box<CompileError> {
        let message = format!("expression is nested too deeply, at most {MAX_DEPTH} levels are allowed");
        CompileError::new(self.previous, message)
            .with_hint(
                "split it into several expressions; chains such as `a + b + c` count one level per operator",
            )
            .into()
    }

    /// Makes a node above children of the given depth, within the bounds.
    fn node(&mut self, span: Span, kind: ExprKind, children: u32) -> Parsed<Node> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("expression is too large, at most {MAX_NODES} terms are allowed");
            return Err(CompileError::new(self.previous, message).into());
        }
        if children >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        Ok(Node { expr: Box::new(Expr { span, kind }), depth: children + 1 })
    }

    fn expr(&mut self) -> Parsed<Node> {
        self.nesting += 1;
        if self.nesting > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let mut node = self.operators()?;
        if self.token.kind == TokenKind::Question {
            node = self.conditional(node)?;
        }
        self.nesting -= 1;
        Ok(node)
    }

    fn conditional(&mut self, test: Node) -> Parsed<Node> {
        self.bump()?;
        let then = self.operators()?;
        self.expect(TokenKind::Colon, "`:` of the conditional")?;
        let otherwise = self.expr()?;
        let span = test.expr.span.to(otherwise.expr.span);
        let depth = test.depth.max(then.depth).max(otherwise.depth);
        let kind = ExprKind::Conditional { test: test.expr, then: then.expr, otherwise: otherwise.expr };
        self.node(span, kind, depth)
    }

    /// A chain of operands and operators, without a conditional. Operators wait on a stack until one that binds less
    /// tightly, or the end, comes.
    fn operators(&mut self) -> Parsed<Node> {
        let first = self.unary()?;
        let Some(operator) = Operator::of(self.token.kind) else {
            return Ok(first);
        };
        self.chain(first, operator)
    }

    fn chain(&mut self, first: Node, operator: Operator) -> Parsed<Node> {
        let mut operands = vec![first];
        let mut waiting: Vec<Operator> = Vec::new();
        let mut next = Some(operator);
        while let Some(operator) = next {
            while waiting.last().is_some_and(|last| last.goes_before(operator)) {
                self.reduce(&mut operands, &mut waiting)?;
            }
            waiting.push(operator);
            self.bump()?;
            operands.push(self.unary()?);
            next = Operator::of(self.token.kind);
        }
        while !waiting.is_empty() {
            self.reduce(&mut operands, &mut waiting)?;
        }
        operands.pop().ok_or_else(|| self.unexpected("an expression"))
    }

    /// Applies the operator on top of the stack; `&&` and `||` take all their terms at once.
    fn reduce(&mut self, operands: &mut Vec<Node>, waiting: &mut Vec<Operator>) -> Parsed<()> {
        let Some(operator) = waiting.pop() else { return Ok(()) };
        let mut terms = 2;
        if operator.level <= Operator::AND {
            while waiting.pop_if(|last| last.level == operator.level).is_some() {
                terms += 1;
            }
        }
        let taken = operands.split_off(operands.len().saturating_sub(terms));
        let depth = taken.iter().map(|node| node.depth).max().unwrap_or(0);
        let mut exprs: Vec<Expr> = taken.into_iter().map(|node| *node.expr).collect();
        let (Some(first), Some(last)) = (exprs.first(), exprs.last()) else { return Ok(()) };
        let span = first.span.to(last.span);
        let kind = match operator.binary {
            None if operator.level == Operator::AND => ExprKind::And(exprs),
            None => ExprKind::Or(exprs),
            Some(op) => {
                let (Some(right), Some(left)) = (exprs.pop(), exprs.pop()) else { return Ok(()) };
                ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) }
            }
        };
        operands.push(self.node(span, kind, depth)?);
        Ok(())
    }

    fn unary(&mut self) -> Parsed<Node> {
        match self.token.kind {
            TokenKind::Not | TokenKind::Minus => self.prefixed(),
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)
            }
        }
    }

    /// One or more `!` or `-`. A minus directly before a number is the number's sign.
    fn prefixed(&mut self) -> Parsed<Node> {
        let operator = self.token.kind;
        let mut starts = Vec::new();
        while self.token.kind == operator {
            starts.push(self.bump()?.span);
            if starts.len() > MAX_DEPTH as usize {
                return Err(self.too_deep());
            }
        }
        let signed =
            operator == TokenKind::Minus && matches!(self.token.kind, TokenKind::Int | TokenKind::Double);
        let sign = if signed { starts.pop() } else { None };
        let primary = match sign {
            Some(sign) => self.number(Some(sign))?,
            None => self.primary()?,
        };
        let mut node = self.postfix(primary)?;
        for start in starts.into_iter().rev() {
            let span = start.to(node.expr.span);
            let operand = node.expr;
            let kind =
                if operator == TokenKind::Not { ExprKind::Not(operand) } else { ExprKind::Negate(operand) };
            node = self.node(span, kind, node.depth)?;
        }
        Ok(node)
    }

    fn primary(&mut self) -> Parsed<Node> {
        match self.token.kind {
            TokenKind::LeftParen => self.parenthesised(),
            TokenKind::LeftBracket => self.list(),
            TokenKind::LeftBrace => self.map(),
            TokenKind::Ident | TokenKind::Dot => self.name(),
            TokenKind::Int | TokenKind::Uint | TokenKind::Double => self.number(None),
            _ => self.constant(),
        }
    }

    fn parenthesised(&mut self) -> Parsed<Node> {
        let open = self.bump()?.span;
        let mut node = self.expr()?;
        let close = self.expect(TokenKind::RightParen, "`)`")?.span;
        node.expr.span = open.to(close);
        Ok(node)
    }

    fn constant(&mut self) -> Parsed<Node> {
        let start = self.token.span.start as usize;
        let kind = match self.token.kind {
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::Null => ExprKind::Null,
            TokenKind::String => ExprKind::String(literal::string_value(self.source, start)?),
            TokenKind::Bytes => ExprKind::Bytes(literal::bytes_value(self.source, start)?),
            TokenKind::QuotedIdent => {
                let error = *self.unexpected("an expression");
                return Err(error.with_hint("backticks quote field names, as in `` a.`b-c` ``").into());
            }
            _ => return Err(self.unexpected("an expression")),
        };
        let span = self.bump()?.span;
        self.node(span, kind, 0)
    }

    fn number(&mut self, sign: Option<Span>) -> Parsed<Node> {
        let token = self.token;
        let span = sign.map_or(token.span, |sign| sign.to(token.span));
        let kind = number::value(token.kind, self.text(token), sign.is_some())
            .map_err(|message| CompileError::new(span, message))?;
        self.bump()?;
        self.node(span, kind, 0)
    }

    /// `a`, `.a`, `f(x)`, `.f(x)`
    fn name(&mut self) -> Parsed<Node> {
        let start = self.token.span;
        let absolute = self.take(TokenKind::Dot)?;
        let token = self.expect(TokenKind::Ident, "a name")?;
        let name = self.text(token).to_owned();
        if self.token.kind != TokenKind::LeftParen {
            return self.node(start.to(token.span), ExprKind::Ident { name, absolute }, 0);
        }
        let (args, depth) = self.arguments()?;
        let span = start.to(self.previous);
        let kind = if absolute {
            ExprKind::Call { target: None, function: name, args }
        } else {
            macros::call(None, name, args)?
        };
        self.node(span, kind, depth)
    }

    /// Everything that can follow an operand: `.b`, `.?b`, `.f(x)`, `[i]`, `[?i]`, `{field: x}`.
    fn postfix(&mut self, mut node: Node) -> Parsed<Node> {
        loop {
            node = match self.token.kind {
                TokenKind::Dot => self.select(node)?,
                TokenKind::LeftBracket => self.index(node)?,
                TokenKind::LeftBrace => match message_name(self.source, &node.expr) {
                    Some(name) => self.message(name, node.expr.span)?,
                    None => return Ok(node),
                },
                _ => return Ok(node),
            };
        }
    }

    fn select(&mut self, operand: Node) -> Parsed<Node> {
        self.bump()?;
        let optional = self.take(TokenKind::Question)?;
        let (field, quoted) = self.field()?;
        if self.token.kind == TokenKind::LeftParen && !optional && !quoted {
            return self.method(operand, field);
        }
        let span = operand.expr.span.to(self.previous);
        let kind = ExprKind::Select { operand: operand.expr, field, optional };
        self.node(span, kind, operand.depth)
    }

    fn method(&mut self, target: Node, function: String) -> Parsed<Node> {
        let (args, depth) = self.arguments()?;
        let span = target.expr.span.to(self.previous);
        let kind = macros::call(Some(target.expr), function, args)?;
        self.node(span, kind, depth.max(target.depth))
    }

    /// The name of a field and whether it stood in backticks. Reserved words are allowed here.
    fn field(&mut self) -> Parsed<(String, bool)> {
        let token = self.token;
        match token.kind {
            TokenKind::Ident | TokenKind::Reserved => {
                self.bump()?;
                Ok((self.text(token).to_owned(), false))
            }
            TokenKind::QuotedIdent => {
                self.bump()?;
                Ok((self.text(token).trim_matches('`').to_owned(), true))
            }
            TokenKind::True | TokenKind::False | TokenKind::Null | TokenKind::In => {
                let hint = format!("quote the name with backticks: `` `{}` ``", self.text(token));
                Err(self.unexpected("a field name").with_hint(hint).into())
            }
            _ => Err(self.unexpected("a field name")),
        }
    }

    fn index(&mut self, operand: Node) -> Parsed<Node> {
        self.bump()?;
        let optional = self.take(TokenKind::Question)?;
        let index = self.expr()?;
        let close = self.expect(TokenKind::RightBracket, "`]`")?.span;
        let span = operand.expr.span.to(close);
        let depth = operand.depth.max(index.depth);
        let kind = ExprKind::Index { operand: operand.expr, index: index.expr, optional };
        self.node(span, kind, depth)
    }

    /// `(a, b)` with the greatest depth among the arguments.
    fn arguments(&mut self) -> Parsed<(Vec<Expr>, u32)> {
        self.bump()?;
        let mut args = Vec::new();
        let mut depth = 0;
        if self.take(TokenKind::RightParen)? {
            return Ok((args, depth));
        }
        loop {
            let arg = self.expr()?;
            depth = depth.max(arg.depth);
            args.push(*arg.expr);
            if !self.take(TokenKind::Comma)? {
                break;
            }
        }
        self.expect(TokenKind::RightParen, "`,` or `)`")?;
        Ok((args, depth))
    }

    /// Whether another entry follows in a literal, given whether one has been read already; a trailing comma is fine.
    fn another(&mut self, close: TokenKind, any: bool, wanted: &str) -> Parsed<bool> {
        let comma = self.take(TokenKind::Comma)? == any;
        if self.token.kind == close {
            return Ok(false);
        }
        if comma { Ok(true) } else { Err(self.unexpected(wanted)) }
    }

    fn list(&mut self) -> Parsed<Node> {
        let open = self.bump()?.span;
        let mut entries = Vec::new();
        let mut depth = 0;
        while self.another(TokenKind::RightBracket, !entries.is_empty(), "`,` or `]`")? {
            let optional = self.take(TokenKind::Question)?;
            let value = self.expr()?;
            depth = depth.max(value.depth);
            entries.push(ListEntry { value: *value.expr, optional });
        }
        let close = self.bump()?.span;
        self.node(open.to(close), ExprKind::List(entries), depth)
    }

    fn map(&mut self) -> Parsed<Node> {
        let open = self.bump()?.span;
        let mut entries = Vec::new();
        let mut depth = 0;
        while self.another(TokenKind::RightBrace, !entries.is_empty(), "`,` or `}`")? {
            let optional = self.take(TokenKind::Question)?;
            let key = self.expr()?;
            self.expect(TokenKind::Colon, "`:` after the key")?;
            let value = self.expr()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push(MapEntry { key: *key.expr, value: *value.expr, optional });
        }
        let close = self.bump()?.span;
        self.node(open.to(close), ExprKind::Map(entries), depth)
    }

    fn message(&mut self, name: String, start: Span) -> Parsed<Node> {
        self.bump()?;
        let mut fields = Vec::new();
        let mut depth = 0;
        while self.another(TokenKind::RightBrace, !fields.is_empty(), "`,` or `}`")? {
            let optional = self.take(TokenKind::Question)?;
            let (field, _) = self.field()?;
            let span = self.previous;
            self.expect(TokenKind::Colon, "`:` after the field name")?;
            let value = self.expr()?;
            depth = depth.max(value.depth);
            fields.push(FieldEntry { field, span, value: *value.expr, optional });
        }
        let close = self.bump()?.span;
        self.node(start.to(close), ExprKind::Message { name, fields }, depth)
    }
}

/// An operator between two operands and how tightly it binds.
#[derive(Clone, Copy)]
struct Operator {
    level: u8,
    binary: Option<BinaryOp>,
}

impl Operator {
    const OR: u8 = 0;
    const AND: u8 = 1;
    const RELATION: u8 = 2;
    const SUM: u8 = 3;
    const PRODUCT: u8 = 4;

    fn of(kind: TokenKind) -> Option<Operator> {
        let (level, binary) = match kind {
            TokenKind::Or => (Operator::OR, None),
            TokenKind::And => (Operator::AND, None),
            TokenKind::Equal => (Operator::RELATION, Some(BinaryOp::Eq)),
            TokenKind::NotEqual => (Operator::RELATION, Some(BinaryOp::Ne)),
            TokenKind::Less => (Operator::RELATION, Some(BinaryOp::Lt)),
            TokenKind::LessEqual => (Operator::RELATION, Some(BinaryOp::Le)),
            TokenKind::Greater => (Operator::RELATION, Some(BinaryOp::Gt)),
            TokenKind::GreaterEqual => (Operator::RELATION, Some(BinaryOp::Ge)),
            TokenKind::In => (Operator::RELATION, Some(BinaryOp::In)),
            TokenKind::Plus => (Operator::SUM, Some(BinaryOp::Add)),
            TokenKind::Minus => (Operator::SUM, Some(BinaryOp::Sub)),
            TokenKind::Star => (Operator::PRODUCT, Some(BinaryOp::Mul)),
            TokenKind::Slash => (Operator::PRODUCT, Some(BinaryOp::Div)),
            TokenKind::Percent => (Operator::PRODUCT, Some(BinaryOp::Rem)),
            _ => return None,
        };
        Some(Operator { level, binary })
    }

    /// Whether this operator, standing to the left of the other, is applied first. The logical ones gather all terms of
    /// their level and so wait for one another.
    fn goes_before(self, other: Operator) -> bool {
        self.level > other.level || (self.level == other.level && self.level > Operator::AND)
    }
}

/// The dotted name that `expr` spells, if a message literal can begin with it.
fn message_name(source: &str, expr: &Expr) -> Option<String> {
    match &expr.kind {
        _ if source.as_bytes().get(expr.span.start as usize) == Some(&b'(') => None,
        ExprKind::Ident { name, absolute } => Some(if *absolute { format!(".{name}") } else { name.clone() }),
        ExprKind::Select { operand, field, optional: false } => {
            let quoted = expr.span.text(source).ends_with('`');
            if quoted { None } else { Some(format!("{}.{field}", message_name(source, operand)?)) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
