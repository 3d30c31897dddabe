//! Input that nobody sends by accident, sent to a server in this process and to `kardinal up` over HTTPS: every case ends
//! in a clear error within a bounded time, the server goes on answering, and nothing panics.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

#[path = "hostile/bombs.rs"]
mod bombs;
#[path = "hostile/deleted.rs"]
mod deleted;
#[path = "hostile/doors.rs"]
mod doors;
#[path = "hostile/forged_progress.rs"]
mod forged_progress;
#[path = "hostile/graph_fence.rs"]
mod graph_fence;
#[path = "hostile/graph_rights.rs"]
mod graph_rights;
#[path = "hostile/kubeconfigs.rs"]
mod kubeconfigs;
#[path = "hostile/late_merges.rs"]
mod late_merges;
#[path = "hostile/memory.rs"]
mod memory;
#[path = "hostile/names.rs"]
mod names;
#[path = "hostile/neighbours.rs"]
mod neighbours;
#[path = "hostile/nonsense.rs"]
mod nonsense;
#[path = "hostile/old_versions.rs"]
mod old_versions;
#[path = "hostile/org_gates.rs"]
mod org_gates;
#[path = "process/running.rs"]
mod process;
#[path = "hostile/reach.rs"]
mod reach;
#[path = "hostile/store.rs"]
mod store;
#[path = "hostile/target.rs"]
mod target;
#[path = "hostile/teams.rs"]
mod teams;
#[path = "hostile/transport.rs"]
mod transport;
#[path = "hostile/unheard_gates.rs"]
mod unheard_gates;
#[path = "process/web.rs"]
mod web;
