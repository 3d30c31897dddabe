//! Input that nobody sends by accident, sent to a server in this process and to `kardinal up` over HTTPS: every case ends
//! in a clear error within a bounded time, the server goes on answering, and nothing panics.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

mod bombs;
mod deleted;
mod doors;
mod forged_progress;
mod graph_fence;
mod graph_rights;
mod kubeconfigs;
mod late_merges;
mod memory;
mod names;
mod neighbours;
mod nonsense;
mod old_versions;
mod org_gates;
mod reach;
mod store;
mod target;
mod teams;
mod transport;
mod unheard_gates;
#[path = "../programs/web.rs"]
mod web;
