//! What an environment has now, also where the Bundle that brought it is gone.
//!
//! A Bundle's own record goes with it. The Pipeline's record of what its environments have stays, so that a version does
//! not seem to be back because the Bundle that took it back was deleted.

use std::cmp::Reverse;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, Pipeline, Predecessor, Presence};

use super::history::{
    History, came, carries_kind, entry, has_failed, is_verified, presents as brought, reached, taken_back,
};
use crate::bundle::name_of;

/// One thing that an environment has.
#[derive(Clone, Copy, Debug)]
pub enum Present<'a> {
    /// This Bundle brought it.
    Bundle(&'a Bundle),
    /// A Bundle brought it that does not exist any more.
    Gone(&'a Presence),
}

impl Present<'_> {
    /// The same as the Pipeline records it.
    pub fn recorded(&self, environment: &str) -> Presence {
        match self {
            Present::Gone(presence) => (*presence).clone(),
            Present::Bundle(bundle) => {
                let entry = entry(bundle, environment);
                Presence {
                    environment: environment.to_owned(),
                    kind: bundle.spec.kind(),
                    bundle: name_of(&bundle.metadata).to_owned(),
                    version: kardinal_policy::version(&bundle.spec),
                    promoted_at: entry.and_then(|entry| entry.promoted_at),
                    verified_at: entry.and_then(|entry| entry.verified_at),
                    rollback_of: taken_back(bundle).map(str::to_owned),
                    before: None,
                }
            }
        }
    }
}

/// What an environment has now, one for each kind of things, the one that came last first.
pub fn present<'a>(pipeline: &'a Pipeline, bundles: &[&'a Bundle], environment: &str) -> Vec<Present<'a>> {
    let mut lost: Vec<&'a Presence> = [BundleType::Image, BundleType::Config]
        .into_iter()
        .filter_map(|kind| gone(pipeline, bundles, environment, kind))
        .collect();
    lost.dedup();
    let remain = brought(bundles, environment)
        .into_iter()
        .filter(|bundle| !lost.iter().any(|one| meet(one.kind, bundle.spec.kind())))
        .map(|bundle| (came(bundle, environment), Present::Bundle(bundle)));
    let lost = lost.iter().map(|one| (arrived(one), Present::Gone(one)));
    let mut all: Vec<_> = lost.chain(remain).collect();
    all.sort_by_key(|(at, _)| Reverse(*at));
    all.into_iter().map(|(_, present)| present).collect()
}

/// What the Pipeline remembers of an environment, where the Bundle that brought it is gone and nothing of the kind has
/// come since.
pub(crate) fn gone<'a>(
    pipeline: &'a Pipeline,
    bundles: &[&Bundle],
    environment: &str,
    kind: BundleType,
) -> Option<&'a Presence> {
    let known = pipeline.status.iter().flat_map(|status| &status.environments);
    let last = known
        .filter(|one| one.environment == environment && meet(one.kind, kind))
        .max_by_key(|one| arrived(one))?;
    let exists = bundles.iter().any(|bundle| name_of(&bundle.metadata) == last.bundle);
    let is_later = |bundle: &&Bundle| {
        carries_kind(bundle, kind)
            && reached(bundle, environment)
            && came(bundle, environment) > arrived(last)
    };
    (!exists && !bundles.iter().copied().any(|bundle| is_later(&bundle))).then_some(last)
}

/// A record of what an environment has, with what it was healthy with before: the newest version that is known to stand
/// below, from the Bundles that exist or from the last record.
pub(crate) fn with_before(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    present: &Present<'_>,
    environment: &str,
) -> Presence {
    let presence = present.recorded(environment);
    let Present::Bundle(bundle) = present else { return presence };
    let below = History::of(bundles, environment, presence.kind).below(bundle).map(|good| Predecessor {
        bundle: name_of(&good.metadata).to_owned(),
        version: kardinal_policy::version(&good.spec),
        verified_at: entry(good, environment).and_then(|entry| entry.verified_at),
        rollback_of: taken_back(good).map(str::to_owned),
    });
    // What goes back lies below what the record tells of another Bundle.
    let last = record_of(pipeline, environment, presence.kind)
        .filter(|last| last.bundle == presence.bundle || taken_back(bundle).is_none());
    let remembered = last.and_then(|last| match last.bundle == presence.bundle {
        true => last.before.clone(),
        false if last.version == presence.version => last.before.clone(),
        false => healthy(last),
    });
    let before = below.into_iter().chain(remembered).max_by_key(|one| one.verified_at);
    Presence { before, ..presence }
}

/// What an environment goes back to from a Bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct WayBack<'a> {
    /// The Bundle whose content comes back. Absent: there is none.
    pub(crate) good: Option<&'a Bundle>,
    /// The version that should come back, where no Bundle with it exists any more.
    pub(crate) lost: Option<Predecessor>,
}

/// What an environment goes back to where the Bundle of the version that it was healthy with before may be deleted. `good`
/// is what the Bundles alone say: without the deleted one they may take a version for good that it had taken back.
pub(crate) fn way_back<'a>(
    pipeline: &Pipeline,
    bundles: &[&'a Bundle],
    environment: &str,
    current: &Bundle,
    good: Option<&'a Bundle>,
) -> WayBack<'a> {
    let Some(lost) = lost_predecessor(pipeline, bundles, environment, current, good) else {
        return WayBack { good, lost: None };
    };
    let has_it = |bundle: &&Bundle| {
        kardinal_policy::version(&bundle.spec) == lost.version
            && carries_kind(bundle, current.spec.kind())
            && is_verified(bundle, environment)
            && !has_failed(bundle, environment)
    };
    let same = bundles.iter().copied().filter(has_it).max_by_key(|bundle| came(bundle, environment));
    match same {
        Some(_) => WayBack { good: same, lost: None },
        None => {
            let was_taken_back =
                |good: &&Bundle| lost.rollback_of.as_deref() == Some(name_of(&good.metadata));
            WayBack { good: good.filter(|good| !was_taken_back(good)), lost: Some(lost) }
        }
    }
}

/// The version that an environment was healthy with before a Bundle came, where the Bundle that brought that version does
/// not exist any more and no later one does: `good` lies further back.
fn lost_predecessor(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    environment: &str,
    current: &Bundle,
    good: Option<&Bundle>,
) -> Option<Predecessor> {
    let last = record_of(pipeline, environment, current.spec.kind())?;
    let before = match last.bundle == name_of(&current.metadata) {
        true => last.before.clone()?,
        // The arrival of the Bundle is not on record yet.
        false if arrived(last) <= came(current, environment) => healthy(last)?,
        false => return None,
    };
    let exists = bundles.iter().any(|bundle| name_of(&bundle.metadata) == before.bundle);
    let verified_at = |bundle: &Bundle| entry(bundle, environment).and_then(|entry| entry.verified_at);
    let is_missed = good.is_none_or(|good| {
        kardinal_policy::version(&good.spec) != before.version && verified_at(good) < before.verified_at
    });
    let is_other = kardinal_policy::version(&current.spec) != before.version;
    (!exists && is_missed && is_other).then_some(before)
}

/// What a record says the environment was healthy with last.
fn healthy(record: &Presence) -> Option<Predecessor> {
    if record.verified_at.is_none() {
        return record.before.clone();
    }
    let (bundle, version) = (record.bundle.clone(), record.version.clone());
    let rollback_of = record.rollback_of.clone();
    Some(Predecessor { bundle, version, verified_at: record.verified_at, rollback_of })
}

fn record_of<'a>(pipeline: &'a Pipeline, environment: &str, kind: BundleType) -> Option<&'a Presence> {
    let known = pipeline.status.iter().flat_map(|status| &status.environments);
    known.filter(|one| one.environment == environment && one.kind == kind).max_by_key(|one| arrived(one))
}

/// When the Bundle of a record was seen in the environment last.
pub(crate) fn arrived(presence: &Presence) -> Option<Timestamp> {
    presence.verified_at.or(presence.promoted_at)
}

/// Whether Bundles of two types bring some of the same kind of things.
pub fn meet(one: BundleType, other: BundleType) -> bool {
    one == other || one == BundleType::Mixed || other == BundleType::Mixed
}
