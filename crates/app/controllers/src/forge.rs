//! The local forge's controller. It works repository by repository: the pull requests of one repository are looked at
//! one after the other, so that two of them never get the same number.

use std::sync::Arc;

use jiff::Timestamp;
use kardinal_api::forge::{FileStatus, PullRequest, PullRequestFile, Repository};
use kardinal_api::kardinal::PromotionStep;
use kardinal_cluster::{Change, View};
use kardinal_forge::{Author, Comparison, Error, FileChange, MergeOrder, Store};
use kardinal_object::Gvk;
use kardinal_planner::forge::{
    self as planner, MANAGER, Merge, PullRequestEffect, PullRequestSnapshot, RepoFacts, RepositoryEffect,
    RepositoryFacts, RepositorySnapshot,
};
use serde_json::Value;

use crate::reconcile::driver::{self, Key, Next};
use crate::reconcile::objects::{self, about, all_keys, before_and_after, get, gvk, key_of, list, text};
use crate::{Context, LocalForge, facets};

/// Keeps repositories, and merges or closes pull requests when somebody says so.
pub(crate) struct Controller {
    context: Arc<Context>,
    local: LocalForge,
}

impl Controller {
    /// Watches what every repository needs.
    pub(crate) fn new(context: Arc<Context>, local: LocalForge) -> Controller {
        for kind in kinds() {
            context.watches.ensure(&kind);
        }
        Controller { context, local }
    }

    /// Whether only pull requests and kardinal may change a branch.
    pub(crate) fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        let found = get::<Repository>(&self.view(), namespace, repository);
        found.is_none_or(|repository| planner::protects(&repository.spec, branch))
    }

    /// The repository of ours that a step has just pushed to, without asking the forge.
    fn pushed_by(&self, step: &Value, change: &Change) -> Option<Key> {
        let commit = |step| text(step, "/status/outputs/commit");
        let (before, _) = before_and_after(change);
        if before.map(commit).unwrap_or_default() == commit(step) {
            return None;
        }
        let place = text(step, "/spec/git/url").strip_prefix(&self.local.url)?;
        let (namespace, name) = place.trim_end_matches(".git").split_once('/')?;
        Some((namespace.to_owned(), name.to_owned()))
    }

    fn view(&self) -> View {
        self.context.watches.view(&kinds())
    }

    /// Does something with the repositories, where blocking is allowed.
    async fn on_disk<T: Send + 'static>(
        &self,
        deed: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.local.store.clone();
        let done = tokio::task::spawn_blocking(move || deed(&store)).await;
        done.unwrap_or_else(|error| Err(Error::Fault(format!("work on a repository was cut short: {error}"))))
    }

    async fn keep_repository(&self, key: &Key, repository: &Repository, now: Timestamp) -> Result<(), Error> {
        let mut problem: Option<String> = None;
        // Somebody may mend it on disk, of which nobody tells us: it is looked at again.
        let mut unusable: Option<String> = None;
        loop {
            let (namespace, name) = key.clone();
            let facts = match self.on_disk(move |store| facts_of(store, &namespace, &name)).await {
                Err(Error::Problem(message)) => {
                    unusable = Some(message.clone());
                    problem = Some(message);
                    None
                }
                facts => facts?,
            };
            let plan = planner::plan_repository(&RepositorySnapshot {
                repository,
                facts,
                problem: problem.as_deref(),
                clone_prefix: &self.local.url,
                now,
            });
            if let Some(RepositoryEffect::Create { default_branch }) = plan.effects.into_iter().next() {
                let (namespace, name) = key.clone();
                let made = self.on_disk(move |store| store.create(&namespace, &name, &default_branch)).await;
                match made {
                    Ok(_) => continue,
                    Err(Error::Problem(message)) => {
                        problem = Some(message);
                        continue;
                    }
                    Err(fault) => return Err(fault),
                }
            }
            if let Some(status) = plan.status {
                let id = objects::id::<Repository>(key);
                let told =
                    self.context.report(MANAGER, &id, &repository.metadata, &status, &plan.notes, now).await;
                settled(told)?;
            }
            return unusable.map_or(Ok(()), |message| Err(Error::Problem(message)));
        }
    }

    async fn keep_pull_request(
        &self,
        repository: Option<&Repository>,
        request: &PullRequest,
        taken: &[u64],
        now: Timestamp,
    ) -> Result<Option<u64>, Error> {
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        let mut attempts = 0;
        loop {
            let (facts, refused) = match self.compare(&namespace, request).await {
                Ok(facts) => (facts, None),
                Err(Error::Problem(message)) => (None, Some(message)),
                Err(fault) => return Err(fault),
            };
            let plan = planner::plan_pull_request(&PullRequestSnapshot {
                pull_request: request,
                repository,
                facts: facts.as_ref(),
                refused: refused.as_deref(),
                numbers_taken: taken,
                url_prefix: &self.local.url.replace("/git/", "/forge"),
                now,
            });
            attempts += 1;
            // A branch that moves again and again is looked at in a later pass.
            if let (Some(effect), true) = (plan.effects.into_iter().next(), attempts < 4) {
                let (namespace, name) = (namespace.clone(), request.spec.repository.clone());
                self.on_disk(move |store| store.merge(&namespace, &name, &merge_order(effect))).await?;
                continue;
            }
            let Some(status) = plan.status else { return Ok(None) };
            let key = (namespace.clone(), request.metadata.name.clone().unwrap_or_default());
            let id = objects::id::<PullRequest>(&key);
            settled(self.context.report(MANAGER, &id, &request.metadata, &status, &plan.notes, now).await)?;
            // A number that was given is never given again. Only then: what was not written down leaves no gap.
            self.highest_number(&(namespace, request.spec.repository.clone()), status.number).await?;
            return Ok(status.number);
        }
    }

    /// The highest number that a pull request of the repository ever had, which is kept with the repository. `number` is
    /// one of them.
    async fn highest_number(&self, key: &Key, number: Option<u64>) -> Result<Option<u64>, Error> {
        let (namespace, name) = key.clone();
        self.on_disk(move |store| match store.exists(&namespace, &name) {
            true => store.highest_number(&namespace, &name, number.unwrap_or_default()).map(Some),
            false => Ok(None),
        })
        .await
    }

    async fn compare(&self, namespace: &str, request: &PullRequest) -> Result<Option<RepoFacts>, Error> {
        if !planner::is_compared(request) {
            return Ok(None);
        }
        let (namespace, spec) = (namespace.to_owned(), request.spec.clone());
        let last_head = request.status.as_ref().and_then(|status| status.head_commit.clone());
        self.on_disk(move |store| {
            if !store.exists(&namespace, &spec.repository) {
                return Ok(None);
            }
            let seen =
                store.compare(&namespace, &spec.repository, &spec.base, &spec.head, last_head.as_deref())?;
            Ok(Some(repo_facts(seen)))
        })
        .await
    }
}

fn kinds() -> [Gvk; 2] {
    [gvk::<Repository>(), gvk::<PullRequest>()]
}

impl driver::Controller for Controller {
    const KIND: &'static str = "Repository";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Vec<Key> {
        if let Change::Kind(_) = change {
            return all_keys::<Repository>(&self.view());
        }
        if let Some(request) = about::<PullRequest>(change) {
            return vec![(key_of(request).0, text(request, "/spec/repository").to_owned())];
        }
        if let Some(step) = about::<PromotionStep>(change) {
            return self.pushed_by(step, change).into_iter().collect();
        }
        about::<Repository>(change).map(key_of).into_iter().collect()
    }

    async fn pass(&self, key: &Key) -> Next {
        let view = self.view();
        if !view.synced() {
            return Next::At(None);
        }
        let now = self.context.clock.now();
        let repository: Option<Repository> = get(&view, &key.0, &key.1);
        let requests: Vec<PullRequest> = list(&view, &key.0, facets::REPOSITORY, &key.1);
        drop(view);
        let mut failed = None;
        if let Some(repository) = &repository {
            failed = self.keep_repository(key, repository, now).await.err();
        }
        let number = |request: &PullRequest| request.status.as_ref().and_then(|status| status.number);
        let mut taken: Vec<u64> = requests.iter().filter_map(number).collect();
        let highest = self.highest_number(key, taken.iter().max().copied()).await;
        // Where nobody knows which numbers were given, none is.
        let kept = requests.iter().filter(|request| highest.is_ok() || number(request).is_some());
        match &highest {
            Ok(highest) => taken.extend(highest),
            Err(error) => failed = Some(error.clone()),
        }
        for request in kept {
            match self.keep_pull_request(repository.as_ref(), request, &taken, now).await {
                Ok(given) => taken.extend(given),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None if repository.is_none() && requests.is_empty() => Next::Never,
            None => Next::At(None),
            Some(error) => {
                tracing::warn!(repository = %key.1, error = %error, "the forge tries again");
                Next::At(Some(now + crate::RETRY))
            }
        }
    }

    fn forget(&self, _: &Key) {}
}

/// What is gone needs no status.
fn settled(told: Result<(), Next>) -> Result<(), Error> {
    match told {
        Ok(()) | Err(Next::Never) => Ok(()),
        Err(Next::Now | Next::At(_)) => Err(Error::Fault("a status was not written".to_owned())),
    }
}

fn facts_of(store: &Store, namespace: &str, name: &str) -> Result<Option<RepositoryFacts>, Error> {
    if !store.exists(namespace, name) {
        return Ok(None);
    }
    let default_branch = store.default_branch(namespace, name)?.unwrap_or_default();
    let head = store.tip(namespace, name, &default_branch)?;
    Ok(Some(RepositoryFacts { default_branch, head }))
}

fn repo_facts(seen: Comparison) -> RepoFacts {
    let file = |file: &kardinal_forge::FileDiff| PullRequestFile {
        path: file.path.clone(),
        status: match file.change {
            FileChange::Added => FileStatus::Added,
            FileChange::Modified => FileStatus::Modified,
            FileChange::Removed => FileStatus::Removed,
        },
    };
    RepoFacts {
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

fn merge_order(effect: PullRequestEffect) -> MergeOrder {
    let PullRequestEffect::Merge { base, head, expected_base, expected_head, message, author, email, time } =
        effect;
    MergeOrder {
        base,
        head,
        expected_base: Some(expected_base),
        expected_head: Some(expected_head),
        message,
        author: Author { name: author, email },
        time,
    }
}
