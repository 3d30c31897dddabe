//! The commands about the local forge.

pub(crate) mod pr;
