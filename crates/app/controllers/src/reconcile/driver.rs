//! What all controllers have in common: a queue of names, workers that make passes, and a bug that ends only one of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::{Change, PerNamespace, Queue};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Context;

/// Namespace and name of an object.
pub(crate) type Key = (String, String);

/// When an object is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Something was written, so more may follow at once.
    Now,
    /// At this time, or when something changes before.
    At(Timestamp),
    /// When something changes.
    OnChange,
    /// The object is gone.
    Never,
}

impl Next {
    /// At this time if there is one, and when something changes.
    pub(crate) fn at(wake: Option<Timestamp>) -> Next {
        wake.map_or(Next::OnChange, Next::At)
    }
}

/// Who looks at a change.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The objects.
    pub(crate) keys: Vec<Key>,
    /// How long the change may wait.
    pub(crate) pace: SignedDuration,
}

/// How long an object rests after a bug ended its pass.
const AFTER_A_BUG: SignedDuration = SignedDuration::from_mins(1);

/// One kind's controller.
pub(crate) trait Controller: Send + Sync + 'static {
    /// The kind, for the log.
    const KIND: &'static str;

    /// What every controller is given.
    fn context(&self) -> &Context;

    /// The objects that have to look at a change.
    fn route(&self, change: &Change) -> Route;

    /// One pass over one object: observe → check → plan → act → report.
    fn pass(&self, key: &Key) -> impl Future<Output = Next> + Send;

    /// Drops what was remembered of an object: it is gone, or a bug may have spoiled it.
    fn forget(&self, key: &Key);
}

/// A controller at work.
pub(crate) struct Driver<C> {
    controller: C,
    queue: Queue<Key>,
}

impl<C: Controller> Driver<C> {
    /// The controller at work.
    pub(crate) fn controller(&self) -> &C {
        &self.controller
    }

    /// Looks at one object, because the world outside has changed.
    pub(crate) fn look_at(&self, key: Key) {
        self.queue.add(key);
    }
}

/// Somebody who is told of every change.
pub(crate) trait Listener: Send + Sync {
    /// Looks at the change as far as it is concerned.
    fn hear(&self, change: &Change);
}

impl<C: Controller> Listener for Driver<C> {
    fn hear(&self, change: &Change) {
        let Route { keys, pace } = self.controller.route(change);
        if keys.is_empty() {
            return;
        }
        let by = self.controller.context().clock.now() + pace;
        for key in keys {
            match pace.is_zero() {
                true => self.queue.add(key),
                false => self.queue.add_by(key, by),
            }
        }
    }
}

/// Brings every change to all controllers.
pub(crate) async fn deliver(listeners: Vec<Arc<dyn Listener>>, mut changes: UnboundedReceiver<Change>) {
    while let Some(change) = changes.recv().await {
        for listener in &listeners {
            listener.hear(&change);
        }
    }
}

/// Starts a controller. Each pass is a task of its own, and so many run at a time in one namespace: whoever waits there, or
/// has much to do, keeps nobody else waiting. `cut` ends what still hangs when everything has to end.
pub(crate) fn spawn_fair<C: Controller>(
    controller: C,
    limit: usize,
    (stop, cut): (&CancellationToken, &CancellationToken),
    tasks: &TaskTracker,
) -> Arc<Driver<C>> {
    let queue = Queue::new(controller.context().clock.clone());
    let driver = Arc::new(Driver { controller, queue });
    tasks.spawn(dispatch(driver.clone(), limit, (stop.clone(), cut.clone()), tasks.clone()));
    driver
}

async fn dispatch<C: Controller>(
    driver: Arc<Driver<C>>,
    limit: usize,
    (stop, cut): (CancellationToken, CancellationToken),
    tasks: TaskTracker,
) {
    let turns = PerNamespace::default();
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = driver.queue.next() => key,
        };
        let (driver, stop, cut) = (driver.clone(), stop.clone(), cut.clone());
        let turn: Arc<Semaphore> = turns.get(&key.0, || Semaphore::new(limit.max(1)));
        tasks.spawn(async move {
            let _turn = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                turn = turn.acquire_owned() => turn,
            };
            driver.queue.begin(&key);
            // A pass needs much room, and thousands may wait for their turn: it is made when that has come.
            let pass = Box::pin(once(&driver, key));
            tokio::select! {
                biased;
                () = cut.cancelled() => {}
                () = pass => {}
            }
        });
    }
}

/// One pass over one object, and when it is looked at again.
async fn once<C: Controller>(driver: &Driver<C>, key: Key) {
    match survive(&driver.controller, &key).await {
        Next::Now => driver.queue.add(key.clone()),
        Next::At(wake) => driver.queue.wake_at(key.clone(), Some(wake)),
        Next::OnChange => driver.queue.wake_at(key.clone(), None),
        Next::Never => {
            driver.queue.forget(&key);
            driver.controller.forget(&key);
        }
    }
    // Last, so that nobody works on a key whose memory is being dropped.
    driver.queue.done(&key);
}

/// One pass, of which a bug ends only this one: it is told, and the object is looked at afresh after a while.
async fn survive<C: Controller>(controller: &C, key: &Key) -> Next {
    let pass = AssertUnwindSafe(controller.pass(key)).catch_unwind().await;
    pass.unwrap_or_else(|_| {
        tracing::error!(kind = C::KIND, namespace = %key.0, name = %key.1, "a bug ended the pass; please report what stands above");
        controller.forget(key);
        Next::At(controller.context().clock.now() + AFTER_A_BUG)
    })
}
