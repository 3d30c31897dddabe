//! Tables and properties over the translation and the machine.

mod failure;
mod gates;
mod history;
mod machine;
mod names;
mod properties;
mod put_off;
mod rollback;
mod shape;
mod skips;
mod translation;
mod waits;
mod walk;
mod world;
