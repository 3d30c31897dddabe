//! What the process knows of each dialect: how its objects are found, and how its controllers start.

use std::sync::Arc;

use kardinal_cluster::Facet;
use kardinal_object::Gvk;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::forge::dialect::Forge;
use crate::reconcile::driver::{self, Driver, Listener};
use crate::reconcile::pass::Controller;
use crate::{Context, DIALECTS, LocalForge, Settings, Shards, promotion};

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

/// The steps' controller at work.
pub(crate) type Steps = Driver<Controller<promotion::promotion_step::Kind>>;

/// Starts controllers.
pub(crate) struct Starter<'a> {
    /// What every controller is given.
    pub(crate) context: &'a Arc<Context>,
    /// What they are told.
    pub(crate) settings: &'a Settings,
    /// The local forge, when this process serves it.
    pub(crate) local: Option<LocalForge>,
    /// Ends all work.
    pub(crate) stop: &'a CancellationToken,
    /// Ends what has not ended by itself.
    pub(crate) cut: &'a CancellationToken,
    /// Everything that runs.
    pub(crate) tasks: &'a TaskTracker,
    /// What was started.
    pub(crate) started: Started,
}

/// Controllers at work.
#[derive(Default)]
pub(crate) struct Started {
    /// All that hear of changes of the control plane.
    pub(crate) listeners: Vec<Arc<dyn Listener>>,
    /// Those who carry out steps.
    pub(crate) steps: Option<Arc<Steps>>,
    /// The local forge.
    pub(crate) forge: Option<Forge>,
}

impl Starter<'_> {
    /// Starts everything that this process runs.
    pub(crate) fn start_all(mut self) -> Started {
        for dialect in &DIALECTS {
            (dialect.start)(&mut self);
        }
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
        self.started.listeners.push(driver.clone());
        driver
    }
}
