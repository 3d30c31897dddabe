//! Pages and Git of the local forge.

pub(super) mod pulls;
pub(super) mod sessions;
