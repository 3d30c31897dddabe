//! What an environment has now, also where the Bundle that brought it is gone.
//!
//! A Bundle's own record goes with it. The Pipeline's record of what its environments have stays, so that a version does
//! not seem to be back because the Bundle that took it back was deleted.

use std::cmp::Reverse;

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, Pipeline, Presence};

use super::history::{came, carries_kind, entry, presents as brought, reached};
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

/// When the Bundle of a record was seen in the environment last.
pub(crate) fn arrived(presence: &Presence) -> Option<Timestamp> {
    presence.verified_at.or(presence.promoted_at)
}

/// Whether Bundles of two types bring some of the same kind of things.
fn meet(one: BundleType, other: BundleType) -> bool {
    one == other || one == BundleType::Mixed || other == BundleType::Mixed
}
