//! What a pass over one pull request is decided from. Only reads.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::forge::{FileStatus, PullRequest, PullRequestFile, Repository};
use kardinal_cluster::View;
use kardinal_cluster::watches::Object;
use kardinal_forge::{Comparison, Error, FileChange, FileDiff, LastNumber, Store};
use kardinal_planner::forge::pull_request::{self as planner, Facts, Merge, Snapshot};
use serde_json::Value;

use super::issuer::Issuer;
use super::{Given, Kind, Memory};
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
    issuer: Arc<Issuer>,
    /// The numbers that others have.
    taken: Vec<u64>,
    /// The number that this one was given, as this process remembers it.
    given: Option<u64>,
    /// The number that was given last, as the disk has it; absent: it cannot be read.
    last_number: Option<LastNumber>,
    is_on_disk: bool,
    merges: u32,
    pages: String,
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
        let last = self.last_number.as_ref();
        let own = last.filter(|last| last.given_to.as_deref() == Some(self.uid().as_str()));
        Snapshot {
            pull_request: &self.request,
            repository: self.repository.as_ref(),
            facts: self.facts.as_ref(),
            refused: self.refused.as_deref(),
            numbers: planner::Numbers {
                taken: &self.taken,
                highest: last.map(|last| last.number),
                is_on_disk: self.is_on_disk,
                given: self.given.or(own.map(|last| last.number)),
            },
            merges: self.merges,
            url_prefix: &self.pages,
            now: self.now,
        }
    }

    /// The pull request is given a number, which its status is about to say.
    pub(super) fn give(&self, number: u64) -> Given {
        self.issuer.give(number);
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
    let (issuer, given, merges) = recall(remembered, &request, &place).ok_or(Next::Now)?;
    let has_number = request.status.as_ref().is_some_and(|status| status.number.is_some());
    let taken = if has_number { Vec::new() } else { taken(&view, key, &issuer, given) };
    let repository = get(&view, &place.0, &place.1);
    drop(view);
    let Disk { is_there, comparison, last_number } = look(kind, &request, place).await;
    let (facts, refused) = match comparison {
        Ok(comparison) => (comparison.map(facts_of), None),
        Err(Error::Problem(message)) => (None, Some(message)),
        Err(Error::Fault(message)) => return Err(look_again(key, &message, now)),
    };
    let last_number = last_number.map_err(|error| warn(key, &error.to_string())).ok();
    Ok(Observation {
        key: key.clone(),
        request,
        repository,
        facts,
        refused,
        issuer,
        taken,
        given,
        last_number,
        is_on_disk: is_there,
        merges,
        pages: kind.pages.clone(),
        now,
    })
}

/// What is remembered of exactly this pull request: who gives numbers, the one that it was given, and how many merges were
/// tried. Nothing when the pass has the turn of another repository.
fn recall(
    remembered: &Remembered<Memory>,
    request: &PullRequest,
    repository: &Key,
) -> Option<(Arc<Issuer>, Option<u64>, u32)> {
    let memory = lock(remembered);
    let issuer = memory.issuer.clone().filter(|issuer| issuer.repository == *repository)?;
    let given = memory.given.as_ref().filter(|given| given.to == uid(request)).map(|given| given.number);
    Some((issuer, given, memory.merges))
}

/// The numbers that others have, and the highest that this process gave: one whose write was not answered may be written.
fn taken(view: &View, (namespace, name): &Key, issuer: &Issuer, given: Option<u64>) -> Vec<u64> {
    let highest = if given.is_none() { issuer.highest() } else { None };
    let facet = (facets::REPOSITORY, issuer.repository.1.clone());
    let all = view.kind(&gvk::<PullRequest>()).map(|all| all.filed(Some(namespace), facet));
    let others = all.into_iter().flatten().filter(|((_, other), _)| other != name);
    let number = |other: &Object| other.tree().pointer("/status/number").and_then(Value::as_u64);
    others.filter_map(|(_, other)| number(other)).chain(highest).collect()
}

/// What the disk says.
struct Disk {
    /// Whether the repository is there.
    is_there: bool,
    /// What the two branches are to each other, unless they have no say any more or there is no repository.
    comparison: Result<Option<Comparison>, Error>,
    last_number: Result<LastNumber, Error>,
}

async fn look(kind: &Kind, request: &PullRequest, (namespace, name): Key) -> Disk {
    let request = request.clone();
    let looked = on_disk(&kind.local.store, move |store| {
        let is_there = store.exists(&namespace, &name);
        let is_compared = is_there && planner::is_compared(&request);
        let comparison = is_compared.then(|| compare(store, &namespace, &request)).transpose();
        Ok(Disk { is_there, comparison, last_number: last_number(store, &namespace, &name) })
    });
    let failed =
        |error: Error| Disk { is_there: false, comparison: Err(error.clone()), last_number: Err(error) };
    looked.await.unwrap_or_else(failed)
}

fn last_number(store: &Store, namespace: &str, name: &str) -> Result<LastNumber, Error> {
    match store.last_number(namespace, name) {
        // No repository can have that name, so nothing is kept of it.
        Err(Error::Problem(_)) => Ok(LastNumber::default()),
        read => read,
    }
}

fn compare(store: &Store, namespace: &str, request: &PullRequest) -> Result<Comparison, Error> {
    let last_head = request.status.as_ref().and_then(|status| status.head_commit.as_deref());
    let spec = &request.spec;
    store.compare(namespace, &spec.repository, &spec.base, &spec.head, last_head)
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
