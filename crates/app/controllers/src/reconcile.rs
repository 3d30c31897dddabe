//! What all controllers have in common.

pub(crate) mod driver;
pub(crate) mod objects;
pub(crate) mod pass;
pub(crate) mod routes;
