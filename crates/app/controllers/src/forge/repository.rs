//! The Repository controller: a repository is made, and says how it stands.

mod act;
mod observe;
mod routes;

use std::sync::Arc;

use kardinal_api::forge::{Repository, RepositoryStatus};
use kardinal_planner::forge::MANAGER;
use kardinal_planner::forge::repository::{self as planner, Effect, Outcome};
use kardinal_planner::sentence::Report;

use crate::reconcile::driver::{Key, Next};
use crate::reconcile::pass::{self, Remembered, as_planned};
use crate::reconcile::routes::{Hearer, Hears};
use crate::{Context, LocalForge};
use observe::Observation;

/// Keeps repositories.
pub(crate) struct Kind {
    context: Arc<Context>,
    local: LocalForge,
}

impl Kind {
    /// Keeps none yet.
    pub(crate) fn new(context: Arc<Context>, local: LocalForge) -> Kind {
        Kind { context, local }
    }
}

impl Hearer for Kind {
    type Object = Repository;
    type Memory = ();

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;

    fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Effect;
    type Outcome = Outcome;
    type Status = RepositoryStatus;

    const NAME: &'static str = "Repository";
    const MANAGER: &'static str = MANAGER;

    async fn observe(
        &self,
        key: &Key,
        _: &Remembered<()>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(self, key).await
    }

    fn plan(&self, seen: &mut Observation, (): &mut ()) -> planner::Plan {
        planner::plan(&seen.snapshot())
    }

    async fn act(&self, seen: &Observation, effect: &Effect) -> Outcome {
        act::act(self, seen, effect).await
    }

    fn report(
        &self,
        seen: &mut Observation,
        plan: planner::Plan,
        done: Vec<(Effect, Outcome)>,
        (): &mut (),
    ) -> Report<RepositoryStatus> {
        match done.last() {
            Some((_, outcome)) => planner::report(&seen.snapshot(), outcome),
            None => as_planned(plan),
        }
    }
}
