//! Kubernetes objects, as far as every part of kardinal reads them alike: what they are called, and what their metadata
//! says. It knows none of our kinds and no client.

mod identity;
mod metadata;
mod names;
mod read;
mod time;

pub use identity::{Gvk, KindScope, ObjectId};
pub use metadata::{Age, age, annotation_of, created_at, is_true, label_of, name_of, namespace_of};
pub use names::{NAME_LIMIT, NAMESPACE_LIMIT, can_be_name, can_be_namespace};
pub use read::{annotation, label, text, text_at};
pub use time::whole_second;
