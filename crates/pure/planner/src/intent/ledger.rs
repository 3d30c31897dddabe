//! What an environment stands on: the version that it has, and those that it was healthy with before and would go back to.
//!
//! Bundles are deleted, by people and as history, and each takes its part of the past with it. The Pipeline's record keeps
//! what is needed of it: without a rollback that is gone, the version that it took back would seem to be good again.

use kardinal_api::kardinal::{Bundle, Pipeline, Predecessor, Presence};
use kardinal_object::name_of;

use super::history::{History, came, entry, taken_back};
use super::present::{arrived, record_of};

/// So many versions below the present one are on record.
const DEPTH: usize = 5;

/// The versions of one kind of things in an environment.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// What it has.
    present: Option<Predecessor>,
    /// What it was healthy with before and did not take back, the newest first.
    below: Vec<Predecessor>,
}

impl Ledger {
    /// What the Pipeline has on record. The Bundle may have been verified since.
    fn of(record: &Presence, bundles: &[&Bundle]) -> Ledger {
        let known = bundles.iter().find(|bundle| name_of(&bundle.metadata) == record.bundle);
        let verified_at =
            known.and_then(|bundle| entry(bundle, &record.environment)).and_then(|entry| entry.verified_at);
        let present = Predecessor {
            bundle: record.bundle.clone(),
            version: record.version.clone(),
            rollback_of: record.rollback_of.clone(),
            verified_at: record.verified_at.or(verified_at),
        };
        Ledger { present: Some(present), below: recorded(record) }
    }

    /// A Bundle comes: forward, it is put on top of what the environment was healthy with; back, everything above the version
    /// that it brings is gone.
    fn advance(&mut self, bundle: &Bundle, environment: &str) {
        let new = of_bundle(bundle, environment);
        let mut stack: Vec<Predecessor> =
            self.present.take().into_iter().chain(self.below.drain(..)).collect();
        let same = stack.iter().position(|one| one.version == new.version);
        let named = taken_back(bundle).map(|named| stack.iter().position(|one| one.bundle == named));
        let gone = match (named, same) {
            (None, Some(0)) => 1,
            (None, _) => 0,
            // Where the version that it brings is not on record, what it names is all that is known to be gone.
            (Some(named), same) => same.or(named).map_or(0, |at| at + 1),
        };
        stack.drain(..gone.min(stack.len()));
        stack.retain(|one| one.verified_at.is_some());
        stack.truncate(DEPTH);
        *self = Ledger { present: Some(new), below: stack };
    }
}

fn of_bundle(bundle: &Bundle, environment: &str) -> Predecessor {
    Predecessor {
        bundle: name_of(&bundle.metadata).to_owned(),
        version: kardinal_policy::version(&bundle.spec),
        rollback_of: taken_back(bundle).map(str::to_owned),
        verified_at: entry(bundle, environment).and_then(|entry| entry.verified_at),
    }
}

/// What lies below the version of a record, the newest first.
fn recorded(record: &Presence) -> Vec<Predecessor> {
    record.before.iter().chain(&record.earlier).cloned().collect()
}

/// What an environment was healthy with before a Bundle came and did not take back, the newest first. Absent: the record
/// tells nothing of the time before this Bundle.
pub(super) fn below(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    environment: &str,
    current: &Bundle,
) -> Option<Vec<Predecessor>> {
    let kind = current.spec.kind();
    let last = record_of(pipeline, environment, kind);
    // Another one may have got its name.
    let is_it = |last: &&Presence| {
        last.bundle == name_of(&current.metadata) && last.version == kardinal_policy::version(&current.spec)
    };
    if let Some(last) = last.filter(is_it) {
        return Some(recorded(last));
    }
    // By the order of arrivals and not by their times alone: a forge's clock may be another one.
    let history = History::of(bundles, environment, kind);
    let arrivals = history.arrivals();
    let position = |name: &str| arrivals.iter().position(|one| name_of(&one.metadata) == name);
    let own = name_of(&current.metadata);
    let until = position(own).unwrap_or(arrivals.len());
    let since = last.and_then(arrived);
    let known = last.filter(|last| last.bundle != own).and_then(|last| position(&last.bundle));
    let first = match known {
        Some(at) => at + 1,
        None => arrivals.iter().take_while(|one| came(one, environment) <= since).count(),
    };
    if first > until || (known.is_none() && since > came(current, environment)) {
        return None;
    }
    let mut ledger = last.map(|last| Ledger::of(last, bundles)).unwrap_or_default();
    for bundle in arrivals.get(first..until).unwrap_or_default() {
        ledger.advance(bundle, environment);
    }
    ledger.advance(current, environment);
    Some(ledger.below)
}

/// Whether the record tells that a version was taken back: the environment has another one, and it is not among those below.
pub(super) fn is_taken_back(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    environment: &str,
    wanted: &Bundle,
) -> bool {
    let Some(present) = History::of(bundles, environment, wanted.spec.kind()).present() else { return false };
    let version = kardinal_policy::version(&wanted.spec);
    if record_of(pipeline, environment, wanted.spec.kind()).is_none()
        || kardinal_policy::version(&present.spec) == version
    {
        return false;
    }
    let below = below(pipeline, bundles, environment, present).unwrap_or_default();
    // Nothing is known of what lies further down.
    let is_known = !below.is_empty() && below.len() < DEPTH;
    is_known && !below.iter().any(|one| one.version == version)
}
