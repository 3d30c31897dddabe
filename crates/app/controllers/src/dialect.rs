//! What the process knows of each dialect: how its objects are found, and how its controllers start.

use std::sync::Arc;

use kardinal_cluster::{Change, Facet, Watches};
use kardinal_object::Gvk;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::forge::dialect::Forge;
use crate::promotion::dialect::Promotions;
use crate::reconcile::driver::{self, Driver, Listener};
use crate::{Context, DIALECTS, Outside, Settings, Shards};

/// The kinds that belong together.
pub(crate) struct Dialect {
    /// What objects are found by, besides their names: passes look at what concerns them, not at everything there is.
    pub(crate) facets: &'static [FacetsOf],
    /// Starts the controllers, as far as this process runs them.
    pub(crate) start: fn(&mut Starter<'_>),
}

/// What the objects of a kind are found by.
pub(crate) struct FacetsOf {
    /// Which kind.
    pub(crate) kind: fn(&Gvk) -> bool,
    /// Adds what one of them is found by.
    pub(crate) found_by: fn(&Value, &mut Vec<Facet>),
}

/// What an object is found by.
pub(crate) fn facets_of(gvk: &Gvk, object: &Value) -> Vec<Facet> {
    let mut all = Vec::new();
    for of in DIALECTS.iter().flat_map(|dialect| dialect.facets).filter(|of| (of.kind)(gvk)) {
        (of.found_by)(object, &mut all);
    }
    all
}

/// The owners of an object.
pub(crate) fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// Starts controllers.
pub(crate) struct Starter<'a> {
    /// What every controller is given.
    pub(crate) context: &'a Arc<Context>,
    /// What they are told.
    pub(crate) settings: &'a Settings,
    /// The world outside the cluster.
    pub(crate) outside: &'a Outside,
    /// Ends all work.
    pub(crate) stop: &'a CancellationToken,
    /// Ends what has not ended by itself.
    pub(crate) cut: &'a CancellationToken,
    /// Everything that runs.
    pub(crate) tasks: &'a TaskTracker,
    /// All that hear of changes of the control plane.
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    /// What was started.
    pub(crate) started: Started,
}

/// Controllers at work.
#[derive(Default)]
pub(crate) struct Started {
    /// The watches whose end is waited for, in this order; the first are those of the control plane.
    pub(crate) watches: Vec<Arc<Watches>>,
    /// Promotions, where this process carries them out.
    pub(crate) promotions: Option<Promotions>,
    /// The local forge.
    pub(crate) forge: Option<Forge>,
}

impl Starter<'_> {
    /// Starts everything that this process runs, and brings it the changes of the control plane.
    pub(crate) fn start_all(mut self, changes: UnboundedReceiver<Change>) -> Started {
        for dialect in &DIALECTS {
            (dialect.start)(&mut self);
        }
        let listeners = std::mem::take(&mut self.listeners);
        self.deliver(changes, listeners);
        self.started
    }

    /// Whether plans are made here, and not only steps carried out for others.
    pub(crate) fn plans_here(&self) -> bool {
        !matches!(self.settings.shards, Shards::Only(_))
    }

    /// Starts a controller; each pass is a task of its own, and `limit` of them run at a time in one namespace.
    pub(crate) fn start_fair<C: driver::Controller>(
        &mut self,
        controller: C,
        limit: usize,
    ) -> Arc<Driver<C>> {
        let driver = driver::spawn_fair(controller, limit, (self.stop, self.cut), self.tasks);
        self.listeners.push(driver.clone());
        driver
    }

    /// Brings changes to these, until all work ends.
    pub(crate) fn deliver(&self, changes: UnboundedReceiver<Change>, to: Vec<Arc<dyn Listener>>) {
        let stop = self.stop.clone();
        self.tasks.spawn(stop.run_until_cancelled_owned(driver::deliver(to, changes)));
    }
}
