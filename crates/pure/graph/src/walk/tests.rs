//! The walk against a small world in memory.

mod cost;
mod fence;
mod finalizing;
mod nodes;
mod random;
mod story;
mod time;
mod trouble;
mod world;
