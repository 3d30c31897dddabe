//! What the walk says about each node: its state, and what it waits for until when.

use std::fmt;

use jiff::Timestamp;
use kardinal_object::ObjectId;
use serde::{Deserialize, Serialize};

/// The state of a node. The order is that of severity: the greatest state of all nodes is the reason of the
/// Graph's `Ready` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeState {
    /// In scope, and every `readyWhen` holds.
    Ready,
    /// Should not exist, because of `includeWhen` or an excluded dependency.
    Excluded,
    /// In scope, but some `readyWhen` does not hold.
    NotReady,
    /// Waits for data or for a gate.
    Pending,
    /// A dependency has failed.
    Blocked,
    /// Somebody else owns the object or a field.
    Conflict,
    /// The user must act: an expression failed or the server refused the object.
    Error,
    /// The world failed; it is tried again with growing delay.
    SystemError,
}

impl NodeState {
    /// The name used in statuses and texts.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Ready => "Ready",
            NodeState::NotReady => "NotReady",
            NodeState::Pending => "Pending",
            NodeState::Excluded => "Excluded",
            NodeState::Blocked => "Blocked",
            NodeState::Conflict => "Conflict",
            NodeState::Error => "Error",
            NodeState::SystemError => "SystemError",
        }
    }

    /// Whether it is still open what should exist; nothing is removed while any node is in such a state.
    pub fn is_undecided(self) -> bool {
        matches!(self, NodeState::Pending | NodeState::Blocked | NodeState::Error | NodeState::SystemError)
    }

    /// Whether dependents of a node in this state are `Blocked`.
    pub fn blocks(self) -> bool {
        matches!(self, NodeState::Blocked | NodeState::Conflict | NodeState::Error | NodeState::SystemError)
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitReason {
    /// A dependency is not applied and observed yet.
    NotInScope,
    /// A dependency's `propagateWhen` does not hold.
    GateClosed,
    /// An expression reads a field that is not there yet.
    DataMissing,
    /// The object that is read or patched does not exist.
    ObjectAbsent,
    /// The kind is not served, or its cache is not synced.
    KindUnknown,
    /// Our write has not been observed yet.
    NotObserved,
    /// The object is being deleted.
    Terminating,
    /// A dependency is being updated.
    Updating,
    /// A dependency has failed.
    DependencyFailed,
    /// A dependency is excluded, or the node's own `includeWhen` is false.
    Excluded,
    /// A `readyWhen` does not hold.
    NotReady,
    /// A write failed and will be tried again.
    Retry,
    /// A finalizing node has not finished.
    Finalizing,
    /// A finalizing node could not be run.
    FinalizerSkipped,
    /// The Graph may not do this: it is outside of its fence.
    Fenced,
    /// An object stays after the Graph, because the Graph may not remove it.
    LeftBehind,
    /// It is not known yet whether the account of the Graph may read this.
    PermissionUnknown,
    /// Nothing is removed while some node is undecided.
    Undecided,
}

impl WaitReason {
    /// The name used in statuses and texts.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitReason::NotInScope => "NotInScope",
            WaitReason::GateClosed => "GateClosed",
            WaitReason::DataMissing => "DataMissing",
            WaitReason::ObjectAbsent => "ObjectAbsent",
            WaitReason::KindUnknown => "KindUnknown",
            WaitReason::NotObserved => "NotObserved",
            WaitReason::Terminating => "Terminating",
            WaitReason::Updating => "Updating",
            WaitReason::DependencyFailed => "DependencyFailed",
            WaitReason::Excluded => "Excluded",
            WaitReason::NotReady => "NotReady",
            WaitReason::Retry => "Retry",
            WaitReason::Finalizing => "Finalizing",
            WaitReason::FinalizerSkipped => "FinalizerSkipped",
            WaitReason::Fenced => "Fenced",
            WaitReason::LeftBehind => "LeftBehind",
            WaitReason::PermissionUnknown => "PermissionUnknown",
            WaitReason::Undecided => "Undecided",
        }
    }
}

/// One thing a node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The node that is waited for; the node itself where the reason is its own.
    pub node: String,
    /// Why.
    pub why: WaitReason,
    /// The field, expression or object, in words.
    pub detail: String,
    /// When it can change by the passing of time alone.
    pub until: Option<Timestamp>,
}

impl Wait {
    pub(crate) fn new(node: &str, why: WaitReason, detail: impl Into<String>) -> Wait {
        Wait { node: node.to_owned(), why, detail: detail.into(), until: None }
    }

    pub(crate) fn until(mut self, until: Option<Timestamp>) -> Wait {
        self.until = until;
        self
    }
}

/// What is known about one node after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Its state.
    pub state: NodeState,
    /// One sentence for the user; empty when there is nothing to say.
    pub message: String,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// The objects it manages or reads.
    pub objects: Vec<ObjectId>,
    /// Whether its data reaches its dependents.
    pub propagating: bool,
    /// Whether it keeps what was applied last because a dependency's gate is closed.
    pub retained: bool,
}

impl NodeReport {
    pub(crate) fn new(state: NodeState, message: impl Into<String>) -> NodeReport {
        NodeReport {
            state,
            message: message.into(),
            waits: Vec::new(),
            objects: Vec::new(),
            propagating: false,
            retained: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitReason::*;

    #[test]
    fn the_word_of_a_reason_is_its_name_in_records() {
        let all = [
            NotInScope,
            GateClosed,
            DataMissing,
            ObjectAbsent,
            KindUnknown,
            NotObserved,
            Terminating,
            Updating,
            DependencyFailed,
            Excluded,
            NotReady,
            Retry,
            Finalizing,
            FinalizerSkipped,
            Fenced,
            LeftBehind,
            PermissionUnknown,
            Undecided,
        ];
        for reason in all {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
