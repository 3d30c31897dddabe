//! What the walk asks for, and what came of it.
//!
//! Actions are data. Whoever carries them out reports every one of them back through `record`.

use jiff::Timestamp;
use kardinal_object::ObjectId;
use serde_json::Value;

/// One write. Doing it twice is harmless.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Server-side apply of an object that the Graph owns.
    Apply {
        /// Node id.
        node: String,
        /// Address.
        id: ObjectId,
        /// The whole object with reference label and annotations, without `status`.
        object: Value,
        /// A complete apply body (`apiVersion`, `kind`, `metadata`, `status`) for the status subresource.
        status: Option<Value>,
        /// Take over fields of other managers.
        force: bool,
    },
    /// Server-side apply of some fields to an object that exists.
    Patch {
        /// Node id.
        node: String,
        /// Address.
        id: ObjectId,
        /// Our fields with reference label, annotations and the UID that was observed, without `status`.
        object: Value,
        /// A complete apply body for the status subresource.
        status: Option<Value>,
    },
    /// Give up our fields: apply of `apiVersion`, `kind`, `metadata.name`, namespace and UID only, main resource
    /// and status subresource.
    Release {
        /// Node id.
        node: String,
        /// Address.
        id: ObjectId,
        /// UID that was observed: an apply would create what is absent.
        uid: String,
    },
    /// Delete, with the UID as precondition.
    Delete {
        /// Node id.
        node: String,
        /// Address.
        id: ObjectId,
        /// UID that was observed.
        uid: String,
    },
}

impl Action {
    /// The node on whose behalf the action is.
    pub fn node(&self) -> &str {
        match self {
            Action::Apply { node, .. }
            | Action::Patch { node, .. }
            | Action::Release { node, .. }
            | Action::Delete { node, .. } => node,
        }
    }

    /// The object that is written.
    pub fn id(&self) -> &ObjectId {
        match self {
            Action::Apply { id, .. }
            | Action::Patch { id, .. }
            | Action::Release { id, .. }
            | Action::Delete { id, .. } => id,
        }
    }

    /// Whether the action takes something away.
    pub fn is_removal(&self) -> bool {
        matches!(self, Action::Release { .. } | Action::Delete { .. })
    }
}

/// What came of an action.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was done; the object as the server answered (after the status apply, when there was one).
    Done(Value),
    /// The object does not exist (any more).
    Gone,
    /// Another manager owns a field, or a precondition failed.
    Conflict(String),
    /// The server refused it: the user must act.
    Refused(String),
    /// The server or the way to it failed: worth trying again.
    Fault(String),
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// What to do now; independent of each other, so they may run in parallel.
    pub actions: Vec<Action>,
    /// When to step again although nothing changes.
    pub wake: Option<Timestamp>,
    /// Ids of the nodes whose report changed, in order.
    pub changed: Vec<String>,
}
