//! The local forge's controller. It works repository by repository: the pull requests of one repository are looked at
//! one after the other, so that two of them never get the same number.

pub(crate) mod dialect;
mod facets;
mod pull_request;
mod repository;
mod routes;

use std::sync::Arc;

use kardinal_api::forge::{PullRequest, Repository};
use kardinal_cluster::Change;
use kardinal_forge::{Error, Store};
use kardinal_planner::forge as planner;

use crate::reconcile::driver::{self, Key, Next, Route};
use crate::reconcile::objects::{get, list};
use crate::reconcile::pass::{Memories, sight};
use crate::reconcile::routes::{self as table, Hearer, Hears};
use crate::{Context, LocalForge};

/// Keeps repositories, and merges or closes pull requests when somebody says so.
pub(crate) struct Controller {
    context: Arc<Context>,
    local: LocalForge,
    /// Nothing: what was given is kept with each repository.
    memories: Memories<()>,
}

impl Controller {
    /// Watches what every repository needs.
    pub(crate) fn new(context: Arc<Context>, local: LocalForge) -> Controller {
        table::watch::<Controller>(&context);
        Controller { context, local, memories: Memories::default() }
    }

    /// Whether only pull requests and kardinal may change a branch.
    pub(crate) fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        let view = table::view::<Controller>(&self.context);
        let found = get::<Repository>(&view, namespace, repository);
        found.is_none_or(|repository| planner::protects(&repository.spec, branch))
    }

    /// Does something with the repositories, where blocking is allowed.
    async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.local.store.clone();
        let done = tokio::task::spawn_blocking(move || work(&store)).await;
        done.unwrap_or_else(|error| Err(Error::Fault(format!("work on a repository was cut short: {error}"))))
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
}

impl Hearer for Controller {
    type Object = Repository;
    type Memory = ();

    const HEARS: &'static [Hears<Controller>] = routes::HEARS;

    fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl driver::Controller for Controller {
    const KIND: &'static str = "Repository";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Route {
        table::route(self, &self.memories, change)
    }

    async fn pass(&self, key: &Key) -> Next {
        let view = match sight::<Controller>(&self.context) {
            Ok(view) => view,
            Err(next) => return next,
        };
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
            None => Next::OnChange,
            Some(error) => {
                tracing::warn!(repository = %key.1, error = %error, "the forge tries again");
                Next::At(now + crate::RETRY)
            }
        }
    }

    fn forget(&self, _: &Key) {}
}

/// What is gone needs no status.
fn settled(told: Result<(), Next>) -> Result<(), Error> {
    match told {
        Ok(()) | Err(Next::Never) => Ok(()),
        Err(Next::Now | Next::At(_) | Next::OnChange) => {
            Err(Error::Fault("a status was not written".to_owned()))
        }
    }
}
