//! The controllers. Each kind has one file that reads out the sentence
//! observe → check → plan → act → report; the pure words live in `kardinal-planner`.
//!
//! Controllers know a `kube::Client` and a clock, and nothing about what is behind either.

pub mod graph;

use std::sync::Arc;

use kardinal_cluster::{Clock, Kinds, Watches, Writer};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Who runs Graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphController {
    /// This process.
    #[default]
    Embedded,
    /// Somebody else's controller serves the group; ours stays off.
    External,
}

/// What the controllers are told at start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who runs Graphs.
    pub graph_controller: GraphController,
    /// How many Graphs are worked on at the same time.
    pub concurrency: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { graph_controller: GraphController::Embedded, concurrency: 8 }
    }
}

/// What every controller is given.
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) writer: Writer,
}

/// Running controllers.
pub struct Controllers {
    stop: CancellationToken,
    tasks: TaskTracker,
    watches: Arc<Watches>,
}

impl Controllers {
    /// Starts the controllers on this cluster. The kinds must be served already.
    pub fn start(client: kube::Client, clock: Arc<dyn Clock>, settings: &Settings) -> Controllers {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let kinds = Arc::new(Kinds::new(client.clone()));
        let (watches, changes) = Watches::new(client.clone(), kinds.clone(), stop.clone());
        let writer = Writer::new(client, kinds);
        let context = Arc::new(Context { clock, watches: watches.clone(), writer });
        if settings.graph_controller == GraphController::Embedded {
            graph::spawn(&context, changes, settings.concurrency, &stop, &tasks);
        }
        Controllers { stop, tasks, watches }
    }

    /// Ends all work and waits for it. A pass that has begun is completed: no write is cut in half.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.watches.finished().await;
    }
}
