//! `kardinal` as people start it: the demo, its web side, and promotions on a real Gitea.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

mod demo;
mod gitea;
mod http;
mod web;
