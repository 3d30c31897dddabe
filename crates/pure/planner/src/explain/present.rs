//! What an environment has now, whatever is on its way there.

use kardinal_api::kardinal::{Bundle, EnvironmentStatus};

use super::choose::{is_ours, up_to_date};
use super::{Present, World};
use crate::intent;

/// What the environment has, by the records of the Bundles and of the Pipeline.
pub(super) fn present(world: &World<'_>, environment: &str) -> Vec<Present> {
    let ours: Vec<Bundle> = world
        .bundles
        .iter()
        .filter(|bundle| is_ours(world, bundle))
        .map(|one| up_to_date(world, one))
        .collect();
    let bundles: Vec<&Bundle> = ours.iter().collect();
    let shown = |one: intent::Present<'_>| {
        let record = one.recorded(environment);
        let entry = match one {
            intent::Present::Bundle(bundle) => entry(bundle, environment),
            intent::Present::Gone(_) => None,
        };
        Present {
            kind: record.kind,
            version: record.version,
            bundle: record.bundle,
            deleted: matches!(one, intent::Present::Gone(_)),
            verified_at: record.verified_at,
            not_proven: entry.and_then(|entry| entry.evidence.as_ref()?.not_proven.clone()),
        }
    };
    intent::present(world.pipeline, &bundles, environment).into_iter().map(shown).collect()
}

fn entry<'a>(bundle: &'a Bundle, environment: &str) -> Option<&'a EnvironmentStatus> {
    bundle.status.as_ref()?.environments.get(environment)
}
