//! The Pipeline controller: tells how a Pipeline stands.

mod act;
mod observe;
mod routes;

use std::convert::Infallible;
use std::sync::Arc;

use kardinal_api::kardinal::{Bundle, Pipeline, PipelineStatus};
use kardinal_planner::sentence::Report;
use kardinal_promotion::pipeline as planner;

use crate::Context;
use crate::promotion::context::PromotionContext;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::pass::{self, Remembered, as_planned};
use crate::reconcile::routes::{Hearer, Hears};
use observe::Observation;

/// Tells how Pipelines stand.
pub(crate) struct Kind {
    pub(crate) context: Arc<PromotionContext>,
}

/// What is remembered of a Pipeline.
#[derive(Default)]
pub(crate) struct Memory {
    /// Bundles that were deleted and whose arrivals may not be on record yet: nothing else tells of them.
    departed: Vec<Bundle>,
}

impl Hearer for Kind {
    type Object = Pipeline;
    type Memory = Memory;

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;

    fn context(&self) -> &Arc<Context> {
        &self.context.shared
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Infallible;
    type Outcome = ();
    type Status = PipelineStatus;

    const NAME: &'static str = "Pipeline";
    const MANAGER: &'static str = "kardinal-pipeline-controller";

    async fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Memory>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(&self.context, key, remembered).await
    }

    fn plan(&self, seen: &mut Observation, _: &mut Memory) -> planner::Plan {
        seen.ask(planner::plan)
    }

    async fn act(&self, _: &Observation, effect: &Infallible) {
        act::act(effect);
    }

    fn report(
        &self,
        _: &mut Observation,
        plan: planner::Plan,
        _: Vec<(Infallible, ())>,
        _: &mut Memory,
    ) -> Report<PipelineStatus> {
        as_planned(plan)
    }

    fn recorded(&self, seen: &Observation, status: Option<&PipelineStatus>, memory: &mut Memory) {
        // Others may have gone since.
        let known = seen.departed.min(memory.departed.len());
        if known > 0 && seen.ask(|snapshot| planner::has_all(snapshot, status)) {
            memory.departed.drain(..known);
        }
    }
}
