//! The functions that expressions can call, one library per file. Names and numbers of arguments are settled when an
//! expression is compiled; a function then looks at the types of the values it gets.
//!
//! What a type checker has to know of a function belongs into [`Function`], next to the number of its arguments.
//! A new library is a file here with a `LIBRARY`, entered into [`STANDARD`]. Functions are pure: they get the values,
//! what is left of the budget and the clock of the evaluation, and nothing else.

mod conversions;
mod core;
mod encoders;
mod format;
mod lists;
mod math;
mod network;
mod optionals;
mod sets;
mod strings;
mod times;

pub(crate) use lists::sort_by_keys;

use crate::budget::Context;
use crate::fault::{Fault, mismatch};
use crate::value::Value;

/// What a function does. The receiver of a method is the first value.
pub(crate) type Call = for<'a> fn(&mut Context, &[Value<'a>]) -> Result<Value<'a>, Fault>;

/// A function under one name and one way to call it.
pub(crate) struct Function {
    /// The name; functions of a namespace have it in front: `math.abs`.
    pub(crate) name: &'static str,
    /// Whether it is called on a value: `x.f()`.
    pub(crate) receiver: bool,
    /// How many values it takes at least, the receiver included.
    pub(crate) least: usize,
    /// How many values it takes at most, if there is a limit.
    pub(crate) most: Option<usize>,
    /// What it does.
    pub(crate) call: Call,
}

impl Function {
    /// Whether it can be called with so many values, the receiver included.
    pub(crate) fn takes(&self, count: usize) -> bool {
        count >= self.least && self.most.is_none_or(|most| count <= most)
    }
}

/// Functions that belong together and are switched on together, and the types they bring along.
pub(crate) struct Library {
    /// The names of its types, under which their values say what they are.
    pub(crate) types: &'static [&'static str],
    /// What it offers.
    pub(crate) functions: &'static [Function],
}

/// The libraries that every expression has.
pub(crate) const STANDARD: &[&Library] = &[
    &core::LIBRARY,
    &conversions::LIBRARY,
    &times::LIBRARY,
    &strings::LIBRARY,
    &lists::LIBRARY,
    &sets::LIBRARY,
    &math::LIBRARY,
    &encoders::LIBRARY,
    &optionals::LIBRARY,
    &network::LIBRARY,
];

/// A function that is called by its name alone.
const fn global(name: &'static str, count: usize, call: Call) -> Function {
    Function { name, receiver: false, least: count, most: Some(count), call }
}

/// A function that is called on a value, with `count` further arguments.
const fn method(name: &'static str, count: usize, call: Call) -> Function {
    Function { name, receiver: true, least: count + 1, most: Some(count + 1), call }
}

/// A function that is called on a value, with `least` to `most` further arguments.
const fn method_between(name: &'static str, least: usize, most: usize, call: Call) -> Function {
    Function { name, receiver: true, least: least + 1, most: Some(most + 1), call }
}

/// The error for values that a function is not made for.
#[cold]
fn no_overload(name: &str, args: &[Value<'_>]) -> Fault {
    let types: Vec<&str> = args.iter().map(Value::type_name).collect();
    mismatch(format!("`{name}` does not work on ({})", types.join(", ")))
}
