//! What the gates of promotions read, and what they say about it.

mod context;
mod door;
mod overrides;
mod soak;
mod truth;
mod types;
mod version;
