//! The Graph controller.

mod act;
mod observe;
mod routes;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::events::{self, EventType};
use kardinal_cluster::{Change, Queue};
use kardinal_planner::graph::{self as planner, Memory};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Context;
use act::Outcomes;
use observe::{Observation, Unseen};
use routes::Routes;

/// Namespace and name of a Graph.
pub(crate) type GraphKey = (String, String);

/// When a Graph is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Something was written, so more may follow at once.
    Now,
    /// At this time, or when something changes.
    At(Option<Timestamp>),
    /// The Graph is gone.
    Never,
}

/// How long a Graph rests after a bug ended its pass.
const AFTER_A_BUG: SignedDuration = SignedDuration::from_mins(1);

struct Controller {
    context: Arc<Context>,
    queue: Queue<GraphKey>,
    routes: Mutex<Routes>,
    memories: Mutex<BTreeMap<GraphKey, Arc<tokio::sync::Mutex<Memory>>>>,
}

/// Starts the controller's tasks.
pub(crate) fn spawn(
    context: &Arc<Context>,
    changes: UnboundedReceiver<Change>,
    concurrency: usize,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) {
    let controller = Arc::new(Controller {
        context: context.clone(),
        queue: Queue::new(context.clock.clone()),
        routes: Mutex::default(),
        memories: Mutex::default(),
    });
    for gvk in routes::always_watched() {
        context.watches.ensure(&gvk);
    }
    tasks.spawn(until(stop.clone(), route(controller.clone(), changes)));
    for _ in 0..concurrency.max(1) {
        tasks.spawn(work(controller.clone(), stop.clone()));
    }
}

async fn until(stop: CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = task => {}
    }
}

/// Brings every change to the Graphs that it concerns.
async fn route(controller: Arc<Controller>, mut changes: UnboundedReceiver<Change>) {
    while let Some(change) = changes.recv().await {
        if routes::concerns_definitions(&change) {
            controller.context.watches.retry_unserved();
        }
        let keys = controller.routes().route(&change);
        for key in keys {
            controller.queue.add(key);
        }
    }
}

async fn work(controller: Arc<Controller>, stop: CancellationToken) {
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = controller.queue.next() => key,
        };
        match survive(&controller, &key).await {
            Next::Now => controller.queue.add(key.clone()),
            Next::At(wake) => controller.queue.wake_at(key.clone(), wake),
            Next::Never => controller.forget(&key),
        }
        // Last, so that nobody works on a key whose memory is being dropped.
        controller.queue.done(&key);
    }
}

/// One pass, of which a bug ends only this one: it is told, and the Graph is looked at afresh after a while.
async fn survive(controller: &Controller, key: &GraphKey) -> Next {
    let memory = controller.memory(key);
    let mut memory = memory.lock().await;
    let pass = AssertUnwindSafe(reconcile(controller, key, &mut memory)).catch_unwind().await;
    pass.unwrap_or_else(|_| {
        tracing::error!(namespace = %key.0, graph = %key.1, "a bug ended the pass; please report what stands above");
        *memory = Memory::default();
        Next::At(Some(controller.context.clock.now() + AFTER_A_BUG))
    })
}

/// One pass over one Graph.
async fn reconcile(controller: &Controller, key: &GraphKey, memory: &mut Memory) -> Next {
    let observation = match observe::observe(controller, key, memory) {
        Ok(observation) => observation,
        Err(Unseen::TooEarly) => return Next::At(None),
        Err(Unseen::Absent) => return Next::Never,
    };
    let checked = memory.check(&observation.graph, &observation.revisions);
    let mut plan = planner::plan(&checked, &observation.snapshot(), memory);
    let outcomes = act::act(&controller.context, &observation, std::mem::take(&mut plan.stages)).await;
    report(controller, &observation, &checked, &plan, outcomes, memory).await
}

/// Tells the walk what came of its actions, then the user how the Graph stands: one status write, and only a changed one.
async fn report(
    controller: &Controller,
    observation: &Observation,
    checked: &planner::Checked,
    plan: &planner::Plan,
    outcomes: Outcomes,
    memory: &mut Memory,
) -> Next {
    let now = observation.now;
    let more = learn(controller, observation, &outcomes, memory);
    if outcomes.released {
        return Next::Never;
    }
    if (more || outcomes.progressed) && outcomes.failed.is_none() {
        // More follows at once; the status is written when things come to rest.
        return Next::Now;
    }
    let report = planner::report(&observation.graph, checked, plan, memory, now);
    let mut retry = outcomes.failed;
    if let Some(status) = &report.status {
        match act::write_status(&controller.context, observation, status).await {
            Ok(()) => tell(controller, observation, &report.notes).await,
            Err(delay) => retry = Some(delay),
        }
    }
    let wake = [plan.wake, retry.map(|delay| now + delay), retry_wake(memory)];
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

/// Records transitions as Events.
async fn tell(controller: &Controller, observation: &Observation, notes: &[planner::Note]) {
    let (id, uid, writer) = (observation.id(), observation.uid(), &controller.context.writer);
    for note in notes {
        let event_type = if note.warning { EventType::Warning } else { EventType::Normal };
        let note = events::Note { event_type, reason: note.reason.clone(), message: note.message.clone() };
        events::record(writer, planner::MANAGER, &id, &uid, &note, observation.now).await;
    }
}

impl Controller {
    fn routes(&self) -> std::sync::MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self, key: &GraphKey) -> Arc<tokio::sync::Mutex<Memory>> {
        let mut memories = self.memories.lock().unwrap_or_else(PoisonError::into_inner);
        memories.entry(key.clone()).or_default().clone()
    }

    fn forget(&self, key: &GraphKey) {
        self.queue.forget(key);
        self.routes().forget(key);
        self.memories.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
