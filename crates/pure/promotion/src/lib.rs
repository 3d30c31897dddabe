//! Promotions: how a Bundle goes through the environments of its Pipeline. One folder per kind, with the pure words `check`,
//! `plan` and `report`.
//!
//! Every function here is pure: observations and the time come in, values go out.
//! Nothing in this crate may read a clock, call a server or wait.

pub mod bundle;
pub mod edit;
pub mod explain;
pub mod gate_context;
pub mod health;
pub mod intent;
pub mod pipeline;
pub mod policy_gate;
pub mod promotion_step;
pub mod seal;
pub mod shard;
pub mod view;
