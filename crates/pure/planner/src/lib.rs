//! What the planners of all dialects share, and the planners of Graphs and of the local forge.
//!
//! Every function here is pure: observations and the time come in, values go out.
//! Nothing in this crate may read a clock, call a server or wait.

pub mod condition;
pub mod doctor;
pub mod forge;
pub mod graph;
pub mod lease;
pub mod names;
pub mod problem;
pub mod review;
pub mod sentence;
pub mod why;
