//! What an environment has now, whatever is on its way there.

use kardinal_api::kardinal::{Bundle, EnvironmentStatus, PromotionState};
use kardinal_object::name_of;

use super::choose::{PromotionView, is_ours, up_to_date};
use super::text::display_version;
use super::{Present, World};
use crate::intent;
use crate::promotion_step::rollback_of;

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

/// What an environment had before the Bundle that is taken back, or has failed, where that cannot come back any more.
pub(super) fn lost(world: &World<'_>, view: &PromotionView<'_>) -> Option<String> {
    let ours: Vec<&Bundle> = world.bundles.iter().filter(|bundle| is_ours(world, bundle)).collect();
    let (current, good) = match rollback_of(&view.bundle) {
        Some(name) if view.state() != Some(PromotionState::Verified) => {
            (*ours.iter().find(|bundle| name_of(&bundle.metadata) == name)?, Some(&view.bundle))
        }
        None if view.state() == Some(PromotionState::Failed) => (&view.bundle, None),
        _ => return None,
    };
    let environment = &view.environment;
    let good = good.or_else(|| intent::verified_before(&ours, environment, current));
    let lost = intent::way_back(world.pipeline, &ours, environment, current, good).lost?;
    let version = display_version(&lost.version);
    Some(format!(
        "{environment} cannot go back to {version}, which it had before: its Bundle {} was deleted",
        lost.bundle
    ))
}

fn entry<'a>(bundle: &'a Bundle, environment: &str) -> Option<&'a EnvironmentStatus> {
    bundle.status.as_ref()?.environments.get(environment)
}
