//! The controllers die at every single write of a promotion's whole life: it always ends the same.

use crate::life::{compare, live, seedling};
use anyhow::ensure;
use kardinal_testkit::requests::Death;

/// One life for every write and way to die. Whoever dies before write 7 has heard of write 6 and dies right after it.
#[test]
fn death_at_every_write_changes_nothing() -> anyhow::Result<()> {
    let seedling = seedling()?;
    let undisturbed = live(&seedling, |_| {})?;
    let writes = undisturbed.writes;
    ensure!(writes > 100, "a life of {writes} writes is no life");
    let deaths: Vec<Death> =
        (1..=writes).flat_map(|at| [Death::BeforeWrite(at), Death::AfterWrite(at)]).collect();
    compare(&deaths, &undisturbed.seen, |death| {
        live(&seedling, |requests| {
            // Only the first of them dies; whoever comes after it lives.
            if requests.writes() == 0 {
                requests.die(*death);
            }
        })
    })
}
