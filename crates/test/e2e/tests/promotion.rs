//! From a Bundle's creation to its verified arrival, told with the specification's own manifests, in all three worlds.

#![expect(clippy::indexing_slicing, reason = "JSON without the field is null, which fails the comparison")]

#[path = "promotion/basics.rs"]
mod basics;
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
