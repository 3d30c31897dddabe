//! The Graph controller.

mod act;
mod damping;
pub(crate) mod dialect;
pub(crate) mod facets;
mod observe;
mod permissions;
mod report;
mod routes;

use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use kardinal_api::graph::{Graph, GraphStatus};
use kardinal_cluster::{Change, PerNamespace};
use kardinal_planner::graph::{self as planner, Effect, GraphScope, MANAGER};
use kardinal_planner::sentence::Report;
use tokio::sync::Semaphore;

use crate::Context;
use crate::reconcile::driver::{Key, Next};
use crate::reconcile::objects::lock;
use crate::reconcile::pass::{self, Remembered, Turn};
use crate::reconcile::routes::{Hearer, Hears};
use act::Outcome;
use damping::Damping;
use observe::{Observation, Read};
use permissions::Permissions;
use routes::Routes;

/// Runs Graphs.
pub(crate) struct Kind {
    context: Arc<Context>,
    /// How far Graphs reach that name no ServiceAccount.
    scope: GraphScope,
    routes: Mutex<Routes>,
    /// The turns of each namespace's writes.
    writes: PerNamespace<Semaphore>,
    /// The one turn of each namespace's huge Graphs.
    huge: PerNamespace<Semaphore>,
}

/// What is kept of a Graph between passes.
#[derive(Default)]
pub(crate) struct Memory {
    walk: planner::Memory,
    read: Read,
    permissions: Permissions,
    /// When its status was written last.
    written: Option<Timestamp>,
    damping: Damping,
    /// How many nodes it had when it was looked at last.
    nodes: usize,
}

/// Graphs with so many nodes are kept as they were read until they come to rest.
const LARGE: usize = 32;
/// A pass over a Graph with so many nodes keeps a thread busy for long, so in one namespace they are made one after the
/// other: others find a thread that is free.
const HUGE: usize = 256;

impl Kind {
    /// None runs yet.
    pub(crate) fn new(context: Arc<Context>, scope: GraphScope) -> Kind {
        Kind {
            context,
            scope,
            routes: Mutex::default(),
            writes: PerNamespace::default(),
            huge: PerNamespace::default(),
        }
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        lock(&self.routes)
    }
}

impl Hearer for Kind {
    type Object = Graph;
    type Memory = Memory;

    const HEARS: &'static [Hears<Kind>] = routes::HEARS;

    fn context(&self) -> &Arc<Context> {
        &self.context
    }

    fn following(&self, change: &Change) -> Vec<Key> {
        self.routes().route(change).into_iter().collect()
    }
}

impl pass::Kind for Kind {
    type Seen = Observation;
    type Effect = Effect;
    type Outcome = Outcome;
    type Status = GraphStatus;

    const NAME: &'static str = "Graph";
    const MANAGER: &'static str = MANAGER;
    const TAKES_TURNS: bool = true;

    fn rests_until(&self, memory: &mut Memory, now: Timestamp) -> Option<Timestamp> {
        memory.damping.rests_until(now)
    }

    async fn turn(&self, key: &Key, remembered: &Remembered<Memory>) -> Turn {
        let known = lock(remembered).nodes;
        // Where nobody has looked at it yet, the first look is the longest one.
        let nodes = if known == 0 { observe::nodes(&self.context, key) } else { known };
        lock(remembered).nodes = nodes;
        match nodes >= HUGE {
            true => self.huge.get(&key.0, || Semaphore::new(1)).acquire_owned().await.ok(),
            false => None,
        }
    }

    async fn observe(
        &self,
        key: &Key,
        remembered: &Remembered<Memory>,
        _: Option<Observation>,
    ) -> Result<Observation, Next> {
        if observe::ask(&self.context, key, remembered).await {
            self.routes().put_back(key);
        }
        observe::observe(self, key, &mut lock(remembered))
    }

    fn plan(&self, seen: &mut Observation, memory: &mut Memory) -> planner::Plan {
        memory.nodes = seen.graph.spec.nodes.len();
        let checked = memory.walk.check(&seen.graph, &seen.revisions);
        let surroundings = seen.take_surroundings();
        planner::plan(&checked, &seen.snapshot(&surroundings), &mut memory.walk)
    }

    async fn act(&self, seen: &Observation, effect: &Effect) -> Outcome {
        let turns = self.writes.get(&seen.key.0, || Semaphore::new(act::WRITES));
        // Nobody closes it.
        let _turn = turns.acquire().await;
        act::act(&self.context, seen, effect).await
    }

    fn has_failed(outcome: &Outcome) -> bool {
        outcome.has_failed()
    }

    fn is_gone(done: &[(Effect, Outcome)]) -> bool {
        done.iter().any(|(_, outcome)| outcome.releases())
    }

    fn report(
        &self,
        seen: &mut Observation,
        plan: planner::Plan,
        done: Vec<(Effect, Outcome)>,
        memory: &mut Memory,
    ) -> Report<GraphStatus> {
        report::report(self, seen, (plan, done), memory)
    }

    /// A Graph goes on although nobody can be told.
    fn unwritten(later: Next, planned: Next, now: Timestamp) -> Next {
        pass::sooner(later, planned, now)
    }

    fn forget(&self, key: &Key) {
        self.routes().forget(key);
    }
}
