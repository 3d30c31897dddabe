//! How a Pipeline stands.
