//! The controllers die at every single write of a promotion's whole life: it always ends the same.

#[path = "promotion_crash/life.rs"]
mod life;

use anyhow::ensure;
use kardinal_testkit::requests::{Death, Requests};
use life::{compare, live, seedling};

/// How many writes lie between two deaths of one run.
const STRIDE: usize = 8;

/// Where the controllers die in one run: at one write, or at every [`STRIDE`]th beginning with that one.
#[derive(Debug, Clone, Copy)]
struct Deaths {
    /// The first write at which they die.
    first: usize,
    /// Whether that write is done before they die.
    after: bool,
    /// The number of writes to the next death, if there is one.
    stride: Option<usize>,
}

impl Deaths {
    fn arrange(&self, requests: &Requests) {
        let at = match (requests.writes(), self.stride) {
            (0, _) => self.first,
            (written, Some(stride)) => written + stride,
            (_, None) => return,
        };
        requests.die(if self.after { Death::AfterWrite(at) } else { Death::BeforeWrite(at) });
    }
}

/// With `KARDINAL_CRASH=each` there is one run for every write and way to die, with that death alone. Otherwise they die
/// again and again, and the runs differ in where that begins: every write is the last one of some run, too.
#[test]
fn death_at_every_write_changes_nothing() -> anyhow::Result<()> {
    let seedling = seedling()?;
    let undisturbed = live(&seedling, |_| {})?;
    let writes = undisturbed.writes;
    ensure!(writes > 100, "a life of {writes} writes is no life");
    let (firsts, stride) = match std::env::var("KARDINAL_CRASH").as_deref() {
        Ok("each") => (1..=writes, None),
        _ => (1..=STRIDE, Some(STRIDE)),
    };
    let both = |first| [false, true].map(|after| Deaths { first, after, stride });
    let lives: Vec<Deaths> = firsts.flat_map(both).collect();
    compare(&lives, &undisturbed.seen, |deaths| live(&seedling, |requests| deaths.arrange(requests)))
}
