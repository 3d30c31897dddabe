//! From a Bundle's creation to its verified arrival, told with the specification's own manifests, in all three worlds.

mod basics;
mod calls;
mod clusters;
mod config;
mod conflicts;
mod failing;
mod fan_out;
mod gates;
mod handwritten;
mod patching;
mod pause;
mod replicas;
mod rollback;
mod shapes;
mod shards;
mod skips;
mod story;
mod supersede;
mod weekend;
mod words;
mod written;
