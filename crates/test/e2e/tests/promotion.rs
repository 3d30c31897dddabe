//! From a Bundle's creation to its verified arrival, told with the specification's own manifests, in all three worlds.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

#[path = "promotion/basics.rs"]
mod basics;
#[path = "promotion/calls.rs"]
mod calls;
#[path = "promotion/clusters.rs"]
mod clusters;
#[path = "promotion/config.rs"]
mod config;
#[path = "promotion/conflicts.rs"]
mod conflicts;
#[path = "promotion/failing.rs"]
mod failing;
#[path = "promotion/fan_out.rs"]
mod fan_out;
#[path = "promotion/gates.rs"]
mod gates;
#[path = "promotion/handwritten.rs"]
mod handwritten;
#[path = "promotion/patching.rs"]
mod patching;
#[path = "promotion/pause.rs"]
mod pause;
#[path = "promotion/replicas.rs"]
mod replicas;
#[path = "promotion/rollback.rs"]
mod rollback;
#[path = "promotion/shapes.rs"]
mod shapes;
#[path = "promotion/shards.rs"]
mod shards;
#[path = "promotion/skips.rs"]
mod skips;
#[path = "promotion/story.rs"]
mod story;
#[path = "promotion/supersede.rs"]
mod supersede;
#[path = "promotion/weekend.rs"]
mod weekend;
#[path = "promotion/words.rs"]
mod words;
#[path = "promotion/written.rs"]
mod written;
