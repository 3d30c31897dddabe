//! Every request of a promotion's whole life is refused once in each way, and every watch is dropped: it always ends
//! the same.

use crate::life::{compare, live, seedling};
use http::StatusCode;
use kardinal_testkit::requests::{Fate, Heard, Kind, Requests};

/// Every so many requests one is refused. A prime: something that is tried again by the same few requests would meet the same
/// refusal each time, for ever.
const STRIDE: usize = 11;
const CODES: [StatusCode; 3] =
    [StatusCode::CONFLICT, StatusCode::TOO_MANY_REQUESTS, StatusCode::INTERNAL_SERVER_ERROR];

/// What goes wrong in one run.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Every [`STRIDE`]th request is refused in this way, beginning with this one.
    Refused { first: usize, code: StatusCode },
    /// Every second watch ends after so many events: those with odd numbers, or those with even ones.
    Dropped { odd: bool, after: usize, gone: bool },
}

impl Trouble {
    fn befall(self, heard: &Heard<'_>) -> Fate {
        match self {
            Trouble::Refused { first, code }
                if heard.kind != Kind::Watch && heard.number % STRIDE == first % STRIDE =>
            {
                Fate::Answered(code)
            }
            Trouble::Dropped { odd, after, gone }
                if heard.kind == Kind::Watch && (heard.number % 2 == 1) == odd =>
            {
                Fate::Cut { after, gone }
            }
            _ => Fate::Pass,
        }
    }

    fn arrange(self, requests: &Requests) {
        requests.judged_by(move |heard| self.befall(heard));
    }
}

fn all_end_the_same(troubles: &[Trouble]) -> anyhow::Result<()> {
    let seedling = seedling()?;
    let undisturbed = live(&seedling, |_| {})?;
    anyhow::ensure!(undisturbed.plain > 100 && undisturbed.watches > 5, "there is nothing to refuse");
    compare(troubles, &undisturbed.seen, |trouble| live(&seedling, |requests| trouble.arrange(requests)))
}

#[test]
fn a_refusal_of_every_request_changes_nothing() -> anyhow::Result<()> {
    let each = |code| (1..=STRIDE).map(move |first| Trouble::Refused { first, code });
    all_end_the_same(&CODES.into_iter().flat_map(each).collect::<Vec<_>>())
}

#[test]
fn an_end_of_every_watch_changes_nothing() -> anyhow::Result<()> {
    let mut troubles = Vec::new();
    for odd in [true, false] {
        for (after, gone) in [(0, false), (3, false), (0, true), (3, true)] {
            troubles.push(Trouble::Dropped { odd, after, gone });
        }
    }
    all_end_the_same(&troubles)
}
