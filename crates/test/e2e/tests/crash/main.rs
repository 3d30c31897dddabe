//! The controllers die, or are refused something, at every single request of a whole life: it always ends the same.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

mod faults;
mod graph;
mod life;
mod promotion;
