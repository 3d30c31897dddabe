//! The local forge.

use std::sync::Arc;

use kardinal_api::forge::{PullRequest, Repository};
use kardinal_planner::forge as planner;

use super::{facets, pull_request, repository};
use crate::dialect::{Dialect, Starter};
use crate::reconcile::driver::{Driver, Key};
use crate::reconcile::objects::{get, keys};
use crate::reconcile::pass::Controller;
use crate::reconcile::routes::{Hearer as _, view};

pub(crate) const DIALECT: Dialect = Dialect { facets: facets::FACETS, start };

fn start(starter: &mut Starter<'_>) {
    let Some(local) = starter.outside.forge.clone() else { return };
    let (context, workers) = (starter.context.clone(), starter.settings.concurrency);
    let repositories = repository::Kind::new(context.clone(), local.clone());
    let pull_requests = pull_request::Kind::new(context, local);
    starter.started.forge = Some(Forge {
        repositories: starter.start_fair(Controller::new(repositories), workers),
        pull_requests: starter.start_fair(Controller::new(pull_requests), workers),
    });
}

/// The local forge at work.
pub(crate) struct Forge {
    repositories: Arc<Driver<Controller<repository::Kind>>>,
    pull_requests: Arc<Driver<Controller<pull_request::Kind>>>,
}

impl Forge {
    /// Somebody has pushed to a repository: it is looked at, and all of its pull requests are that are not over.
    pub(crate) fn pushed(&self, repository: Key) {
        let view = view::<pull_request::Kind>(self.pull_requests.controller().kind().context());
        for request in keys::<PullRequest>(&view, Some(&repository.0), facets::COMPARED, &repository.1) {
            self.pull_requests.look_at(request);
        }
        self.repositories.look_at(repository);
    }

    /// Whether only pull requests and kardinal may change a branch.
    pub(crate) fn protects(&self, namespace: &str, repository: &str, branch: &str) -> bool {
        let view = view::<repository::Kind>(self.repositories.controller().kind().context());
        let found = get::<Repository>(&view, namespace, repository);
        found.is_none_or(|repository| planner::protects(&repository.spec, branch))
    }
}
