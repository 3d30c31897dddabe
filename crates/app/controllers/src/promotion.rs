//! The controllers of promotions, one file for each kind, and what only they need.

mod access;
mod agents;
pub(crate) mod bundle;
mod clusters;
pub(crate) mod context;
pub(crate) mod dialect;
pub(crate) mod facets;
mod gates_read;
pub(crate) mod pipeline;
pub(crate) mod policy_gate;
pub(crate) mod promotion_step;
mod sealing;
mod surroundings;
