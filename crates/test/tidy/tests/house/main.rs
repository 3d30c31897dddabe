//! What the compiler does not check.

mod documents;
mod generated;
mod rings;
mod sources;
