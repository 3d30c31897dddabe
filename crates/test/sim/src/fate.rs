//! What becomes of the controllers' requests, and what is remembered of them.

use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use kardinal_testkit::requests::{Fate, Heard, Kind};
use tokio::time::Instant;

use crate::Random;
use crate::scenario::{Failures, HORIZON};

/// A commit that the controllers have tried to push.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    /// Seconds after the beginning.
    pub(crate) at: f64,
    pub(crate) bundle: String,
    pub(crate) environment: String,
}

/// What was heard of the controllers.
#[derive(Clone, Default)]
pub(crate) struct Log {
    attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl Log {
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decides by chance, until the horizon is reached.
    pub(crate) fn judge(
        &self,
        mut random: Random,
        failures: Failures,
        start: Instant,
    ) -> impl FnMut(&Heard<'_>) -> Fate + Send + 'static {
        let attempts = self.attempts.clone();
        move |heard| {
            let at = start.elapsed().as_secs_f64();
            if let Some((bundle, environment)) = promotion(heard.what) {
                let attempt = Attempt { at, bundle, environment };
                attempts.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
            }
            if at > HORIZON as f64 {
                return Fate::Pass;
            }
            match heard.kind {
                Kind::Watch if random.percent(failures.watches) => Fate::Cut {
                    after: usize::try_from(random.below(6)).unwrap_or_default(),
                    gone: random.percent(30),
                },
                Kind::Watch => Fate::Pass,
                Kind::Read | Kind::Write if heard.what.starts_with("GIT ") => fail(&mut random, failures.git),
                Kind::Read | Kind::Write => fail(&mut random, failures.server),
            }
        }
    }
}

fn fail(random: &mut Random, chance: u64) -> Fate {
    if !random.percent(chance) {
        return Fate::Pass;
    }
    let all = [
        Fate::Lost,
        Fate::PassUnheard,
        Fate::Answered(StatusCode::CONFLICT),
        Fate::Answered(StatusCode::TOO_MANY_REQUESTS),
        Fate::Answered(StatusCode::INTERNAL_SERVER_ERROR),
    ];
    random.pick(&all).copied().unwrap_or(Fate::Pass)
}

/// Bundle and environment of `GIT commit BRANCH: [kardinal] Promote BUNDLE to ENVIRONMENT`, or of a rollback.
pub(crate) fn promotion(what: &str) -> Option<(String, String)> {
    let (_, subject) = what.split_once("[kardinal] ")?;
    if !what.starts_with("GIT commit") && !what.starts_with("[kardinal]") {
        return None;
    }
    let (verb, rest) = subject.split_once(' ')?;
    let (left, right) = rest.split_once(" to ")?;
    match verb {
        "Promote" => Some((left.to_owned(), right.to_owned())),
        "Rollback" => Some((right.to_owned(), left.to_owned())),
        _ => None,
    }
}
