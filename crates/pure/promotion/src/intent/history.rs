//! What an environment has now, and what it had before: the Bundles whose changes reached it, with rollbacks followed.
//!
//! A rollback is a Bundle of its own with the content of an older one. So what counts is content and not names: going
//! back to a version puts the environment where it stood with that version, and everything that came after it is taken
//! back, whichever Bundles carried it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, EnvironmentStatus, PromotionState};
use kardinal_object::{name_of, whole_second};

use super::content::{Standing, leaving, parts};
use crate::bundle::{READY, is_finished};
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::problem::Problem;

/// The field of a problem that goes away when somebody insists.
pub const FORCE: &str = "force";

/// The Bundles that reached one environment and carry the same kinds of things, in the order in which they did.
#[derive(Clone, Debug)]
pub struct History<'a> {
    environment: String,
    kind: BundleType,
    /// Every arrival, the first first.
    arrivals: Vec<&'a Bundle>,
    /// The arrivals, and the Bundles that failed before they could arrive.
    attempts: Vec<&'a Bundle>,
    /// The arrivals that still stand: the last is what the environment has, those before it are what one can go back to.
    standing: Vec<&'a Bundle>,
}

/// Why a version is not to come to an environment again unless somebody insists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objection {
    /// The last attempt to bring it there failed. The Bundle that tried, and what its step said.
    Failed(String, Option<String>),
    /// It was there, and somebody or a failure went back. The Bundle that took it back, unless that is gone.
    TakenBack(Option<String>),
}

impl Objection {
    /// The objection as an answer to whoever wants a Bundle to come to an environment.
    pub(super) fn problem(self, wanted: &Bundle, environment: &str) -> Problem {
        let version = crate::gate_context::version(&wanted.spec);
        let (message, hint) = match self {
            Objection::Failed(bundle, said) => {
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                (format!("`{version}` has failed in `{environment}`, with `{bundle}`{said}"), "has failed")
            }
            Objection::TakenBack(bundle) => {
                let by = bundle.map(|bundle| format!(" by `{bundle}`")).unwrap_or_default();
                (format!("`{version}` was taken back in `{environment}`{by}"), "was taken back")
            }
        };
        Problem::new(FORCE, message).hint(format!("`--force` brings it there although it {hint}"))
    }
}

impl<'a> History<'a> {
    /// The history of an environment as far as Bundles of a type are concerned. A Bundle that is neither of this type nor
    /// mixed changed something else and does not count.
    pub fn of(bundles: &[&'a Bundle], environment: &str, kind: BundleType) -> History<'a> {
        let mut attempts: Vec<&'a Bundle> = bundles
            .iter()
            .copied()
            .filter(|bundle| carries_kind(bundle, kind))
            .filter(|bundle| reached(bundle, environment) || has_failed(bundle, environment))
            .collect();
        attempts.sort_by_cached_key(|bundle| arrival(bundle, bundles, environment));
        let arrivals = attempts.iter().copied().filter(|bundle| reached(bundle, environment)).collect();
        let environment = environment.to_owned();
        let mut history = History { environment, kind, arrivals, attempts, standing: Vec::new() };
        history.standing = history.follow_arrivals();
        history
    }

    /// The history that the Bundle which reached an environment last belongs to. Absent: none has.
    pub fn latest(bundles: &[&'a Bundle], environment: &str) -> Option<History<'a>> {
        let last = bundles
            .iter()
            .copied()
            .filter(|bundle| reached(bundle, environment))
            .max_by_key(|bundle| arrival(bundle, bundles, environment))?;
        Some(History::of(bundles, environment, last.spec.kind()))
    }

    /// Every arrival, the first first.
    pub(super) fn arrivals(&self) -> &[&'a Bundle] {
        &self.arrivals
    }

    /// The Bundle whose change the environment has now, healthy or not.
    pub fn present(&self) -> Option<&'a Bundle> {
        self.standing.last().copied()
    }

    /// What the environment had before a Bundle came, healthy or not. For one that never came: what it has now.
    pub fn before(&self, bundle: &Bundle) -> Option<&'a Bundle> {
        let at = self.arrivals.iter().position(|one| is_same(one, bundle)).unwrap_or(self.arrivals.len());
        self.arrivals.get(..at)?.last().copied()
    }

    /// The newest version below the present one that was verified here and has neither been taken back nor failed since.
    pub fn fallback(&self) -> Option<&'a Bundle> {
        self.below(self.present()?)
    }

    /// The same for a Bundle that may not be the present one; one that does not stand here any more has none.
    pub(crate) fn below(&self, current: &Bundle) -> Option<&'a Bundle> {
        let at = self.standing.iter().position(|one| is_same(one, current))?;
        self.good(self.standing.get(..at)?, current)
    }

    /// Whether the change of a Bundle came after that of another one, as far as both did.
    pub(crate) fn is_after(&self, bundle: &Bundle, other: &Bundle) -> bool {
        let place = |wanted: &Bundle| self.arrivals.iter().position(|one| is_same(one, wanted));
        place(bundle) > place(other)
    }

    /// Whether a Bundle's change is, or was, in the environment.
    pub(super) fn arrived(&self, bundle: &Bundle) -> bool {
        self.arrivals.iter().any(|one| is_same(one, bundle))
    }

    /// What to go back to from a Bundle that is not on record yet: what the environment has, if that is good and other.
    pub(super) fn newest_but(&self, current: &Bundle) -> Option<&'a Bundle> {
        self.good(&self.standing, current)
    }

    /// The last of some Bundles that is verified, has not failed since and differs from another one.
    fn good(&self, of: &[&'a Bundle], current: &Bundle) -> Option<&'a Bundle> {
        let content = parts(current, self.kind);
        let failed = |bundle: &Bundle| {
            self.last(&self.arrivals, bundle).is_some_and(|one| has_failed(one, &self.environment))
        };
        of.iter()
            .rev()
            .copied()
            .filter(|bundle| is_verified(bundle, &self.environment))
            .filter(|bundle| parts(bundle, self.kind) != content)
            .find(|bundle| !failed(bundle))
    }

    /// The last of some Bundles that carries the same as another one.
    fn last(&self, of: &[&'a Bundle], bundle: &Bundle) -> Option<&'a Bundle> {
        let content = parts(bundle, self.kind);
        of.iter().rev().copied().find(|one| parts(one, self.kind) == content)
    }

    /// Why the content of a Bundle is not to come here (again) unless somebody insists.
    pub fn objection(&self, bundle: &Bundle) -> Option<Objection> {
        let last = self.last(&self.attempts, bundle)?;
        if has_failed(last, &self.environment) {
            let said = entry(last, &self.environment).and_then(|entry| entry.message.clone());
            return Some(Objection::Failed(name_of(&last.metadata).to_owned(), said));
        }
        if self.last(&self.standing, bundle).is_some() {
            return None;
        }
        let mut later = self.arrivals.iter().skip_while(|one| !is_same(one, last)).skip(1);
        let by = later.find(|one| taken_back(one).is_some())?;
        Some(Objection::TakenBack(Some(name_of(&by.metadata).to_owned())))
    }

    /// The Bundles that were verified here, the newest first; for hints.
    pub(crate) fn verified(&self) -> impl Iterator<Item = &'a str> + '_ {
        let verified = |bundle: &&&'a Bundle| is_verified(bundle, &self.environment);
        self.arrivals.iter().rev().filter(verified).map(|bundle| name_of(&bundle.metadata))
    }

    /// Follows the arrivals, each of which makes others leave.
    fn follow_arrivals(&self) -> Vec<&'a Bundle> {
        let mut standing: Vec<&'a Bundle> = Vec::new();
        for &bundle in &self.arrivals {
            let content = parts(bundle, self.kind);
            let others = standing.iter().rev().map(|one| Standing {
                bundle: name_of(&one.metadata),
                is_same: parts(one, self.kind) == content,
                is_verified: is_verified(one, &self.environment),
            });
            let gone = leaving(bundle, is_verified(bundle, &self.environment), others);
            standing.truncate(standing.len().saturating_sub(gone));
            standing.push(bundle);
        }
        standing
    }
}

/// The Bundle that one takes back.
pub(super) fn taken_back(bundle: &Bundle) -> Option<&str> {
    bundle.spec.provenance.as_ref()?.rollback_of.as_deref()
}

/// A Bundle's record of an environment.
pub(crate) fn entry<'a>(bundle: &'a Bundle, environment: &str) -> Option<&'a EnvironmentStatus> {
    bundle.status.as_ref()?.environments.get(environment)
}

/// Whether a Bundle's change is, or was, in the environment.
pub(super) fn reached(bundle: &Bundle, environment: &str) -> bool {
    entry(bundle, environment).is_some_and(|entry| entry.promoted_at.or(entry.verified_at).is_some())
}

/// Whether the environment was found healthy with it.
pub(super) fn is_verified(bundle: &Bundle, environment: &str) -> bool {
    entry(bundle, environment).is_some_and(|entry| entry.verified_at.is_some())
}

/// Whether the step into the environment failed.
pub(super) fn has_failed(bundle: &Bundle, environment: &str) -> bool {
    entry(bundle, environment).is_some_and(|entry| entry.state == Some(PromotionState::Failed))
}

/// Whether a Bundle is in the middle of its step into the environment.
pub(crate) fn is_under_way(bundle: &Bundle, environment: &str) -> bool {
    let state = entry(bundle, environment).and_then(|entry| entry.state);
    let over = matches!(state, None | Some(PromotionState::Verified | PromotionState::Failed));
    !over && !bundle.status.as_ref().and_then(|status| status.phase).is_some_and(is_finished)
}

/// The place of a Bundle in the order of arrivals.
///
/// Times of verification are compared where there are some, for those are of one clock: when a change went in is what a
/// forge says, and its clock may be another one and count whole seconds only. What is under way came last, since only
/// one Bundle at a time has the environment; and a rollback came after what it takes back, whatever the clocks say.
fn arrival<'b>(bundle: &'b Bundle, bundles: &[&'b Bundle], environment: &str) -> impl Ord + use<'b> {
    let (mut at, mut links) = (came(bundle, environment), 0_usize);
    let mut seen = BTreeSet::from([name_of(&bundle.metadata)]);
    let mut next = taken_back(bundle);
    while let Some(name) = next.filter(|name| seen.insert(name)) {
        let Some(older) = bundles.iter().find(|one| name_of(&one.metadata) == name) else { break };
        at = at.max(came(older, environment));
        links += 1;
        next = taken_back(older);
    }
    let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (is_under_way(bundle, environment), at, links, created, name_of(&bundle.metadata))
}

/// When a Bundle came, as far as is known.
pub(crate) fn came(bundle: &Bundle, environment: &str) -> Option<Timestamp> {
    let entry = entry(bundle, environment)?;
    let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
    entry.verified_at.or(entry.promoted_at).max(created)
}

/// When a Bundle came to its end in an environment, in whole seconds: the times of conditions have no more, and what
/// ended in the same second is told apart by the age of the Bundles.
///
/// A failure has no time of its own unless somebody closed the pull request. The Bundle ends with its first failure, and
/// its condition tells when that was.
pub(crate) fn ended_at(bundle: &Bundle, environment: &str) -> Option<Timestamp> {
    let status = bundle.status.as_ref()?;
    let entry = status.environments.get(environment)?;
    let reached = || {
        let ready = status.conditions.iter().find(|condition| condition.type_ == READY);
        ready.filter(|ready| condition::is(ready, Truth::False)).map(|ready| ready.last_transition_time.0)
    };
    let created = bundle.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let at = match entry.state {
        Some(PromotionState::Verified) => entry.verified_at,
        // One that was rejected may have been merged all the same.
        _ if entry.rejected_at.is_some() => entry.rejected_at.max(entry.promoted_at),
        _ => reached().or(entry.promoted_at),
    };
    at.max(created).map(whole_second)
}

fn is_same(one: &Bundle, other: &Bundle) -> bool {
    one.metadata.name == other.metadata.name
}

/// Whether a Bundle carries at least the kinds of things that one of a type does.
pub(crate) fn carries_kind(bundle: &Bundle, kind: BundleType) -> bool {
    bundle.spec.kind() == kind || bundle.spec.kind() == BundleType::Mixed
}

/// What an environment has now, one Bundle for each kind of things, the one that came last first. A mixed Bundle of which
/// one part was replaced since is not what the environment has.
pub(crate) fn presents<'a>(bundles: &[&'a Bundle], environment: &str) -> Vec<&'a Bundle> {
    let present = |kind| History::of(bundles, environment, kind).present();
    let (images, config) = (present(BundleType::Image), present(BundleType::Config));
    let whole = |bundle: &&Bundle| {
        bundle.spec.kind() != BundleType::Mixed
            || (images.is_some_and(|one| is_same(one, bundle))
                && config.is_some_and(|one| is_same(one, bundle)))
    };
    let mut presents: Vec<&'a Bundle> = images.into_iter().chain(config).filter(whole).collect();
    presents.dedup_by(|one, other| is_same(one, other));
    presents.sort_by_cached_key(|bundle| Reverse(arrival(bundle, bundles, environment)));
    presents
}
