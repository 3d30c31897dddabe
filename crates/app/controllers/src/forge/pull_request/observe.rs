//! What a pass over one pull request is decided from. Only reads.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::forge::{FileStatus, PullRequest, PullRequestFile, Repository};
use kardinal_cluster::View;
use kardinal_cluster::watches::Object;
use kardinal_forge::{Comparison, Error, FileChange, FileDiff, Store};
use kardinal_planner::forge::pull_request::{self as planner, Facts, Merge, Snapshot};
use serde_json::Value;

use super::numbers::{Given, Numbers};
use super::{Kind, Memory};
use crate::Context;
use crate::forge::{facets, look_again, on_disk, warn};
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::{get, gvk, lock, text};
use crate::reconcile::pass::{Observed, Remembered, sight};
use crate::reconcile::routes::view;

/// What was seen of one pull request.
pub(crate) struct Observation {
    pub(super) key: Key,
    pub(super) request: PullRequest,
    repository: Option<Repository>,
    facts: Option<Facts>,
    refused: Option<String>,
    known: Known,
    taken: Vec<u64>,
    kept: Kept,
    url_prefix: String,
    now: Timestamp,
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.request.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

impl Observation {
    /// What a decision is made from.
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            pull_request: &self.request,
            repository: self.repository.as_ref(),
            facts: self.facts.as_ref(),
            refused: self.refused.as_deref(),
            numbers: planner::Numbers {
                taken: &self.taken,
                highest: self.kept.highest,
                is_on_disk: self.kept.is_on_disk,
                given: self.known.given.or(self.kept.given),
            },
            merges: self.known.merges,
            url_prefix: &self.url_prefix,
            now: self.now,
        }
    }

    /// The pull request is given a number, which its status is about to say.
    pub(super) fn give(&self, number: u64) -> Given {
        self.known.numbers.give(number);
        Given { to: self.uid(), number }
    }

    pub(super) fn uid(&self) -> String {
        uid(&self.request)
    }
}

fn uid(request: &PullRequest) -> String {
    request.metadata.uid.clone().unwrap_or_default()
}

/// The repository of a pull request, if there is such a one. It never changes.
pub(super) fn repository(context: &Context, (namespace, name): &Key) -> Option<Key> {
    let view = view::<Kind>(context);
    let request = view.kind(&gvk::<PullRequest>())?.get(Some(namespace), name)?;
    Some((namespace.clone(), text(request.tree(), "/spec/repository").to_owned()))
}

/// Reads the pull request and those beside it out of the watches, and what their repository says on disk.
pub(super) async fn observe(
    kind: &Kind,
    key: &Key,
    remembered: &Remembered<Memory>,
) -> Result<Observation, Next> {
    let view = sight::<Kind>(&kind.context)?;
    let now = kind.context.clock.now();
    let request: PullRequest = get(&view, &key.0, &key.1).ok_or(Next::Never)?;
    let place = (key.0.clone(), request.spec.repository.clone());
    // Another pull request may have had the name when the pass took its turn.
    let known = recall(remembered, &request, &place).ok_or(Next::Now)?;
    let has_number = request.status.as_ref().is_some_and(|status| status.number.is_some());
    let taken = if has_number { Vec::new() } else { taken(&view, key, &known) };
    let repository = get(&view, &place.0, &place.1);
    drop(view);
    let on_disk = look(kind, &request, place).await;
    let (facts, refused) = match on_disk.comparison {
        Ok(comparison) => (comparison.map(facts_of), None),
        Err(Error::Problem(message)) => (None, Some(message)),
        Err(Error::Fault(message)) => return Err(look_again(key, &message, now)),
    };
    let kept = on_disk.kept.unwrap_or_else(|error| {
        warn(key, &error.to_string());
        Kept::default()
    });
    let (key, url_prefix) = (key.clone(), kind.local.url.replace("/git/", "/forge"));
    Ok(Observation { key, request, repository, facts, refused, known, taken, kept, url_prefix, now })
}

/// What this process remembers.
struct Known {
    numbers: Arc<Numbers>,
    /// The number that this pull request was given.
    given: Option<u64>,
    merges: u32,
}

/// What is remembered of exactly this pull request; nothing when the pass has the turn of another repository.
fn recall(remembered: &Remembered<Memory>, request: &PullRequest, repository: &Key) -> Option<Known> {
    let memory = lock(remembered);
    let numbers = memory.numbers.clone().filter(|numbers| numbers.repository == *repository)?;
    let given = memory.given.as_ref().filter(|given| given.to == uid(request)).map(|given| given.number);
    Some(Known { numbers, given, merges: memory.merges })
}

/// The numbers that others have, and the highest that this process gave: one whose write was not answered may be written.
fn taken(view: &View, (namespace, name): &Key, known: &Known) -> Vec<u64> {
    let given = if known.given.is_none() { known.numbers.highest() } else { None };
    let facet = (facets::REPOSITORY, known.numbers.repository.1.clone());
    let all = view.kind(&gvk::<PullRequest>()).map(|all| all.filed(Some(namespace), facet));
    let others = all.into_iter().flatten().filter(|((_, other), _)| other != name);
    let number = |other: &Object| other.tree().pointer("/status/number").and_then(Value::as_u64);
    others.filter_map(|(_, other)| number(other)).chain(given).collect()
}

/// What there is on disk.
struct OnDisk {
    /// What the two branches are to each other, unless they have no say any more or there is no repository.
    comparison: Result<Option<Comparison>, Error>,
    kept: Result<Kept, Error>,
}

/// What is kept of numbers beside the repository.
#[derive(Default)]
struct Kept {
    /// The highest one; absent: it cannot be read.
    highest: Option<u64>,
    /// The one that this pull request was given.
    given: Option<u64>,
    /// Whether the repository is there, so that more can be kept.
    is_on_disk: bool,
}

async fn look(kind: &Kind, request: &PullRequest, (namespace, name): Key) -> OnDisk {
    let request = request.clone();
    let looked = on_disk(&kind.local.store, move |store| {
        let is_on_disk = store.exists(&namespace, &name);
        let is_compared = is_on_disk && planner::is_compared(&request);
        Ok(OnDisk {
            comparison: is_compared.then(|| compare(store, &namespace, &request)).transpose(),
            kept: kept(store, (&namespace, &name), &uid(&request)).map(|kept| Kept { is_on_disk, ..kept }),
        })
    });
    looked.await.unwrap_or_else(|error| OnDisk { comparison: Err(error.clone()), kept: Err(error) })
}

fn compare(store: &Store, namespace: &str, request: &PullRequest) -> Result<Comparison, Error> {
    let last_head = request.status.as_ref().and_then(|status| status.head_commit.as_deref());
    let spec = &request.spec;
    store.compare(namespace, &spec.repository, &spec.base, &spec.head, last_head)
}

fn kept(store: &Store, (namespace, name): (&str, &str), uid: &str) -> Result<Kept, Error> {
    let highest = match store.highest_number(namespace, name, 0) {
        Ok(highest) => highest,
        // No repository can have that name, so nothing is kept of it.
        Err(Error::Problem(_)) => return Ok(Kept { highest: Some(0), ..Kept::default() }),
        Err(fault) => return Err(fault),
    };
    let given = store.given_number(namespace, name, uid)?;
    Ok(Kept { highest: Some(highest), given, is_on_disk: false })
}

fn facts_of(seen: Comparison) -> Facts {
    let file = |file: &FileDiff| PullRequestFile {
        path: file.path.clone(),
        status: match file.change {
            FileChange::Added => FileStatus::Added,
            FileChange::Modified => FileStatus::Modified,
            FileChange::Removed => FileStatus::Removed,
        },
    };
    Facts {
        head_tip: seen.head,
        base_tip: seen.base,
        contained: seen.contained,
        merged: seen.merge_commit.map(|commit| Merge { commit, at: seen.merged_at }),
        conflicts: seen.conflicts,
        additions: seen.files.iter().map(|file| file.additions).sum(),
        deletions: seen.files.iter().map(|file| file.deletions).sum(),
        files: seen.files.iter().map(file).collect(),
    }
}
