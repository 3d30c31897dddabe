//! What the compiler does not check.

mod documents;
mod features;
mod generated;
mod kinds;
mod rings;
mod sources;
