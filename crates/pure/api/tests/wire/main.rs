//! What users write, and what the server makes of it.

mod round_trip;
mod schemas;
