//! PolicyGate: where an instance stands, what to write down about it, and when to ask it again.
//!
//! Templates are only compiled, so that a typo is seen at once. Instances are evaluated for their Bundle and their
//! environment. The Graph trusts an answer for two recheck intervals, so it is written anew after one, and at the exact
//! instant at which it changes by itself.

mod check;
mod place;
mod plan;
mod reach;
mod report;
#[cfg(test)]
mod tests;

pub use place::{Place, place_by_labels, place_in_graph};
pub(crate) use plan::is_released;
pub use plan::{Authority, Plan, Snapshot, plan};
pub use reach::guards_nothing;

/// The field manager of a gate's status.
pub const MANAGER: &str = "kardinal-policy-gate-controller";
/// The condition that says whether the expression compiles.
pub const COMPILED: &str = "Compiled";
/// The condition of a template that says whether it guards an environment of any Pipeline.
pub const GUARDS: &str = "Guards";
/// The condition that says whether promotions may pass.
pub const READY: &str = "Ready";
