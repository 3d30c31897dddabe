//! What to do, decided without doing it: one folder per kind, with `check`, `plan` and `report`.
//!
//! Every function here is pure: observations and the time come in, values go out.
//! Nothing in this crate may read a clock, call a server or wait.

pub mod bundle;
pub mod condition;
pub mod explain;
pub mod forge;
pub mod graph;
pub mod health;
pub mod intent;
pub mod lease;
pub mod names;
pub mod pipeline;
pub mod policy_gate;
pub mod problem;
pub mod promotion_step;
pub mod seal;
pub mod shard;
