//! Running a compiled expression. Every node costs one; recursion is bounded because the parser bounds the depth of
//! what it reads. It resolves no names and knows no function: both were settled when the expression was compiled.

mod access;
mod loops;
mod operators;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::budget::Context;
use crate::fault::EvalErrorKind;
use crate::fault::{Fault, at, fault, mismatch, missing};
use crate::functions::Function;
use crate::lower::{Entry, Item, Node, Op};
use crate::program::Scope;
use crate::value::{Key, Map, Value};

/// How many variables are kept without allocating.
const INLINE_SLOTS: usize = 4;

/// The state of one evaluation.
pub(crate) struct Machine<'p, 'a> {
    variables: &'p [String],
    scope: &'a dyn Scope,
    slots: [Option<Value<'a>>; INLINE_SLOTS],
    more_slots: Vec<Option<Value<'a>>>,
    locals: Vec<Value<'a>>,
    pub(crate) context: Context,
}

/// An operand: constants are looked at where they are, everything else was computed.
enum Operand<'n, 'a> {
    Constant(&'n Value<'a>),
    Computed(Value<'a>),
}

impl<'a> Deref for Operand<'_, 'a> {
    type Target = Value<'a>;

    #[inline]
    fn deref(&self) -> &Value<'a> {
        match self {
            Operand::Constant(value) => value,
            Operand::Computed(value) => value,
        }
    }
}

impl<'a> Operand<'_, 'a> {
    fn into_value(self) -> Value<'a> {
        match self {
            Operand::Constant(value) => value.clone(),
            Operand::Computed(value) => value,
        }
    }
}

impl<'p, 'a> Machine<'p, 'a> {
    /// A machine for one evaluation of a program with these variables.
    pub(crate) fn new(variables: &'p [String], scope: &'a dyn Scope, context: Context) -> Machine<'p, 'a> {
        Machine {
            variables,
            scope,
            slots: [None, None, None, None],
            more_slots: Vec::new(),
            locals: Vec::new(),
            context,
        }
    }

    /// What is left of the budget and what the clock saw.
    pub(crate) fn into_context(self) -> Context {
        self.context
    }

    /// The value of a whole expression.
    pub(crate) fn run(&mut self, node: &Node) -> Result<Value<'a>, Fault> {
        self.eval(node)
    }

    fn eval(&mut self, node: &Node) -> Result<Value<'a>, Fault> {
        let result = match self.context.charge(1) {
            Ok(()) => self.dispatch(node),
            Err(fault) => Err(fault),
        };
        match result {
            Ok(value) => Ok(value),
            Err(fault) => Err(at(fault, node.span)),
        }
    }

    /// Every arm is a call, so that the frame of this function, which recursion multiplies, stays small.
    fn dispatch(&mut self, node: &Node) -> Result<Value<'a>, Fault> {
        match &node.op {
            Op::Const(value) => Ok(value.clone()),
            Op::Unknown(name) => Err(mismatch(format!("unknown function `{name}`"))),
            Op::Now => self.context.clock.now().map(Value::Timestamp),
            Op::Variable(slot) => self.variable(*slot),
            Op::Local(position) => Ok(self.local(*position)),
            Op::Select(select) => self.select(select),
            Op::Index(index) => self.index(index),
            Op::Call(function, args) => self.call(function, args),
            Op::Matches(parts) => self.matches(&parts.0, &parts.1),
            Op::Otherwise(parts, unwraps) => self.otherwise(&parts.0, &parts.1, *unwraps),
            Op::Not(operand) => self.not(operand),
            Op::Negate(operand) => self.negate(operand),
            Op::Binary(op, sides) => self.binary(*op, &sides.0, &sides.1),
            Op::And(terms) => self.logic(terms, false),
            Op::Or(terms) => self.logic(terms, true),
            Op::Conditional(parts) => self.conditional(&parts.0, &parts.1, &parts.2),
            Op::List(items) => self.list(items),
            Op::Map(entries) => self.map(entries),
            Op::Loop(each) => self.comprehension(each),
        }
    }

    /// An operand that is only looked at; constants are not cloned for it.
    #[inline]
    fn operand<'n>(&mut self, node: &'n Node) -> Result<Operand<'n, 'a>, Fault> {
        match &node.op {
            Op::Const(value) => Ok(Operand::Constant(value)),
            _ => self.eval(node).map(Operand::Computed),
        }
    }

    fn local(&self, position: usize) -> Value<'a> {
        self.locals.get(position).cloned().unwrap_or(Value::Null)
    }

    fn variable(&mut self, slot: usize) -> Result<Value<'a>, Fault> {
        let known = match self.slots.get(slot) {
            Some(known) => known.as_ref(),
            None => self.more_slots.get(slot - INLINE_SLOTS).and_then(Option::as_ref),
        };
        match known {
            Some(value) => Ok(value.clone()),
            None => self.bind(slot),
        }
    }

    fn bind(&mut self, slot: usize) -> Result<Value<'a>, Fault> {
        let name = self.variables.get(slot).map_or("", String::as_str);
        let value = self.scope.value(name).ok_or_else(|| missing(format!("`{name}` has no value yet")))?;
        match self.slots.get_mut(slot) {
            Some(place) => *place = Some(value.clone()),
            None => {
                let slot = slot - INLINE_SLOTS;
                if self.more_slots.len() <= slot {
                    self.more_slots.resize(slot + 1, None);
                }
                if let Some(place) = self.more_slots.get_mut(slot) {
                    *place = Some(value.clone());
                }
            }
        }
        Ok(value)
    }

    fn call(&mut self, function: &'static Function, args: &[Node]) -> Result<Value<'a>, Fault> {
        match args {
            [only] => {
                let args = [self.eval(only)?];
                (function.call)(&mut self.context, &args)
            }
            [first, second] => {
                let args = [self.eval(first)?, self.eval(second)?];
                (function.call)(&mut self.context, &args)
            }
            _ => {
                let mut values = Vec::with_capacity(args.len());
                for arg in args {
                    values.push(self.eval(arg)?);
                }
                (function.call)(&mut self.context, &values)
            }
        }
    }

    fn matches(&mut self, text: &Node, pattern: &regex::Regex) -> Result<Value<'a>, Fault> {
        let text = self.operand(text)?;
        match &*text {
            Value::String(text) => {
                self.context.charge_match(text, pattern.as_str())?;
                Ok(Value::Bool(pattern.is_match(text)))
            }
            other => Err(mismatch(format!("`matches` takes a string, not {}", other.type_name()))),
        }
    }

    fn otherwise(&mut self, optional: &Node, other: &Node, unwraps: bool) -> Result<Value<'a>, Fault> {
        let name = if unwraps { "orValue" } else { "or" };
        match self.eval(optional)? {
            Value::Optional(Some(value)) if unwraps => Ok((*value).clone()),
            value @ Value::Optional(Some(_)) => Ok(value),
            Value::Optional(None) => match self.eval(other)? {
                value if unwraps || matches!(value, Value::Optional(_)) => Ok(value),
                value => Err(mismatch(format!("`{name}` takes an optional, not {}", value.type_name()))),
            },
            value => Err(mismatch(format!("`{name}` works on an optional, not {}", value.type_name()))),
        }
    }

    fn not(&mut self, operand: &Node) -> Result<Value<'a>, Fault> {
        match &*self.operand(operand)? {
            Value::Bool(value) => Ok(Value::Bool(!value)),
            other => Err(mismatch(format!("`!` takes a bool, not {}", other.type_name()))),
        }
    }

    /// `&&` and `||`: a term that decides wins over terms that fail, wherever it stands.
    fn logic(&mut self, terms: &[Node], decisive: bool) -> Result<Value<'a>, Fault> {
        let mut failure = None;
        for term in terms {
            match self.truth(term) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(fault) => absorb(&mut failure, fault)?,
            }
        }
        match failure {
            Some(fault) => Err(fault),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    /// A term of a condition, which has to be a bool.
    fn truth(&mut self, node: &Node) -> Result<bool, Fault> {
        match self.eval(node)? {
            Value::Bool(value) => Ok(value),
            other => {
                Err(at(mismatch(format!("a condition must be a bool, not {}", other.type_name())), node.span))
            }
        }
    }

    fn conditional(&mut self, test: &Node, then: &Node, otherwise: &Node) -> Result<Value<'a>, Fault> {
        if self.truth(test)? { self.eval(then) } else { self.eval(otherwise) }
    }

    fn list(&mut self, items: &[Item]) -> Result<Value<'a>, Fault> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            let value = self.eval(&item.value)?;
            if item.optional {
                list.extend(present(value).map_err(|fault| at(fault, item.value.span))?);
            } else {
                list.push(value);
            }
        }
        Ok(Value::list(list))
    }

    fn map(&mut self, entries: &[Entry]) -> Result<Value<'a>, Fault> {
        let mut map = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let key = Key::of(&key).map_err(|fault| at(fault, entry.key.span))?;
            let value = self.eval(&entry.value)?;
            let value = if entry.optional {
                present(value).map_err(|fault| at(fault, entry.value.span))?
            } else {
                Some(value)
            };
            if let Some(value) = value {
                insert_new(&mut map, key, value).map_err(|fault| at(fault, entry.key.span))?;
            }
        }
        Ok(Value::Map(Map::Shared(Arc::new(map))))
    }
}

/// Puts an entry into a map that is being built; a key that stands twice is an error.
fn insert_new<'a>(
    map: &mut BTreeMap<Key<'a>, Value<'a>>,
    key: Key<'a>,
    value: Value<'a>,
) -> Result<(), Fault> {
    match map.entry(key) {
        std::collections::btree_map::Entry::Vacant(place) => {
            place.insert(value);
            Ok(())
        }
        std::collections::btree_map::Entry::Occupied(place) => {
            let key = place.key().clone().into_value();
            let key = operators::short(&key);
            Err(fault(EvalErrorKind::Argument, format!("the key {key} stands twice in the map")))
        }
    }
}

/// What an optional entry of a literal contributes.
fn present(value: Value<'_>) -> Result<Option<Value<'_>>, Fault> {
    match value {
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        other => Err(mismatch(format!("an entry with `?` takes an optional, not {}", other.type_name()))),
    }
}

/// Keeps the first failure of several; running out of budget is never absorbed.
fn absorb(failure: &mut Option<Fault>, fault: Fault) -> Result<(), Fault> {
    if fault.kind == EvalErrorKind::Budget {
        return Err(fault);
    }
    failure.get_or_insert(fault);
    Ok(())
}
