//! Why a version is not to come to an environment (again) unless somebody insists: the same for going forward and back.

use kardinal_api::kardinal::{Bundle, Presence};
use kardinal_object::name_of;

use super::content::{Content, parts};
use super::history::{History, Objection, came, carries_kind, reached};
use super::ledger::{self, Ledger};
use super::present::{arrived, gone};
use super::wish::{Answer, Wish, already};
use crate::bundle::Route;
use kardinal_planner::problem::Problem;

/// Why a Bundle is not to come to the environment (again): by the Bundles that exist, or by what the Pipeline remembers of
/// those that were deleted.
pub(super) fn objection(wish: &Wish<'_>, source: &Bundle) -> Option<Objection> {
    let (pipeline, bundles, environment) = (wish.pipeline, wish.bundles, wish.environment);
    let kind = source.spec.kind();
    let by_rollback = || {
        let last = gone(pipeline, bundles, environment, kind)?;
        is_taken_back_by(wish, source, last).then(|| Objection::TakenBack(Some(last.bundle.clone())))
    };
    let by_record = || {
        let is_taken_back = ledger::is_taken_back(pipeline, bundles, environment, source);
        is_taken_back.then_some(Objection::TakenBack(None))
    };
    History::of(bundles, environment, kind).objection(source).or_else(by_rollback).or_else(by_record)
}

/// Why a new Bundle is not to come to an environment that it passes on its way, unless somebody insists. Where it changes
/// nothing nobody is asked: there an attempt may have failed for reasons of its own.
pub(super) fn objection_on_the_way(wish: &Wish<'_>, bundle: &Bundle) -> Result<Option<Problem>, Problem> {
    let route = Route::intended(&wish.pipeline.spec, bundle.spec.intent.as_ref())?;
    let mut passed = route.names().filter(|name| *name != wish.environment && !wish.force);
    Ok(passed.find_map(|environment| {
        let there = Wish { environment, ..*wish };
        if matches!(already(&there, bundle), Some(Answer::There(_))) {
            return None;
        }
        Some(objection(&there, bundle)?.problem(bundle, environment))
    }))
}

/// Whether what an environment has is a rollback that was deleted and took back what a Bundle carries: what it names, and,
/// where its record does not tell what lies below, all that had come since the version that it brought back.
fn is_taken_back_by(wish: &Wish<'_>, source: &Bundle, rollback: &Presence) -> bool {
    let Some(named) = &rollback.rollback_of else { return false };
    let kind = source.spec.kind();
    // A record of another kind of things knows the version only.
    let is_there = match rollback.kind == kind {
        true => Ledger::of(rollback, wish.bundles).holds(&Content::of(source, kind)),
        false => rollback.version == crate::gate_context::version(&source.spec),
    };
    if is_there {
        return false;
    }
    let content = parts(source, kind);
    let here = |bundle: &&&Bundle| {
        carries_kind(bundle, kind)
            && reached(bundle, wish.environment)
            && came(bundle, wish.environment) <= arrived(rollback)
    };
    let is_vague = rollback.kind != kind || rollback.content.is_none();
    let brought = wish.bundles.iter().filter(here);
    let brought =
        brought.filter(|bundle| is_vague && crate::gate_context::version(&bundle.spec) == rollback.version);
    let brought_at = brought.map(|bundle| came(bundle, wish.environment)).max().flatten();
    let is_since = |bundle: &Bundle| brought_at.is_some() && came(bundle, wish.environment) > brought_at;
    let mut same = wish.bundles.iter().filter(here).filter(|bundle| parts(bundle, kind) == content);
    same.any(|bundle| name_of(&bundle.metadata) == named || is_since(bundle))
}
