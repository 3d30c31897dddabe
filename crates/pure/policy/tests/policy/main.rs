//! What gates say, why, and until when, seen from outside.

#![expect(clippy::unwrap_used, reason = "what the tests build is well-formed")]

mod chains;
mod door;
mod gates;
mod hostile;
mod lookahead;
mod overrides;
mod reasons;
mod times;
mod verdicts;
