//! What a pass over one Repository is decided from. Only reads.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kardinal_api::forge::Repository;
use kardinal_forge::{Error, Store};
use kardinal_planner::forge::repository::{Facts, Snapshot};

use super::Kind;
use crate::forge::{look_again, on_disk};
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::get;
use crate::reconcile::pass::{Observed, sight};

/// What was seen of one Repository.
pub(crate) struct Observation {
    pub(super) key: Key,
    repository: Repository,
    facts: Option<Facts>,
    problem: Option<String>,
    clone_prefix: String,
    now: Timestamp,
}

impl Observed for Observation {
    fn metadata(&self) -> &ObjectMeta {
        &self.repository.metadata
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

impl Observation {
    /// What a decision is made from.
    pub(super) fn snapshot(&self) -> Snapshot<'_> {
        Snapshot {
            repository: &self.repository,
            facts: self.facts.clone(),
            problem: self.problem.as_deref(),
            clone_prefix: &self.clone_prefix,
            now: self.now,
        }
    }
}

/// Reads the Repository out of the watches, and what there is of it on disk.
pub(super) async fn observe(kind: &Kind, key: &Key) -> Result<Observation, Next> {
    let view = sight::<Kind>(&kind.context)?;
    let now = kind.context.clock.now();
    let repository: Repository = get(&view, &key.0, &key.1).ok_or(Next::Never)?;
    drop(view);
    let (namespace, name) = key.clone();
    let found = on_disk(&kind.local.store, move |store| facts_of(store, &namespace, &name)).await;
    let (facts, problem) = match found {
        Ok(facts) => (facts, None),
        Err(Error::Problem(message)) => (None, Some(message)),
        Err(Error::Fault(message)) => return Err(look_again(key, &message, now)),
    };
    let (key, clone_prefix) = (key.clone(), kind.local.url.clone());
    Ok(Observation { key, repository, facts, problem, clone_prefix, now })
}

fn facts_of(store: &Store, namespace: &str, name: &str) -> Result<Option<Facts>, Error> {
    if !store.exists(namespace, name) {
        return Ok(None);
    }
    let default_branch = store.default_branch(namespace, name)?.unwrap_or_default();
    let head = store.tip(namespace, name, &default_branch)?;
    Ok(Some(Facts { default_branch, head }))
}
