//! The Graph controller.

mod act;
mod damping;
mod observe;
mod permissions;
mod routes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kardinal_cluster::{Change, PerNamespace};
use kardinal_planner::graph::{self as planner, Memory};
use tokio::sync::Semaphore;

use crate::Context;
use crate::reconcile::driver::{self, Key, Next};
use act::Outcomes;
use damping::Damping;
use observe::{Observation, Read, Unseen};
use permissions::Permissions;
use routes::Routes;

/// Runs Graphs.
pub(crate) struct Controller {
    context: Arc<Context>,
    routes: Mutex<Routes>,
    memories: Mutex<BTreeMap<Key, Arc<tokio::sync::Mutex<Remembered>>>>,
    /// The turns of each namespace's writes.
    writes: PerNamespace<Semaphore>,
    /// The one turn of each namespace's huge Graphs.
    huge: PerNamespace<Semaphore>,
}

/// What is kept of a Graph between passes.
#[derive(Default)]
struct Remembered {
    memory: Memory,
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

impl driver::Controller for Controller {
    const KIND: &'static str = "Graph";

    fn context(&self) -> &Context {
        &self.context
    }

    fn route(&self, change: &Change) -> Vec<Key> {
        if routes::concerns_definitions(change) {
            self.context.watches.retry_unserved();
        }
        self.routes().route(change).into_iter().collect()
    }

    async fn pass(&self, key: &Key) -> Next {
        let remembered = self.memory(key);
        let mut remembered = remembered.lock().await;
        if remembered.nodes == 0 {
            // Nobody has looked at it yet, and the first look is the longest one.
            remembered.nodes = observe::nodes(&self.context, key);
        }
        let _turn = match remembered.nodes >= HUGE {
            true => self.huge.get(&key.0, || Semaphore::new(1)).acquire_owned().await.ok(),
            false => None,
        };
        reconcile(self, key, &mut remembered).await
    }

    fn forget(&self, key: &Key) {
        self.routes().forget(key);
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// One pass over one Graph.
async fn reconcile(controller: &Controller, key: &Key, remembered: &mut Remembered) -> Next {
    if let Some(until) = remembered.damping.rests_until(controller.context.clock.now()) {
        return Next::At(Some(until));
    }
    if ask(controller, key, remembered).await {
        controller.routes().put_back(key);
    }
    let (observation, surroundings) = match observe::observe(controller, key, remembered) {
        Ok(seen) => seen,
        Err(Unseen::TooEarly) => return Next::At(None),
        Err(Unseen::Absent) => return Next::Never,
    };
    remembered.nodes = observation.graph.spec.nodes.len();
    let memory = &mut remembered.memory;
    let checked = memory.check(&observation.graph, &observation.revisions);
    let mut plan = planner::plan(&checked, &observation.snapshot(&surroundings), memory);
    drop(surroundings);
    let turns = controller.writes.get(&key.0, || Semaphore::new(act::WRITES));
    let stages = std::mem::take(&mut plan.stages);
    let outcomes = act::act(&controller.context, &observation, &turns, stages).await;
    if plan.teardown.is_none() {
        remembered.damping.note(&damping::written(&outcomes.walked), observation.now);
    }
    report(controller, &observation, &checked, &plan, outcomes, remembered).await
}

/// Asks what the Graph's account may read, as far as that is not known; returns whether there is news.
async fn ask(controller: &Controller, key: &Key, remembered: &mut Remembered) -> bool {
    let Remembered { memory, permissions, .. } = remembered;
    let Some(account) = memory.account().map(str::to_owned) else { return false };
    let wanted = memory.permits().cloned().collect();
    let now = controller.context.clock.now();
    permissions.refresh(&controller.context.writer, (&key.0, &account), wanted, now).await
}

/// Tells the walk what came of its actions, then the user how the Graph stands: one status write, and only a changed one.
async fn report(
    controller: &Controller,
    observation: &Observation,
    checked: &planner::Checked,
    plan: &planner::Plan,
    outcomes: Outcomes,
    remembered: &mut Remembered,
) -> Next {
    let now = observation.now;
    let memory = &mut remembered.memory;
    let left = plan.teardown.is_some() && memory.note_refusals(&outcomes.walked);
    let unasked = memory.permits().any(|permit| !remembered.permissions.covers(permit));
    let more = learn(controller, observation, &outcomes, memory) || left || unasked;
    if outcomes.released {
        return Next::Never;
    }
    if (more || outcomes.progressed) && outcomes.failed.is_none() {
        // More follows at once; the status is written when things come to rest.
        return Next::Now;
    }
    let report = planner::report(&observation.graph, checked, plan, memory, now);
    let mut retry = outcomes.failed;
    let later = remembered
        .written
        .map(|written| written + crate::PACE)
        .filter(|later| !report.urgent && *later > now);
    if let (Some(status), None) = (&report.status, later) {
        remembered.written = Some(now);
        match act::write_status(&controller.context, observation, status).await {
            Ok(()) => {
                controller
                    .context
                    .tell(planner::MANAGER, &observation.id(), &observation.uid(), &report.notes, now)
                    .await
            }
            Err(delay) => retry = Some(delay),
        }
    }
    let later = later.filter(|_| report.status.is_some());
    let again = match plan.teardown {
        // The walk is over, and what it wanted to look at does not count any more.
        Some(_) => outcomes.is_refused().then(|| now + crate::RETRY),
        None => retry_wake(&remembered.memory),
    };
    if report.status.is_none() || observation.graph.spec.nodes.len() < LARGE {
        // What was read is read again when it is needed.
        remembered.read = Read::default();
    }
    if report.status.is_none() {
        remembered.memory.rest();
    }
    let asked_until = remembered.memory.permits().next().and_then(|_| remembered.permissions.wake());
    let wake = [plan.wake, retry.map(|delay| now + delay), again, later, asked_until];
    Next::At(wake.into_iter().flatten().min())
}

/// Tells the walk what came of its actions; returns whether it now reads something that the pass could not see.
fn learn(
    controller: &Controller,
    observation: &Observation,
    outcomes: &Outcomes,
    memory: &mut Memory,
) -> bool {
    let Some(walker) = &mut memory.walker else { return false };
    for (action, outcome) in &outcomes.walked {
        walker.record(action, outcome.clone(), observation.now);
    }
    let unseen_kinds = walker.interests().kinds().any(|gvk| !observation.kinds.contains(gvk));
    controller.routes().follow(&observation.key, walker) || unseen_kinds
}

/// When the walk wants to try a failed write again.
fn retry_wake(memory: &Memory) -> Option<Timestamp> {
    memory.walker.as_ref().and_then(kardinal_graph::Walker::wake)
}

impl Controller {
    /// Watches what every Graph needs.
    pub(crate) fn new(context: Arc<Context>) -> Controller {
        for gvk in routes::always_watched() {
            context.watches.ensure(&gvk);
        }
        Controller {
            context,
            routes: Mutex::default(),
            memories: Mutex::default(),
            writes: PerNamespace::default(),
            huge: PerNamespace::default(),
        }
    }

    fn routes(&self) -> std::sync::MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self, key: &Key) -> Arc<tokio::sync::Mutex<Remembered>> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }
}
