//! Scenarios that run in all three worlds. One program, so that all of them share one real kube-apiserver.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

mod forge;
mod graph;
mod kinds;
mod promotion;
