//! The PolicyGate controller: asks the gates, at the right time.

mod act;
mod observe;
mod routes;

use std::convert::Infallible;
use std::sync::Arc;

use kardinal_api::kardinal::{PolicyGate, PolicyGateStatus};
use kardinal_object::Gvk;
use kardinal_planner::sentence::Report;
use kardinal_promotion::policy_gate as planner;

use crate::Context;
use crate::promotion::context::PromotionContext;
use crate::promotion::surroundings;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::pass::{self, Remembered, as_planned};
use crate::reconcile::routes::{Hearer, Hears};
use observe::Observation;
pub(crate) use observe::placed;

/// Asks the gates.
pub(crate) struct Kind {
    pub(crate) context: Arc<PromotionContext>,
}

impl Hearer for Kind {
    type Object = PolicyGate;
    type Memory = ();

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;
    const READS: &'static [fn() -> Gvk] = surroundings::KINDS;

    fn context(&self) -> &Arc<Context> {
        &self.context.shared
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Infallible;
    type Outcome = ();
    type Status = PolicyGateStatus;

    const NAME: &'static str = "PolicyGate";
    const MANAGER: &'static str = planner::MANAGER;

    async fn observe(
        &self,
        key: &Key,
        _: &Remembered<()>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(&self.context, key).await
    }

    fn plan(&self, seen: &mut Observation, (): &mut ()) -> planner::Plan {
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
        (): &mut (),
    ) -> Report<PolicyGateStatus> {
        as_planned(plan)
    }

    fn recorded(&self, seen: &Observation, status: Option<&PolicyGateStatus>, (): &mut ()) {
        if let Some(status) = status {
            self.context.metrics.gate(&seen.gate, status);
        }
    }
}
