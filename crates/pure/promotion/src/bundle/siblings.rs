//! A Bundle among the others of its Pipeline: which one takes its place, and whether it is still needed.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleType, EnvironmentStatus, PIN_ANNOTATION, Pipeline, PromotionState,
};
use kardinal_object::{age, annotation_of, created_at, is_true, name_of};

use super::check::verified_at;
use super::plan::{is_finished, phase_of};
use super::report::graph_environments;
use super::{Route, Snapshot, is_automatic_rollback};
use crate::intent;
use crate::promotion_step::rollback_of;

/// Why a Bundle does not go on, when another one makes that pointless: one that takes it back, or a newer one of the same
/// type, on its way or arrived, that is meant for every environment that this one has not reached yet.
pub(super) fn superseded(
    snapshot: &Snapshot<'_>,
    graph: Option<&Graph>,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> Option<String> {
    let bundle = snapshot.bundle;
    let way = match graph {
        Some(graph) => graph_environments(graph).environments.into_iter().collect(),
        None => meant_for(snapshot.pipeline, bundle),
    };
    let missing = missing(way, environments)?;
    let left = Left { missing: &missing, record: environments };
    let yields = |other: &Bundle| yields(snapshot.pipeline, bundle, other, &left);
    let mut current = snapshot.siblings().filter(|sibling| is_current(sibling));
    if let Some(back) = current.find(|sibling| yields(sibling) == Some(Yields::TakenBack)) {
        return Some(format!("`{}` takes it back in an environment before", name_of(&back.metadata)));
    }
    let newer = successors(snapshot, &missing)
        .filter(|newer| is_current(newer))
        .max_by_key(|newer| age(&newer.metadata))
        .filter(|newer| yields(newer).is_some())?;
    Some(format!("`{}` is newer and goes to the same environments", name_of(&newer.metadata)))
}

/// What is left of a Bundle's way.
struct Left<'a> {
    /// The environments where it is not verified.
    missing: &'a BTreeSet<String>,
    /// What has become of it, in each environment.
    record: &'a BTreeMap<String, EnvironmentStatus>,
}

impl Left<'_> {
    fn has_reached(&self, name: &str) -> bool {
        self.record.get(name).is_some_and(|entry| entry.promoted_at.is_some())
    }
}

/// Why a Bundle does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Yields {
    /// It is taken back before where it wants to get to.
    TakenBack,
    /// Another one goes the same way.
    Replaced,
}

/// Whether a Bundle gives way to another one.
fn yields(pipeline: Option<&Pipeline>, bundle: &Bundle, other: &Bundle, left: &Left<'_>) -> Option<Yields> {
    // A pin keeps newer versions away; to take this one back is meant for it alone.
    if pipeline.is_some_and(|pipeline| takes_back_before(pipeline, other, bundle, left)) {
        return Some(Yields::TakenBack);
    }
    let is_replaced = !is_pinned(bundle) && replaces(pipeline, other, bundle, left.missing);
    (is_replaced && !is_awaited(pipeline, other, left)).then_some(Yields::Replaced)
}

/// Whether nothing is left of a Bundle's way but to await the health of environments that have it: somebody has to find out
/// whether they are well until the newer one stands before them itself. It may never come so far. A Bundle that would go on
/// from there does not stay: it would carry the older version further.
fn is_awaited(pipeline: Option<&Pipeline>, newer: &Bundle, left: &Left<'_>) -> bool {
    let route = pipeline.and_then(|one| Route::intended(&one.spec, newer.spec.intent.as_ref()).ok());
    let starts_there = |name: &str| {
        route.as_ref().and_then(|route| route.stop(name)).is_some_and(|stop| stop.upstreams.is_empty())
    };
    let has_come =
        |name: &str| newer.status.as_ref().is_some_and(|status| status.environments.contains_key(name));
    left.missing.iter().all(|name| left.has_reached(name))
        && left.missing.iter().any(|name| !starts_there(name) && !has_come(name))
}

/// Whether one Bundle takes another one back where that one has been, before an environment that it has not reached yet:
/// what would arrive there was found wanting, and the soak of the environments before has ended.
fn takes_back_before(pipeline: &Pipeline, back: &Bundle, bundle: &Bundle, left: &Left<'_>) -> bool {
    if rollback_of(back) != Some(name_of(&bundle.metadata)) {
        return false;
    }
    let Ok(route) = Route::whole(&pipeline.spec) else { return false };
    let before: BTreeSet<&str> = left.missing.iter().flat_map(|name| route.ancestors(name)).collect();
    meant_for(Some(pipeline), back)
        .iter()
        .any(|name| before.contains(name.as_str()) && left.has_reached(name))
}

/// Whether a Bundle that is on its way now will give way to one that is about to be created.
pub(crate) fn gives_way(pipeline: &Pipeline, bundle: &Bundle, newer: &Bundle) -> bool {
    if phase_of(bundle).is_some_and(is_finished) {
        return false;
    }
    let record = bundle.status.as_ref().map(|status| status.environments.clone()).unwrap_or_default();
    let Some(missing) = missing(meant_for(Some(pipeline), bundle), &record) else { return false };
    yields(Some(pipeline), bundle, newer, &Left { missing: &missing, record: &record }).is_some()
}

/// What a Bundle has not reached of its way; `None` when nothing is left.
fn missing(
    way: BTreeSet<String>,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> Option<BTreeSet<String>> {
    let verified = |name: &String| {
        environments.get(name).and_then(|entry| entry.state) == Some(PromotionState::Verified)
    };
    let missing: BTreeSet<String> = way.into_iter().filter(|name| !verified(name)).collect();
    (!missing.is_empty()).then_some(missing)
}

/// Whether a newer Bundle makes an older one pointless in these environments: it goes to all of them and carries the same
/// kinds of things.
fn replaces(
    pipeline: Option<&Pipeline>,
    newer: &Bundle,
    older: &Bundle,
    environments: &BTreeSet<String>,
) -> bool {
    let kind = newer.spec.kind();
    (kind == older.spec.kind() || kind == BundleType::Mixed)
        // Of the same second, the names would decide which of the two is newer.
        && rollback_of(older) != Some(name_of(&newer.metadata))
        && meant_for(pipeline, newer).is_superset(environments)
}

fn is_pinned(bundle: &Bundle) -> bool {
    is_true(annotation_of(&bundle.metadata, PIN_ANNOTATION))
}

/// The Bundles after this one that go to all of these environments with the same kinds of things, whatever has become of
/// them.
pub(super) fn successors<'a>(
    snapshot: &Snapshot<'a>,
    environments: &BTreeSet<String>,
) -> impl Iterator<Item = &'a Bundle> {
    let Snapshot { bundle, pipeline, around, .. } = *snapshot;
    let later = snapshot.siblings().filter(|sibling| comes_after(sibling, bundle, &around.others));
    later.filter(move |sibling| replaces(pipeline, sibling, bundle, environments))
}

/// Whether one Bundle counts as the later one of two.
fn comes_after(one: &Bundle, other: &Bundle, siblings: &[Bundle]) -> bool {
    let is_newer = age(&one.metadata) > age(&other.metadata);
    goes_further(one, other, siblings) || is_newer && !goes_further(other, one, siblings)
}

/// Whether an automatic rollback takes back more than another one: also what lay below that one's version. A rollback that
/// is put off is made when the newer version fails, which makes one of its own: of the same second, the names would decide.
fn goes_further(one: &Bundle, other: &Bundle, siblings: &[Bundle]) -> bool {
    // One that has arrived may have done so before the other one's version came.
    let is_under_way = |bundle: &Bundle| !phase_of(bundle).is_some_and(is_finished);
    let undone = |bundle: &Bundle| {
        let name = rollback_of(bundle).filter(|_| is_automatic_rollback(bundle) && is_under_way(bundle))?;
        siblings.iter().find(|sibling| name_of(&sibling.metadata) == name)
    };
    let (Some(lower), Some(upper)) = (undone(one), undone(other)) else { return false };
    // One that was made before the other one's version came had not that one to take back.
    age(&lower.metadata) < age(&upper.metadata) && created_at(&upper.metadata) <= created_at(&one.metadata)
}

/// Whether a Bundle is on its way or has arrived, and stays.
pub(super) fn is_current(bundle: &Bundle) -> bool {
    matches!(phase_of(bundle), Some(BundlePhase::Promoting | BundlePhase::Verified))
        && bundle.metadata.deletion_timestamp.is_none()
}

/// The environments that a Bundle goes to, from the Pipeline as it stands and from its own record.
pub(super) fn meant_for(pipeline: Option<&Pipeline>, bundle: &Bundle) -> BTreeSet<String> {
    let route =
        pipeline.and_then(|pipeline| Route::intended(&pipeline.spec, bundle.spec.intent.as_ref()).ok());
    let planned = route.iter().flat_map(Route::names).map(str::to_owned);
    let recorded = bundle.status.iter().flat_map(|status| status.environments.keys().cloned());
    planned.chain(recorded).collect()
}

/// Whether the Bundle has fallen out of its Pipeline's history. One that is pinned, that some environment has now, or that
/// it was verified with last, stays: it is what a promotion goes on from and a rollback goes back to.
pub(super) fn is_history(snapshot: &Snapshot<'_>) -> bool {
    let bundle = snapshot.bundle;
    let Some(pipeline) = snapshot.pipeline else { return false };
    if is_pinned(bundle) {
        return false;
    }
    let newer = snapshot
        .siblings()
        .filter(|sibling| {
            phase_of(sibling).is_some_and(is_finished) && age(&sibling.metadata) > age(&bundle.metadata)
        })
        .count();
    if newer < usize::try_from(pipeline.spec.history_limit()).unwrap_or(usize::MAX) {
        return false;
    }
    let is_last = |name: &String| {
        let Some(at) = verified_at(bundle, name) else { return false };
        let mut later = snapshot.siblings().filter(|sibling| verified_at(sibling, name) > Some(at));
        // Images and configuration stand beside each other.
        !later.any(|sibling| intent::carries_kind(sibling, bundle.spec.kind()))
    };
    let all: Vec<&Bundle> = snapshot.siblings().chain([bundle]).collect();
    let is_there = |name: &String| {
        intent::presents(&all, name).iter().any(|one| one.metadata.name == bundle.metadata.name)
    };
    !bundle
        .status
        .iter()
        .flat_map(|status| status.environments.keys())
        .any(|name| is_last(name) || is_there(name))
}
