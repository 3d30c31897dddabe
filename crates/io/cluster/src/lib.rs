//! The cluster as controllers see it: one `kube::Client`, one watch per kind, one clock, one way to write.
//!
//! Nothing here decides anything about the domain: reads end in immutable [`watches::View`]s,
//! writes are single requests whose answers are sorted into a few outcomes.

pub mod clock;
pub mod events;
pub mod install;
pub mod kinds;
pub mod leadership;
pub mod lease;
pub mod per_namespace;
pub mod queue;
pub mod watches;
pub mod write;

pub use clock::{Clock, SystemClock};
pub use kinds::{Kinds, Resolved};
pub use leadership::{Leadership, NotLeading};
pub use lease::Candidate;
pub use per_namespace::PerNamespace;
pub use queue::Queue;
pub use watches::{Change, Facet, Lost, Room, View, Watches};
pub use write::{Answer, Writer};
