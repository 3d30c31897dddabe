//! What becomes of a Repository: it is created once, and then watched.

use jiff::Timestamp;
use kardinal_api::forge::{READY, Repository, RepositoryStatus};

use crate::condition::{NewCondition, Truth};
use crate::sentence;

/// Everything a decision about one Repository is made from.
#[derive(Debug, Clone)]
pub struct RepositorySnapshot<'a> {
    /// The Repository as last seen.
    pub repository: &'a Repository,
    /// What is on disk; nothing when there is nothing.
    pub facts: Option<RepositoryFacts>,
    /// Why creating it was refused for good.
    pub problem: Option<&'a str>,
    /// The part of the clone URL before the namespace, such as `http://127.0.0.1:8080/git`.
    pub clone_prefix: &'a str,
    /// The one `now` of this pass.
    pub now: Timestamp,
}

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The branch that a clone checks out.
    pub default_branch: String,
    /// Its newest commit, unless nothing was pushed yet.
    pub head: Option<String>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryEffect {
    /// Create it, or point it at another default branch. Observe and plan again afterwards.
    Create {
        /// The branch that a clone checks out.
        default_branch: String,
    },
}

/// What to do and what to tell.
pub type RepositoryPlan = sentence::Plan<RepositoryEffect, RepositoryStatus>;

/// Decides what becomes of a Repository.
pub fn plan_repository(snapshot: &RepositorySnapshot<'_>) -> RepositoryPlan {
    let repository = snapshot.repository;
    let meta = &repository.metadata;
    let old = repository.status.clone().unwrap_or_default();
    let branch = repository.spec.default_branch();
    let fits = snapshot.facts.as_ref().is_some_and(|facts| facts.default_branch == branch);
    let wanted = !fits && snapshot.problem.is_none() && meta.deletion_timestamp.is_none();
    let effect = wanted.then(|| RepositoryEffect::Create { default_branch: branch.to_owned() });
    let generation = Some(meta.generation.unwrap_or_default());
    let ready = ready(snapshot, fits);
    let note = ready.is_news(&old.conditions).then(|| ready.note(ready.truth == Truth::False));
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let prefix = snapshot.clone_prefix.trim_end_matches('/');
    let status = RepositoryStatus {
        observed_generation: generation,
        clone_url: snapshot.facts.as_ref().map(|_| format!("{prefix}/{namespace}/{name}.git")),
        head: snapshot.facts.as_ref().filter(|_| fits).and_then(|facts| facts.head.clone()),
        conditions: vec![ready.since(&old.conditions, generation, snapshot.now)],
    };
    let (status, notes) = ((status != old).then_some(status), note.into_iter().collect());
    RepositoryPlan { status, notes, ..RepositoryPlan::in_order(effect) }
}

fn ready(snapshot: &RepositorySnapshot<'_>, fits: bool) -> NewCondition {
    let ready = |truth, reason: &'static str, message: &str| NewCondition::new(READY, truth, reason, message);
    match (snapshot.problem, &snapshot.facts) {
        (Some(problem), _) => ready(Truth::False, "Refused", problem),
        (None, Some(_)) if fits => ready(Truth::True, "Served", "it can be cloned and pushed to"),
        (None, _) => ready(Truth::Unknown, "Creating", "it is being created"),
    }
}
