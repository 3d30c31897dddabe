//! The PullRequest controller: one is given a number, compared, and merged or closed when somebody says so. The pull
//! requests of one repository are looked at one after the other, so that two of them never get the same number.

mod act;
mod issuer;
mod observe;
mod routes;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kardinal_api::forge::{PullRequest, PullRequestStatus};
use kardinal_planner::forge::MANAGER;
use kardinal_planner::forge::pull_request::{self as planner, Effect, Outcome};
use kardinal_planner::sentence::Report;

use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::lock;
use crate::reconcile::pass::{self, Remembered, Turn};
use crate::reconcile::routes::{Hearer, Hears};
use crate::{Context, LocalForge};
use issuer::{Issuer, Issuers};
use observe::Observation;

/// Where the server has the repositories.
const CLONES: &str = "/git/";
/// Where it has their pages.
const PAGES: &str = "/forge";

/// Looks after pull requests.
pub(crate) struct Kind {
    context: Arc<Context>,
    local: LocalForge,
    /// What the URLs of its pages begin with.
    pages: String,
    issuers: Issuers,
}

/// What is remembered of a pull request.
#[derive(Default)]
pub(crate) struct Memory {
    /// Who gives numbers in the repository whose turn the pass has.
    issuer: Option<Arc<Issuer>>,
    /// The number that it was given; the status may not have it yet.
    given: Option<Given>,
    /// How many merges were tried since it was left alone.
    merges: u32,
}

/// A number that a pull request was given.
#[derive(Clone)]
struct Given {
    /// The uid of the pull request.
    to: String,
    number: u64,
}

impl Kind {
    /// Looks after none yet.
    pub(crate) fn new(context: Arc<Context>, local: LocalForge) -> Kind {
        let pages = match local.url.strip_suffix(CLONES) {
            Some(server) => format!("{server}{PAGES}"),
            None => local.url.clone(),
        };
        Kind { context, local, pages, issuers: Issuers::default() }
    }
}

impl Hearer for Kind {
    type Object = PullRequest;
    type Memory = Memory;

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;

    fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Effect;
    type Outcome = Outcome;
    type Status = PullRequestStatus;

    const NAME: &'static str = "PullRequest";
    const MANAGER: &'static str = MANAGER;
    const TAKES_TURNS: bool = true;

    async fn turn(&self, key: &Key, remembered: &Remembered<Memory>) -> Turn {
        let issuer = observe::repository(&self.context, key).map(|repository| self.issuers.of(repository));
        lock(remembered).issuer.clone_from(&issuer);
        issuer?.turn().await
    }

    async fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Memory>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        observe::observe(self, key, remembered).await
    }

    fn plan(&self, seen: &mut Observation, _: &mut Memory) -> planner::Plan {
        planner::plan(&seen.snapshot())
    }

    async fn act(&self, seen: &Observation, effect: &Effect) -> Outcome {
        act::act(self, seen, effect).await
    }

    fn has_failed(outcome: &Outcome) -> bool {
        *outcome == Outcome::Failed
    }

    fn report(
        &self,
        seen: &mut Observation,
        plan: planner::Plan,
        done: Vec<(Effect, Outcome)>,
        memory: &mut Memory,
    ) -> Report<PullRequestStatus> {
        memory.merges = if planner::has_merged(&done) { memory.merges.saturating_add(1) } else { 0 };
        let report = planner::report(&seen.snapshot(), plan, &done);
        if let Some(number) = report.status.as_ref().and_then(|status| status.number) {
            memory.given = Some(seen.give(number));
        }
        report
    }
}
