//! Many worlds, and one of them again.

#![expect(clippy::print_stdout, reason = "a failing seed tells how to see it again")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use kardinal_sim::{Scenario, run};

/// How many worlds there are when nobody says so.
const SEEDS: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn many_seeds() -> anyhow::Result<()> {
    let first = number("SIM_FIRST").unwrap_or(1);
    let end = first + number("SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(first);
    let failed: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= end {
                        return;
                    }
                    if let Err(error) = run(seed) {
                        let replay =
                            format!("SIM_SEED={seed} cargo test -p kardinal-sim one_seed -- --nocapture");
                        let told = format!("{replay}\n{error:#}");
                        println!("{told}\n");
                        failed.lock().unwrap().push(told);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    if !failed.is_empty() {
        bail!("{} of {} worlds went wrong:\n\n{}", failed.len(), end - first, failed.join("\n\n"));
    }
    Ok(())
}

/// The world of `SIM_SEED`, with everything that was decided about it.
#[test]
fn one_seed() -> anyhow::Result<()> {
    let seed = number("SIM_SEED").unwrap_or(1);
    println!("{:#?}", Scenario::of(seed));
    run(seed)
}
