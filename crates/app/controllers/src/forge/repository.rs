//! A repository is made, and tells how it stands.

mod act;
mod observe;

use jiff::Timestamp;
use kardinal_api::forge::Repository;
use kardinal_forge::Error;
use kardinal_planner::forge::{self as planner, MANAGER, RepositorySnapshot};

use super::{Controller, settled};
use crate::reconcile::driver::Key;
use crate::reconcile::objects;

impl Controller {
    /// Looks, plans and acts until the repository is as it should be, and tells that.
    pub(super) async fn keep_repository(
        &self,
        key: &Key,
        repository: &Repository,
        now: Timestamp,
    ) -> Result<(), Error> {
        let mut problem: Option<String> = None;
        // Somebody may mend it on disk, of which nobody tells us: it is looked at again.
        let mut unusable: Option<String> = None;
        loop {
            let facts = match self.look_at_repository(key).await {
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
            if let Some(effect) = plan.stages.into_iter().flatten().next() {
                match self.act_on_repository(key, effect).await {
                    Ok(()) => continue,
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
}
