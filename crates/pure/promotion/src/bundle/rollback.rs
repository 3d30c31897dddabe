//! What follows from a failure for the environments that received the Bundle: each goes back to what was good there.
//!
//! One that a newer Bundle is on its way to does not: the two would fight, and the newer one may be what mends it. Such a
//! rollback is only put off, also one that was made already and has given way. The failed Bundle writes that down, and looks
//! again until the newer one has come there, or has ended before.

use std::collections::{BTreeMap, BTreeSet};

use kardinal_api::kardinal::{
    Bundle, BundlePhase, BundleStatus, DeletedPredecessor, Environment, EnvironmentStatus, OnReject,
    Pipeline, Predecessor,
};
use kardinal_object::{age, name_of};

use super::plan::phase_of;
use super::siblings::{is_current, meant_for, successors};
use super::why::reason::NEWER_ON_ITS_WAY;
use super::{Effect, Plan, Route, Snapshot, failure, is_automatic_rollback, is_rollback, why};
use crate::intent;
use crate::promotion_step::rollback_of;
use kardinal_planner::condition::{self, NewCondition, Note, Truth};
use kardinal_planner::why::{Wait, in_room};

/// The condition of a failed Bundle that says whether a rollback is put off.
pub(super) const PUT_OFF: &str = "RollbackPutOff";
/// Why there is no rollback: another version has come.
const NOT_NEEDED: &str = "RollbackNotNeeded";

/// What follows from a failure.
#[derive(Debug, Default)]
pub(super) struct Return {
    /// The Bundles to create.
    pub(super) effects: Vec<Effect>,
    /// What is done about each environment, and why.
    pub(super) notes: Vec<Note>,
    /// The versions that should come back and cannot.
    pub(super) lost: Vec<DeletedPredecessor>,
    /// What keeps environments from going back for now.
    put_off: Vec<Wait>,
    /// The Bundle that brings each environment back.
    made: BTreeMap<String, String>,
}

impl Return {
    fn note(&mut self, reason: &str, message: String) {
        self.notes.push(Note { warning: true, reason: reason.to_owned(), message });
    }

    /// Writes down what was made, and that somebody has to look again, where that is so.
    pub(super) fn write_down(&self, snapshot: &Snapshot<'_>, status: &mut BundleStatus) {
        status.rollbacks.extend(self.made.clone());
        if let Some(new) = self.condition() {
            set(snapshot, status, new);
            status.rollbacks_put_off = self.environments();
            status.waits = in_room(self.put_off.clone());
        }
    }

    /// The condition that tells what is put off. Absent: nothing is.
    fn condition(&self) -> Option<NewCondition> {
        let messages: Vec<&str> = self.put_off.iter().map(|wait| wait.detail.as_str()).collect();
        let condition = || NewCondition::new(PUT_OFF, Truth::True, NEWER_ON_ITS_WAY, messages.join("; "));
        (!messages.is_empty()).then(condition)
    }

    fn environments(&self) -> Vec<String> {
        self.put_off.iter().filter_map(why::environment).map(str::to_owned).collect()
    }
}

/// Puts a condition into a status in the place of the one before.
pub(super) fn set(snapshot: &Snapshot<'_>, status: &mut BundleStatus, new: NewCondition) {
    let type_ = new.type_;
    let condition = new.since(&status.conditions, snapshot.bundle.metadata.generation, snapshot.now);
    status.conditions.retain(|one| one.type_ != type_);
    status.conditions.push(condition);
}

/// Whether a rollback of the Bundle is put off.
pub(super) fn is_put_off(bundle: &Bundle) -> bool {
    let failed = bundle.status.as_ref().filter(|status| status.phase == Some(BundlePhase::Failed));
    let condition = failed.and_then(|status| condition::find(&status.conditions, PUT_OFF));
    condition.is_some_and(|condition| condition::is(condition, Truth::True))
}

/// Bundles that bring the environments back that received the failed one.
pub(super) fn roll_back(
    snapshot: &Snapshot<'_>,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> Return {
    let mut all = Return::default();
    if let Some(pipeline) = snapshot.pipeline {
        for name in to_bring_back(snapshot, pipeline, environments) {
            roll_back_one(snapshot, pipeline, (name, environments), &mut all);
        }
    }
    all
}

/// What has become of a rollback that was put off, by a status that tells what the steps say now. Absent: nothing that has
/// to be done or written down.
pub(super) fn look_again(snapshot: &Snapshot<'_>, status: &BundleStatus) -> Option<Plan> {
    let has_failed = phase_of(snapshot.bundle) == Some(BundlePhase::Failed);
    let pipeline = snapshot.pipeline.filter(|pipeline| has_failed && pipeline.spec.auto_rollback())?;
    let gave_way = gave_way(snapshot);
    if !is_put_off(snapshot.bundle) && gave_way.is_empty() {
        return None;
    }
    let bundle = in_time(Bundle { status: Some(status.clone()), ..snapshot.bundle.clone() });
    let others = snapshot.siblings().cloned().map(in_time).collect();
    let around = snapshot.around.clone().with_others(others);
    let snapshot = &Snapshot { bundle: &bundle, around: &around, ..*snapshot };
    let mut status = status.clone();
    let environments = &bundle.status.as_ref()?.environments;
    // What was not put off has its rollback, or had one that somebody did not want.
    let waits = |name: &&str| {
        let listed = &status.rollbacks_put_off;
        gave_way.contains(*name)
            || is_put_off(&bundle) && (listed.is_empty() || listed.iter().any(|one| one == name))
    };
    let names: Vec<&str> =
        to_bring_back(snapshot, pipeline, environments).into_iter().filter(waits).collect();
    let (mut all, mut ended) = (Return::default(), Vec::new());
    if names.is_empty() {
        ended.push((NOT_NEEDED, "no environment has failed with it any more".to_owned()));
    }
    for name in names {
        match no_more(snapshot, pipeline, name) {
            Some(why) => ended.push(why),
            None => roll_back_one(snapshot, pipeline, (name, environments), &mut all),
        }
    }
    let new = all.condition().unwrap_or_else(|| {
        let notes = all.notes.iter().map(|note| (note.reason.as_str(), note.message.clone()));
        let (reasons, messages): (Vec<&str>, Vec<String>) = notes.chain(ended).unzip();
        let reason = reasons.first().copied().unwrap_or(NOT_NEEDED).to_owned();
        NewCondition::new(PUT_OFF, Truth::False, reason, messages.join("; "))
    });
    let put_off = all.environments();
    let waits = in_room(std::mem::take(&mut all.put_off));
    let is_known = status.rollbacks_put_off == put_off && status.waits == waits;
    if all.effects.is_empty() && !new.is_news(&status.conditions) && is_known {
        return None;
    }
    failure::add(&mut status, all.lost);
    failure::tell(&mut status);
    set(snapshot, &mut status, new);
    status.rollbacks_put_off = put_off;
    status.waits = waits;
    status.rollbacks.append(&mut all.made);
    Some(Plan { status: Some(status), notes: all.notes, ..Plan::in_order(all.effects) })
}

/// A Bundle with its failures where they belong in time. When a change went in is what a forge says, whose clock may be
/// behind: what was verified before would seem to have come after it.
fn in_time(mut bundle: Bundle) -> Bundle {
    let record = bundle.status.iter_mut().flat_map(|status| status.environments.values_mut());
    for entry in record.filter(|entry| entry.promoted_at.is_some()) {
        entry.promoted_at = entry.promoted_at.max(entry.failed_at);
    }
    bundle
}

/// Why an environment needs no rollback any more, in one word and in words.
fn no_more(snapshot: &Snapshot<'_>, pipeline: &Pipeline, name: &str) -> Option<(&'static str, String)> {
    let (bundle, kind) = (snapshot.bundle, snapshot.bundle.spec.kind());
    let all: Vec<&Bundle> = snapshot.siblings().chain([bundle]).collect();
    let present = intent::History::of(&all, name, kind).present();
    let is_there = present.is_some_and(|present| present.metadata.name == bundle.metadata.name);
    if !is_there || intent::gone(pipeline, &all, name, kind).is_some() {
        return Some((NOT_NEEDED, format!("`{name}` has another version now")));
    }
    let has_failed = |sibling: &&Bundle| {
        rollback_of(sibling) == Some(name_of(&bundle.metadata))
            && phase_of(sibling) == Some(BundlePhase::Failed)
            && meant_for(Some(pipeline), sibling).contains(name)
    };
    let back = snapshot.siblings().find(has_failed)?;
    let back = name_of(&back.metadata);
    Some(("RollbackFailed", format!("`{back}` was to take it back in `{name}` and has failed")))
}

/// The environments to bring back: for each line of environments only the last one that received the Bundle, for another
/// one passes those before it on its way.
fn to_bring_back<'a>(
    snapshot: &Snapshot<'a>,
    pipeline: &'a Pipeline,
    environments: &'a BTreeMap<String, EnvironmentStatus>,
) -> Vec<&'a str> {
    let Ok(route) = Route::whole(&pipeline.spec) else { return Vec::new() };
    if !pipeline.spec.auto_rollback() || is_rollback(snapshot.bundle) {
        return Vec::new();
    }
    let failed = failure::failed(environments).filter(|(name, entry)| {
        entry.rejected != Some(true) || on_reject(pipeline, name) == OnReject::Rollback
    });
    let received: BTreeSet<&str> = failed
        .flat_map(|(name, _)| route.ancestors(name).into_iter().chain([name.as_str()]))
        .filter_map(|name| environments.get_key_value(name))
        .filter(|(name, entry)| route.contains(name) && entry.promoted_at.is_some())
        .map(|(name, _)| name.as_str())
        .collect();
    let last = |name: &&str| !received.iter().any(|other| route.ancestors(other).contains(*name));
    received.iter().copied().filter(last).collect()
}

/// What the Pipeline wants for the environments before one whose pull request was closed.
fn on_reject(pipeline: &Pipeline, environment: &str) -> OnReject {
    let found = pipeline.spec.environments.iter().find(|found| found.name == environment);
    found.map(Environment::on_reject).unwrap_or_default()
}

/// How one environment that got the Bundle comes back.
fn roll_back_one(
    snapshot: &Snapshot<'_>,
    pipeline: &Pipeline,
    (name, environments): (&str, &BTreeMap<String, EnvironmentStatus>),
    all: &mut Return,
) {
    let made = recovery(snapshot, name);
    if let Some(newer) = coming(snapshot, name, environments).filter(|_| made.is_none()) {
        let wait = why::put_off(name, name_of(&newer.metadata));
        all.note(NEWER_ON_ITS_WAY, wait.detail.clone());
        return all.put_off.push(wait);
    }
    let siblings: Vec<&Bundle> = snapshot.siblings().collect();
    let good = intent::verified_before(&siblings, name, snapshot.bundle);
    let intent::WayBack { good, lost } = intent::way_back(pipeline, &siblings, name, snapshot.bundle, good);
    match (made, good) {
        (Some(made), _) => {
            let made = name_of(&made.metadata);
            all.made.insert(name.to_owned(), made.to_owned());
            all.note("RollingBack", format!("`{name}` goes back with the Bundle `{made}`"));
        }
        (None, Some(good)) => {
            let bundle = intent::automatic_rollback(snapshot.bundle, name, good, &siblings);
            let (from, with) = (name_of(&good.metadata), name_of(&bundle.metadata));
            let message = format!("`{name}` goes back to what `{from}` brought, with the Bundle `{with}`");
            all.note("RollingBack", message);
            all.made.insert(name.to_owned(), name_of(&bundle.metadata).to_owned());
            all.effects.push(Effect::CreateBundle(Box::new(bundle)));
        }
        (None, None) => {
            let message = format!("no other Bundle was verified in `{name}` before this one");
            all.note("NothingToRollBackTo", message);
        }
    }
    if let Some(Predecessor { bundle, version, .. }) = lost {
        let instead = good.map(|good| crate::gate_context::version(&good.spec));
        let lost = DeletedPredecessor { environment: name.to_owned(), bundle, version, instead };
        all.note("PredecessorDeleted", failure::predecessor_deleted(&lost));
        all.lost.push(lost);
    }
}

/// The newest Bundle that is on its way to an environment, or has come there, after this one.
fn coming<'a>(
    snapshot: &Snapshot<'a>,
    name: &str,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> Option<&'a Bundle> {
    let place = BTreeSet::from([name.to_owned()]);
    let mut own = snapshot.bundle.clone();
    own.status.get_or_insert_default().environments.clone_from(environments);
    let own = in_time(own);
    let all: Vec<&Bundle> = snapshot.siblings().chain([&own]).collect();
    let history = intent::History::of(&all, name, own.spec.kind());
    let has_come = |bundle: &Bundle| {
        let mut record = bundle.status.iter().flat_map(|status| &status.environments);
        record.any(|(environment, entry)| environment == name && entry.promoted_at.is_some())
    };
    // One that was there before this one came is not on its way any more, and one that is verified and was never there was
    // not meant for it when it set out.
    let comes = |bundle: &&Bundle| match has_come(bundle) {
        true => is_current(bundle) && history.is_after(bundle, &own),
        false => is_current(bundle) && phase_of(bundle) == Some(BundlePhase::Promoting),
    };
    successors(snapshot, &place).filter(comes).max_by_key(|bundle| age(&bundle.metadata))
}

/// The automatic rollback that exists already, from a pass that could not write down that it was made. One that has given
/// way to a newer Bundle does not count: that one may end before it comes.
fn recovery<'a>(snapshot: &Snapshot<'a>, environment: &str) -> Option<&'a Bundle> {
    let is_it = |sibling: &&Bundle| {
        brings_back(snapshot, sibling) == Some(environment)
            && phase_of(sibling) != Some(BundlePhase::Superseded)
    };
    snapshot.siblings().find(is_it)
}

/// The environments whose automatic rollback, the last one that was made, has given way to another Bundle. One that is gone
/// since was not wanted.
fn gave_way(snapshot: &Snapshot<'_>) -> BTreeSet<String> {
    let known = snapshot.bundle.status.as_ref().map(|status| &status.rollbacks);
    let is_last = |sibling: &Bundle| {
        let place = brings_back(snapshot, sibling);
        let last = place.and_then(|place| known?.get(place));
        last.is_none_or(|last| last == name_of(&sibling.metadata))
    };
    let superseded =
        |sibling: &&Bundle| phase_of(sibling) == Some(BundlePhase::Superseded) && is_last(sibling);
    let given = snapshot.siblings().filter(superseded);
    let names = given.filter_map(|sibling| brings_back(snapshot, sibling));
    names.filter(|name| recovery(snapshot, name).is_none()).map(str::to_owned).collect()
}

/// The environment that a Bundle brings back by itself from this one.
fn brings_back<'a>(snapshot: &Snapshot<'_>, sibling: &'a Bundle) -> Option<&'a str> {
    let is_ours =
        is_automatic_rollback(sibling) && rollback_of(sibling) == Some(name_of(&snapshot.bundle.metadata));
    sibling.spec.intent.as_ref().filter(|_| is_ours)?.target.as_deref()
}
