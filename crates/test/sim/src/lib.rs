//! Worlds made up by chance. A seed decides on a Pipeline, its gates, the Bundles that come, what people do and what
//! fails; the real controllers live through it in virtual time, and what must always hold is checked.
//!
//! Nothing here looks at the wall clock or at a source of true randomness: a seed makes the same plan each time. Work on
//! repositories is done by other threads, though, whose order is their own: a rare failure may need a few tries to show.

mod check;
mod config;
mod fate;
mod hands;
mod patience;
mod random;
mod scenario;
mod world;

pub use random::Random;
pub use scenario::Scenario;

/// Lives through the world of one seed; the error says what did not hold.
pub fn run(seed: u64) -> anyhow::Result<()> {
    world::live(&Scenario::of(seed))
}
