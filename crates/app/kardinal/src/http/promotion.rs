//! Bundles from CI.

pub(super) mod bundles;
pub(super) mod limits;
pub(super) mod signed;
pub(super) mod tenants;
