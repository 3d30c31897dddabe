//! What repositories and forges have in common, whoever hosts them. It knows no Kubernetes and no client.

mod pattern;

pub use pattern::{Written, matches_text, means_branch};
