//! The macros that bind variables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::operators::short;
use super::{Machine, absorb, insert_new};
use crate::ast::ComprehensionKind;
use crate::fault::{Fault, at, mismatch};
use crate::functions::sort_by_keys;
use crate::lower::{Loop, Node};
use crate::value::{Key, Map, Value};

/// What is done after an element: go on, or stop.
enum Next {
    On,
    Stop,
}

impl<'a> Machine<'_, 'a> {
    pub(super) fn comprehension(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        match each.kind {
            ComprehensionKind::Bind => {
                let value = self.eval(&each.range)?;
                self.with_local(value, &each.body)
            }
            ComprehensionKind::OptMap | ComprehensionKind::OptFlatMap => self.optional(each),
            ComprehensionKind::All => self.decide(each, false),
            ComprehensionKind::Exists => self.decide(each, true),
            ComprehensionKind::ExistsOne => self.exists_one(each),
            ComprehensionKind::Map | ComprehensionKind::Filter | ComprehensionKind::TransformList => {
                self.collect(each)
            }
            ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => self.collect_map(each),
            ComprehensionKind::SortBy => self.sort_by(each),
        }
    }

    fn with_local(&mut self, value: Value<'a>, body: &Node) -> Result<Value<'a>, Fault> {
        let depth = self.locals.len();
        self.locals.push(value);
        let result = self.eval(body);
        self.locals.truncate(depth);
        result
    }

    fn optional(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        let name = if each.kind == ComprehensionKind::OptMap { "optMap" } else { "optFlatMap" };
        match self.eval(&each.range)? {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => {
                let result = self.with_local((*value).clone(), &each.body)?;
                match (each.kind, result) {
                    (ComprehensionKind::OptMap, result) => Ok(Value::some(result)),
                    (_, result @ Value::Optional(_)) => Ok(result),
                    (_, other) => Err(mismatch(format!(
                        "the result of `{name}` must be an optional, not {}",
                        other.type_name()
                    ))),
                }
            }
            other => Err(mismatch(format!("`{name}` works on an optional, not {}", other.type_name()))),
        }
    }

    /// Runs `step` for every element with the variables bound. The variables are unbound again whatever happens.
    fn walk(
        &mut self,
        each: &Loop,
        step: &mut dyn FnMut(&mut Self) -> Result<Next, Fault>,
    ) -> Result<(), Fault> {
        let range = self.eval(&each.range)?;
        let depth = self.locals.len();
        let result = self.walk_over(&range, each, depth, step);
        self.locals.truncate(depth);
        result
    }

    fn walk_over(
        &mut self,
        range: &Value<'a>,
        each: &Loop,
        depth: usize,
        step: &mut dyn FnMut(&mut Self) -> Result<Next, Fault>,
    ) -> Result<(), Fault> {
        match range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    self.locals.truncate(depth);
                    if each.two {
                        self.locals.push(Value::Int(index as i64));
                    }
                    self.locals.push(item);
                    self.context.charge(1)?;
                    if let Next::Stop = step(self)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(map) => {
                for (key, item) in map.iter() {
                    self.locals.truncate(depth);
                    self.locals.push(key.into_value());
                    if each.two {
                        self.locals.push(item);
                    }
                    self.context.charge(1)?;
                    if let Next::Stop = step(self)? {
                        break;
                    }
                }
                Ok(())
            }
            other => Err(at(
                mismatch(format!("only lists and maps can be walked over, not {}", other.type_name())),
                each.range.span,
            )),
        }
    }

    /// `all` and `exists`: an element that decides wins over elements that fail.
    fn decide(&mut self, each: &Loop, decisive: bool) -> Result<Value<'a>, Fault> {
        let mut decided = false;
        let mut failure = None;
        self.walk(each, &mut |machine| {
            match machine.truth(&each.body) {
                Ok(value) if value == decisive => {
                    decided = true;
                    return Ok(Next::Stop);
                }
                Ok(_) => {}
                Err(fault) => absorb(&mut failure, fault)?,
            }
            Ok(Next::On)
        })?;
        match failure {
            _ if decided => Ok(Value::Bool(decisive)),
            Some(fault) => Err(fault),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn exists_one(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        let mut count = 0_usize;
        self.walk(each, &mut |machine| {
            count += usize::from(machine.truth(&each.body)?);
            Ok(Next::On)
        })?;
        Ok(Value::Bool(count == 1))
    }

    fn selected(&mut self, each: &Loop) -> Result<bool, Fault> {
        match &each.filter {
            Some(filter) => self.truth(filter),
            None => Ok(true),
        }
    }

    fn collect(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        let mut items = Vec::new();
        let keeps = each.kind == ComprehensionKind::Filter;
        self.walk(each, &mut |machine| {
            if keeps {
                if machine.truth(&each.body)? {
                    // The walk binds the element last, so it is the innermost variable.
                    items.push(machine.locals.last().cloned().unwrap_or(Value::Null));
                }
            } else if machine.selected(each)? {
                items.push(machine.eval(&each.body)?);
            }
            Ok(Next::On)
        })?;
        Ok(Value::list(items))
    }

    fn collect_map(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        let mut map = BTreeMap::new();
        self.walk(each, &mut |machine| {
            if !machine.selected(each)? {
                return Ok(Next::On);
            }
            let key = machine.locals.iter().rev().nth(1).cloned().unwrap_or(Value::Null);
            let value = machine.eval(&each.body)?;
            if each.kind == ComprehensionKind::TransformMap {
                map.insert(Key::of(&key)?, value);
                return Ok(Next::On);
            }
            match value {
                Value::Map(entries) => {
                    machine.context.charge_items(entries.len())?;
                    for (key, value) in entries.iter() {
                        insert_new(&mut map, key, value)?;
                    }
                }
                other => {
                    let message =
                        format!("the result of `transformMapEntry` must be a map, not {}", short(&other));
                    return Err(at(mismatch(message), each.body.span));
                }
            }
            Ok(Next::On)
        })?;
        Ok(Value::Map(Map::Shared(Arc::new(map))))
    }

    fn sort_by(&mut self, each: &Loop) -> Result<Value<'a>, Fault> {
        let mut pairs = Vec::new();
        self.walk(each, &mut |machine| {
            let item = machine.locals.last().cloned().unwrap_or(Value::Null);
            pairs.push((machine.eval(&each.body)?, item));
            Ok(Next::On)
        })?;
        sort_by_keys(&mut self.context, pairs)
    }
}
