//! What an environment stands on: the version that it has, and those that it was healthy with before and would go back to.
//!
//! Bundles are deleted, by people and as history, and each takes its part of the past with it. The Pipeline's record keeps
//! what is needed of it: without a rollback that is gone, the version that it took back would seem to be good again.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, Pipeline, Predecessor, Presence};
use kardinal_object::name_of;

use super::content::{Content, Standing, leaving, parts};
use super::history::{History, came, entry, taken_back};
use super::present::{arrived, gone, record_of};

/// So many versions below the present one are on record.
const DEPTH: usize = 5;

/// The versions of one kind of things in an environment.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    kind: BundleType,
    /// What it has.
    present: Option<Predecessor>,
    /// What it was healthy with before and did not take back, the newest first.
    pub(super) below: Vec<Predecessor>,
    /// Of what came until then only what lies below is known: the rest may have been good or taken back.
    pub(super) forgotten_until: Option<Timestamp>,
}

impl Ledger {
    /// What the Pipeline has on record. The Bundle may have been verified since.
    pub(super) fn of(record: &Presence, bundles: &[&Bundle]) -> Ledger {
        let mut present = of_record(record);
        let known = bundles.iter().find(|bundle| is_of(record, bundle, record.kind));
        let since = known.and_then(|bundle| verified_at(bundle, &record.environment));
        present.verified_at = present.verified_at.or(since);
        let below: Vec<Predecessor> = record.before.iter().chain(&record.earlier).cloned().collect();
        let forgotten_until = match record.content {
            Some(_) => record.forgotten_until,
            // An older record does not tell where it begins, nor that it took several builds of a version for one.
            None => {
                below.iter().chain([&present]).filter_map(|one| one.verified_at).chain(arrived(record)).max()
            }
        };
        let mut ledger = Ledger { kind: record.kind, present: Some(present), below, forgotten_until };
        ledger.put_together();
        ledger
    }

    /// What an environment stands on when a Bundle has come. Absent: the record tells nothing of the time before that.
    pub(super) fn until(
        pipeline: &Pipeline,
        bundles: &[&Bundle],
        environment: &str,
        kind: BundleType,
        current: &Bundle,
    ) -> Option<Ledger> {
        let last = record_of(pipeline, environment, kind);
        // Another one may have got its name.
        if let Some(last) = last.filter(|last| is_of(last, current, kind)) {
            return Some(Ledger::of(last, bundles));
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
        let nothing = Ledger { kind, present: None, below: Vec::new(), forgotten_until: None };
        let mut ledger = last.map_or(nothing, |last| Ledger::of(last, bundles));
        for at in first..until {
            let (before, rest) = arrivals.split_at_checked(at)?;
            ledger.advance(rest.first()?, environment, before);
        }
        ledger.advance(current, environment, arrivals.get(..until)?);
        Some(ledger)
    }

    /// A Bundle comes, after others.
    fn advance(&mut self, bundle: &Bundle, environment: &str, before: &[&Bundle]) {
        let content = Content::of(bundle, self.kind);
        let verified_at = verified_at(bundle, environment);
        let mut stack: Vec<Predecessor> = self.present.take().into_iter().collect();
        stack.append(&mut self.below);
        let standing = stack.iter().map(|one| Standing {
            bundle: &one.bundle,
            is_same: content.is(one),
            is_verified: one.verified_at.is_some(),
        });
        let gone = match self.is_beneath(bundle, environment, before) {
            true if !standing.clone().any(|one| one.is_same) => stack.len(),
            _ => leaving(bundle, verified_at.is_some(), standing),
        };
        stack.drain(..gone.min(stack.len()));
        stack.retain(|one| one.verified_at.is_some());
        let cut = stack.get(DEPTH).and_then(|one| one.verified_at);
        stack.truncate(DEPTH);
        self.forgotten_until = self.forgotten_until.max(cut);
        self.below = stack;
        self.present = Some(Predecessor {
            bundle: name_of(&bundle.metadata).to_owned(),
            version: content.version,
            content: Some(content.digest),
            rollback_of: taken_back(bundle).map(str::to_owned),
            verified_at,
        });
        self.put_together();
    }

    /// Whether a rollback brings what lies below everything that is on record.
    fn is_beneath(&self, bundle: &Bundle, environment: &str, before: &[&Bundle]) -> bool {
        let content = parts(bundle, self.kind);
        let same = before.iter().filter(|one| parts(one, self.kind) == content);
        let last = same.filter_map(|one| verified_at(one, environment)).max();
        taken_back(bundle).is_some() && last.is_some() && last <= self.forgotten_until
    }

    /// What came again and is verified now stands for what it was before.
    fn put_together(&mut self) {
        let Some(present) = self.present.as_ref().filter(|present| present.verified_at.is_some()) else {
            return;
        };
        let is_present = |one: &Predecessor| match (&one.content, &present.content) {
            (Some(one), Some(present)) => one == present,
            _ => one.version == present.version,
        };
        let same = self.below.iter().take_while(|one| is_present(one)).count();
        self.below.drain(..same);
    }

    /// Whether it tells more than the Bundles alone: that it has what to go back to, or that there is nothing. Whoever did not
    /// write down contents took several builds of a version for one.
    pub(super) fn decides(&self, own: &Content, good: Option<&Bundle>) -> bool {
        let is_blank = self.below.is_empty() && self.forgotten_until.is_some();
        let is_other_build = good.is_some_and(|good| crate::gate_context::version(&good.spec) == own.version);
        let cannot_tell = is_other_build && self.below.iter().any(|one| one.content.is_none());
        !is_blank && !cannot_tell
    }

    /// Whether an environment has this, or would go back to it.
    pub(super) fn holds(&self, content: &Content) -> bool {
        self.present.iter().chain(&self.below).any(|one| content.is(one))
    }
}

fn verified_at(bundle: &Bundle, environment: &str) -> Option<Timestamp> {
    entry(bundle, environment).and_then(|entry| entry.verified_at)
}

/// The version of a record.
fn of_record(record: &Presence) -> Predecessor {
    Predecessor {
        bundle: record.bundle.clone(),
        version: record.version.clone(),
        content: record.content.clone(),
        rollback_of: record.rollback_of.clone(),
        verified_at: record.verified_at,
    }
}

/// Whether a record is that of a Bundle.
fn is_of(record: &Presence, bundle: &Bundle, kind: BundleType) -> bool {
    record.bundle == name_of(&bundle.metadata) && Content::of(bundle, kind).is(&of_record(record))
}

/// Whether the record tells that a version was taken back: it came within the time that is on record, and the environment
/// neither has it nor would go back to it.
pub(super) fn is_taken_back(
    pipeline: &Pipeline,
    bundles: &[&Bundle],
    environment: &str,
    wanted: &Bundle,
) -> bool {
    let kind = wanted.spec.kind();
    let history = History::of(bundles, environment, kind);
    let ledger = match gone(pipeline, bundles, environment, kind) {
        Some(last) => (last.kind == kind).then(|| Ledger::of(last, bundles)),
        None => {
            let present = history.present().filter(|_| record_of(pipeline, environment, kind).is_some());
            present.and_then(|present| Ledger::until(pipeline, bundles, environment, kind, present))
        }
    };
    let Some(ledger) = ledger.filter(|ledger| !ledger.holds(&Content::of(wanted, kind))) else {
        return false;
    };
    let content = parts(wanted, kind);
    let mut same = history.arrivals().iter().filter(|one| parts(one, kind) == content);
    same.any(|one| verified_at(one, environment) > ledger.forgotten_until)
}
