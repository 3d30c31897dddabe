//! What an environment has now, also where the Bundle that brought it is gone.
//!
//! A Bundle's own record goes with it. The Pipeline's record of what its environments have stays, so that a version does
//! not seem to be back because the Bundle that took it back was deleted.

use std::cmp::Reverse;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, Pipeline, Predecessor, Presence};
use kardinal_object::name_of;

use super::content::Content;
use super::history::{
    History, Objection, came, carries_kind, entry, is_verified, presents as brought, reached, taken_back,
};
use super::ledger::Ledger;

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
                let kind = bundle.spec.kind();
                let content = Content::of(bundle, kind);
                Presence {
                    environment: environment.to_owned(),
                    kind,
                    bundle: name_of(&bundle.metadata).to_owned(),
                    version: content.version,
                    content: Some(content.digest),
                    promoted_at: entry.and_then(|entry| entry.promoted_at),
                    verified_at: entry.and_then(|entry| entry.verified_at),
                    rollback_of: taken_back(bundle).map(str::to_owned),
                    before: None,
                    earlier: Vec::new(),
                    forgotten_until: None,
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
    // Another one may have got its name, and has not come here.
    let is_it = |bundle: &&Bundle| name_of(&bundle.metadata) == last.bundle && reached(bundle, environment);
    let exists = bundles.iter().any(is_it);
    let is_later = |bundle: &&Bundle| {
        carries_kind(bundle, kind)
            && reached(bundle, environment)
            && came(bundle, environment) > arrived(last)
    };
    (!exists && !bundles.iter().copied().any(|bundle| is_later(&bundle))).then_some(last)
}

/// A record of what an environment has, with what it was healthy with before.
pub(crate) fn with_before(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    present: &Present<'_>,
    environment: &str,
) -> Presence {
    let presence = present.recorded(environment);
    let Present::Bundle(bundle) = present else { return presence };
    let Some(ledger) = Ledger::until(pipeline, bundles, environment, bundle.spec.kind(), bundle) else {
        return Presence { forgotten_until: arrived(&presence), ..presence };
    };
    let mut below = ledger.below.into_iter();
    let forgotten_until = ledger.forgotten_until;
    Presence { before: below.next(), earlier: below.collect(), forgotten_until, ..presence }
}

/// What an environment goes back to from a Bundle.
#[derive(Clone, Debug, Default)]
pub(crate) struct WayBack<'a> {
    /// The Bundle whose content comes back. Absent: there is none.
    pub(crate) good: Option<&'a Bundle>,
    /// The version that should come back, where no Bundle with it exists any more.
    pub(crate) lost: Option<Predecessor>,
}

/// What an environment goes back to where the Bundles of versions that it was healthy with before may be deleted. `good` is
/// what the Bundles alone say: without those that are gone they may take a version for good that was taken back, or miss one.
pub(crate) fn way_back<'a>(
    pipeline: &Pipeline,
    bundles: &[&'a Bundle],
    environment: &str,
    current: &Bundle,
    good: Option<&'a Bundle>,
) -> WayBack<'a> {
    let kind = current.spec.kind();
    let ledger = Ledger::until(pipeline, bundles, environment, kind, current);
    let own = Content::of(current, kind);
    let Some(ledger) = ledger.filter(|ledger| ledger.decides(&own, good)) else {
        return WayBack { good, lost: None };
    };
    let history = History::of(bundles, environment, kind);
    let has_failed = |bundle: &Bundle| matches!(history.objection(bundle), Some(Objection::Failed(..)));
    let verified = bundles.iter().copied();
    let verified = verified.filter(|bundle| carries_kind(bundle, kind) && is_verified(bundle, environment));
    let verified: Vec<(Content, &'a Bundle)> = verified.map(|one| (Content::of(one, kind), one)).collect();
    let good = good.map(|good| (Content::of(good, kind), good));
    let trusted = good.filter(|(good, _)| ledger.below.iter().any(|one| good.is(one)));
    let mut lost = None;
    for one in ledger.below.into_iter().filter(|one| !own.is(one)) {
        if let Some((_, trusted)) = trusted.as_ref().filter(|(good, _)| good.is(&one)) {
            return WayBack { good: Some(*trusted), lost };
        }
        let same = verified.iter().filter(|(content, _)| content.is(&one)).map(|(_, bundle)| *bundle);
        match same.max_by_key(|bundle| came(bundle, environment)) {
            None => {
                lost.get_or_insert(one);
            }
            // The Bundles alone would choose another one: this one has failed since.
            Some(same) if trusted.is_some() || has_failed(same) => {}
            Some(same) => return WayBack { good: Some(same), lost },
        }
    }
    WayBack { good: None, lost }
}

/// The last record of one kind of things in an environment.
pub(super) fn record_of<'a>(
    pipeline: &'a Pipeline,
    environment: &str,
    kind: BundleType,
) -> Option<&'a Presence> {
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
