//! The controllers of promotions, one file for each kind, and what only they need.

mod access;
pub(crate) mod agents;
pub(crate) mod bundle;
pub(crate) mod clusters;
pub(crate) mod context;
pub(crate) mod dialect;
pub(crate) mod facets;
pub(crate) mod gates_read;
pub(crate) mod pipeline;
pub(crate) mod policy_gate;
pub(crate) mod promotion_step;
pub(crate) mod sealing;
mod surroundings;
