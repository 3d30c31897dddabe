//! The Kubernetes API as a state machine without input or output.
//!
//! [`model::Model`] holds every object; [`model::Model::prepare`] decides what a request does on top of a
//! [`model::Batch`] of writes that are not durable yet, and [`model::Model::commit`] publishes the batch to
//! readers and watchers. The shell round it (HTTP, the durable store, timers) lives in `crates/io/apiserver`.
//! Nothing here reads a clock, rolls dice, or touches the outside world: `now` and the source of ids are arguments.

pub mod builtin;
pub mod discovery;
pub mod fields;
pub mod gc;
pub mod managed;
pub mod merge;
pub mod meta;
pub mod model;
pub mod namespace;
pub mod object;
pub mod openapi;
pub mod page;
pub mod patch;
pub mod protobuf;
pub mod registry;
pub mod schema;
pub mod selector;
pub mod status;
pub mod table;
pub mod watch;

#[cfg(test)]
mod harness;

pub use model::{Batch, Change, Ids, Key, Model, Outcome, Request};
pub use object::Object;
pub use status::{Reason, Status};
