//! A pull request is given a number, compared, and merged or closed when somebody says so.

mod act;
mod observe;

use jiff::Timestamp;
use kardinal_api::forge::{PullRequest, Repository};
use kardinal_forge::Error;
use kardinal_planner::forge::{self as planner, MANAGER, PullRequestSnapshot};

use super::{Controller, settled};
use crate::reconcile::objects;

impl Controller {
    /// Looks, plans and acts until the pull request is as it should be, and tells that. Answers its number.
    pub(super) async fn keep_pull_request(
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
            if let (Some(effect), true) = (plan.stages.into_iter().flatten().next(), attempts < 4) {
                self.act_on_pull_request(&namespace, request, effect).await?;
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
}
