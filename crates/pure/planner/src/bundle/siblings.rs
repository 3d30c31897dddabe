//! A Bundle among the others of its Pipeline: which one takes its place, which one it goes back to, and whether it is
//! still needed.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::graph::Graph;
use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleType, EnvironmentStatus, PIN_ANNOTATION, Pipeline, Predecessor, PromotionState,
};
use kardinal_object::{age, annotation_of, is_true, name_of};

use super::check::verified_at;
use super::plan::{is_finished, phase_of};
use super::report::course;
use super::{Effect, Route, Snapshot, is_automatic_rollback, is_rollback};
use crate::condition::Note;
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
        Some(graph) => course(graph).environments.into_iter().collect(),
        None => meant_for(snapshot.pipeline, bundle),
    };
    let missing = missing(way, environments)?;
    // A pin keeps newer versions away; to take this one back is meant for it alone.
    let back = snapshot.siblings.iter().copied().filter(|sibling| is_current(sibling)).find(|sibling| {
        snapshot
            .pipeline
            .is_some_and(|pipeline| takes_back_before(pipeline, sibling, bundle, (&missing, environments)))
    });
    if let Some(back) = back {
        return Some(format!("`{}` takes it back in an environment before", name_of(&back.metadata)));
    }
    let newer = successor(snapshot, &missing).filter(|_| !is_pinned(bundle))?;
    if is_awaited(snapshot, newer, (&missing, environments)) {
        return None;
    }
    Some(format!("`{}` is newer and goes to the same environments", name_of(&newer.metadata)))
}

/// Whether nothing is left of a Bundle's way but to await the health of environments that have it: somebody has to find out
/// whether they are well until the newer one stands before them itself. It may never come so far. A Bundle that would go on
/// from there does not stay: it would carry the older version further.
fn is_awaited(
    snapshot: &Snapshot<'_>,
    newer: &Bundle,
    (missing, environments): (&BTreeSet<String>, &BTreeMap<String, EnvironmentStatus>),
) -> bool {
    let pipeline = snapshot.pipeline;
    let route = pipeline.and_then(|one| Route::intended(&one.spec, newer.spec.intent.as_ref()).ok());
    let starts_there = |name: &str| {
        route.as_ref().and_then(|route| route.stop(name)).is_some_and(|stop| stop.upstreams.is_empty())
    };
    let has_come =
        |name: &str| newer.status.as_ref().is_some_and(|status| status.environments.contains_key(name));
    let has_it = |name: &String| environments.get(name).is_some_and(|entry| entry.promoted_at.is_some());
    missing.iter().all(has_it) && missing.iter().any(|name| !starts_there(name) && !has_come(name))
}

/// Whether one Bundle takes another one back where that one has been, before an environment that it has not reached yet:
/// what would arrive there was found wanting, and the soak of the environments before has ended.
fn takes_back_before(
    pipeline: &Pipeline,
    back: &Bundle,
    bundle: &Bundle,
    (missing, record): (&BTreeSet<String>, &BTreeMap<String, EnvironmentStatus>),
) -> bool {
    if rollback_of(back) != Some(name_of(&bundle.metadata)) {
        return false;
    }
    let Ok(route) = Route::whole(&pipeline.spec) else { return false };
    let before: BTreeSet<&str> = missing.iter().flat_map(|name| route.ancestors(name)).collect();
    let received = |name: &String| record.get(name).is_some_and(|entry| entry.promoted_at.is_some());
    meant_for(Some(pipeline), back).iter().any(|name| before.contains(name.as_str()) && received(name))
}

/// Whether a Bundle that is on its way now will give way to one that is about to be created.
pub(crate) fn gives_way(pipeline: &Pipeline, bundle: &Bundle, newer: &Bundle) -> bool {
    if phase_of(bundle).is_some_and(is_finished) {
        return false;
    }
    let record = bundle.status.as_ref().map(|status| status.environments.clone()).unwrap_or_default();
    let Some(missing) = missing(meant_for(Some(pipeline), bundle), &record) else { return false };
    takes_back_before(pipeline, newer, bundle, (&missing, &record))
        || (!is_pinned(bundle) && replaces(Some(pipeline), newer, bundle, &missing))
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

/// The newest Bundle after this one that is on its way or verified, and takes its place in these environments.
fn successor<'a>(snapshot: &Snapshot<'a>, environments: &BTreeSet<String>) -> Option<&'a Bundle> {
    let bundle = snapshot.bundle;
    snapshot
        .siblings
        .iter()
        .copied()
        .filter(|sibling| age(&sibling.metadata) > age(&bundle.metadata))
        .filter(|sibling| is_current(sibling))
        .filter(|sibling| replaces(snapshot.pipeline, sibling, bundle, environments))
        .max_by_key(|sibling| age(&sibling.metadata))
}

/// Whether a Bundle is on its way or has arrived, and stays.
fn is_current(bundle: &Bundle) -> bool {
    matches!(phase_of(bundle), Some(BundlePhase::Promoting | BundlePhase::Verified))
        && bundle.metadata.deletion_timestamp.is_none()
}

/// The environments that a Bundle goes to, from the Pipeline as it stands and from its own record.
fn meant_for(pipeline: Option<&Pipeline>, bundle: &Bundle) -> BTreeSet<String> {
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
        .siblings
        .iter()
        .filter(|sibling| {
            phase_of(sibling).is_some_and(is_finished) && age(&sibling.metadata) > age(&bundle.metadata)
        })
        .count();
    if newer < usize::try_from(pipeline.spec.history_limit()).unwrap_or(usize::MAX) {
        return false;
    }
    let is_last = |name: &String| {
        let Some(at) = verified_at(bundle, name) else { return false };
        let mut later = snapshot.siblings.iter().filter(|sibling| verified_at(sibling, name) > Some(at));
        // Images and configuration stand beside each other.
        !later.any(|sibling| intent::carries_kind(sibling, bundle.spec.kind()))
    };
    let all: Vec<&Bundle> = snapshot.siblings.iter().copied().chain([bundle]).collect();
    let is_there = |name: &String| {
        intent::presents(&all, name).iter().any(|one| one.metadata.name == bundle.metadata.name)
    };
    !bundle
        .status
        .iter()
        .flat_map(|status| status.environments.keys())
        .any(|name| is_last(name) || is_there(name))
}

/// What follows from a failure for the environments that received the Bundle.
#[derive(Debug, Default)]
pub(super) struct Return {
    /// The Bundles to create.
    pub(super) effects: Vec<Effect>,
    /// What is done about each environment, and why.
    pub(super) notes: Vec<Note>,
    /// What the status has to tell: versions that should come back and cannot.
    pub(super) lost: Vec<String>,
}

/// Bundles that bring the environments back that received the failed one: for each line of environments only the last
/// one, for a Bundle passes those before it on its way.
pub(super) fn roll_back(
    snapshot: &Snapshot<'_>,
    failed: &[&str],
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> Return {
    let mut all = Return::default();
    let Some(pipeline) = snapshot.pipeline else { return all };
    let Ok(route) = Route::whole(&pipeline.spec) else { return all };
    if !pipeline.spec.auto_rollback() || is_rollback(snapshot.bundle) {
        return all;
    }
    let received: BTreeSet<&str> = failed
        .iter()
        .flat_map(|name| route.ancestors(name).into_iter().chain([*name]))
        .filter(|name| route.contains(name))
        .filter(|name| environments.get(*name).is_some_and(|entry| entry.promoted_at.is_some()))
        .collect();
    let last = |name: &&&str| !received.iter().any(|other| route.ancestors(other).contains(**name));
    for name in received.iter().filter(last) {
        roll_back_one(snapshot, pipeline, name, &mut all);
    }
    all
}

/// How one environment that got the Bundle comes back.
fn roll_back_one(snapshot: &Snapshot<'_>, pipeline: &Pipeline, name: &str, all: &mut Return) {
    let mut note = |reason: &str, message: String| {
        all.notes.push(Note { warning: true, reason: reason.to_owned(), message });
    };
    if let Some(newer) = successor(snapshot, &BTreeSet::from([name.to_owned()])) {
        let newer = name_of(&newer.metadata);
        return note(
            "RollbackNotNeeded",
            format!("`{name}` is not rolled back: `{newer}` is on its way there"),
        );
    }
    let good = intent::verified_before(snapshot.siblings, name, snapshot.bundle);
    let intent::WayBack { good, lost } =
        intent::way_back(pipeline, snapshot.siblings, name, snapshot.bundle, good);
    match (recovery(snapshot, name), good) {
        (Some(made), _) => {
            let made = name_of(&made.metadata);
            note("RollingBack", format!("`{name}` goes back with the Bundle `{made}`"));
        }
        (None, Some(good)) => {
            let bundle = intent::automatic_rollback(snapshot.bundle, name, good);
            let (from, with) = (name_of(&good.metadata), name_of(&bundle.metadata));
            let message = format!("`{name}` goes back to what `{from}` brought, with the Bundle `{with}`");
            note("RollingBack", message);
            all.effects.push(Effect::CreateBundle(Box::new(bundle)));
        }
        (None, None) => {
            note("NothingToRollBackTo", format!("no other Bundle was verified in `{name}` before this one"));
        }
    }
    if let Some(Predecessor { bundle, version, .. }) = lost {
        let instead = match good {
            Some(good) => format!("goes back to `{}` instead", kardinal_policy::version(&good.spec)),
            None => "keeps what has failed, for no other is known to be good there".to_owned(),
        };
        let message = format!(
            "`{name}` cannot go back to `{version}`, which it had before, because the Bundle `{bundle}` was deleted: it \
             {instead}"
        );
        note("PredecessorDeleted", message.clone());
        all.lost.push(message);
    }
}

/// The automatic rollback that exists already, from a pass that could not write down that it was made.
fn recovery<'a>(snapshot: &Snapshot<'a>, environment: &str) -> Option<&'a Bundle> {
    let takes_back = |sibling: &&Bundle| {
        let target = sibling.spec.intent.as_ref().and_then(|intent| intent.target.as_deref());
        is_automatic_rollback(sibling)
            && rollback_of(sibling) == Some(name_of(&snapshot.bundle.metadata))
            && target == Some(environment)
    };
    snapshot.siblings.iter().copied().find(takes_back)
}
