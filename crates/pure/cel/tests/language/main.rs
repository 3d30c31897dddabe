//! The expression language as its users see it.

mod conformance;
mod evaluate;
mod hostile;
mod random;
mod until;
