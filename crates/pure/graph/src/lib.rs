//! The Graph: nodes that refer to each other by expressions, compiled to an order and walked step by step.
//!
//! `compile` turns declarations into a [`Graph`]. A [`Walker`] compares it with the observed world and says which
//! objects to apply, patch, release or delete next, what state every node is in, what it waits for, and when time
//! alone can change that. It acts on nothing itself: no client, no clock, no tasks. Nothing that a `Walker` remembers
//! is needed for the result; whoever drops it and starts anew arrives at the same end.

mod action;
mod compile;
mod condition;
pub mod declare;
mod desired;
mod drift;
mod expand;
mod fence;
mod finalize;
mod graph;
pub mod identity;
mod interests;
mod observe;
mod order;
mod owned;
mod removal;
pub mod render;
mod report;
mod scope;
mod selector;
mod teardown;
mod walk;

pub use action::{Action, Outcome, Step};
pub use compile::compile;
pub use declare::{Body, Declaration, Problem, ProblemReason};
pub use fence::{Fence, Passage, Permission, Permit};
pub use graph::{Edge, EdgeKind, Graph, NodeKind};
pub use identity::{
    DOMAIN, GRAPH_ANNOTATION, HASH_ANNOTATION, INDEX_ANNOTATION, Marks, ORDER_ANNOTATION, Owner, Parent,
    ReferenceKind, referring_graphs,
};
pub use interests::{Interests, Selection};
pub use observe::{Changed, Observed, Seen};
pub use report::{NodeReport, NodeState, Wait, WaitReason};
pub use selector::{Operator, Requirement, Selector};
pub use teardown::{Teardown, TeardownStep};
pub use walk::Walker;
