//! Why an evaluation failed; this module decides nothing about what is an error.

use crate::span::Span;

/// What kind of failure it is, for callers that treat some kinds differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvalErrorKind {
    /// No such key, field, index or variable. The data may still come.
    Missing,
    /// An operation does not exist for the types it was given.
    Type,
    /// A number, time or duration left the range of its type.
    Overflow,
    /// Division or modulus by zero.
    DivideByZero,
    /// A function was called with a value it does not accept.
    Argument,
    /// The evaluation cost more than the limit allows.
    Budget,
    /// Anything else.
    Other,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// Which kind of failure.
    pub kind: EvalErrorKind,
    /// The part of the source that failed.
    pub span: Span,
    /// What happened, in one line.
    pub message: String,
}

/// An [`EvalError`] on its way out. It is boxed so that results stay small on the path where nothing fails.
pub(crate) type Fault = Box<EvalError>;

/// A failure whose place is not known yet: the evaluator adds the span of the node that failed.
#[cold]
pub(crate) fn fault(kind: EvalErrorKind, message: impl Into<String>) -> Fault {
    Box::new(EvalError { kind, span: Span::default(), message: message.into() })
}

/// A failure of kind [`EvalErrorKind::Missing`].
#[cold]
pub(crate) fn missing(message: impl Into<String>) -> Fault {
    fault(EvalErrorKind::Missing, message)
}

/// A failure of kind [`EvalErrorKind::Type`].
#[cold]
pub(crate) fn mismatch(message: impl Into<String>) -> Fault {
    fault(EvalErrorKind::Type, message)
}

/// A failure of kind [`EvalErrorKind::Argument`].
#[cold]
pub(crate) fn argument(message: impl Into<String>) -> Fault {
    fault(EvalErrorKind::Argument, message)
}

/// A failure of kind [`EvalErrorKind::Overflow`].
#[cold]
pub(crate) fn overflow(message: impl Into<String>) -> Fault {
    fault(EvalErrorKind::Overflow, message)
}

/// Adds the place to a failure that has none; the innermost place wins.
pub(crate) fn at(mut fault: Fault, span: Span) -> Fault {
    if fault.span == Span::default() {
        fault.span = span;
    }
    fault
}
