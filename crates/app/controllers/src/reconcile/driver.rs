//! What all controllers have in common: a queue of names, workers that make passes, and a bug that ends only one of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use kardinal_cluster::{Change, PerNamespace, Queue};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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

/// The right to make a pass, until it is dropped.
pub(crate) type Turn = Option<OwnedSemaphorePermit>;

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

    /// Waits until a pass may begin that would keep others waiting. Whoever waits here takes no place in the namespace.
    fn turn(&self, key: &Key) -> impl Future<Output = Turn> + Send;

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
    let places = PerNamespace::default();
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = driver.queue.next() => key,
        };
        let (driver, stop, cut) = (driver.clone(), stop.clone(), cut.clone());
        let place: Arc<Semaphore> = places.get(&key.0, || Semaphore::new(limit.max(1)));
        tasks.spawn(async move {
            let turns = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                turns = take_turns(&driver.controller, &key, place) => turns,
            };
            let _turns = match turns {
                Ok(turns) => turns,
                Err(next) => return end(&driver, key, next),
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

/// Waits until a pass may begin. The turn that the kind asks for comes first: many that wait for the same one must not take
/// the places that others of the namespace could use meanwhile.
async fn take_turns<C: Controller>(
    controller: &C,
    key: &Key,
    place: Arc<Semaphore>,
) -> Result<(Turn, Turn), Next> {
    let turn = survive(controller, key, controller.turn(key)).await?;
    // Nobody closes it.
    Ok((turn, place.acquire_owned().await.ok()))
}

/// One pass over one object.
async fn once<C: Controller>(driver: &Driver<C>, key: Key) {
    let next = survive(&driver.controller, &key, driver.controller.pass(&key)).await;
    end(driver, key, next.unwrap_or_else(|next| next));
}

/// Ends the work on an object, and says when it is looked at again.
fn end<C: Controller>(driver: &Driver<C>, key: Key, next: Next) {
    match next {
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

/// Work on an object, of which a bug ends only this: it is told, and the object is looked at afresh after a while.
async fn survive<C: Controller, T>(
    controller: &C,
    key: &Key,
    work: impl Future<Output = T>,
) -> Result<T, Next> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|_| {
        tracing::error!(kind = C::KIND, namespace = %key.0, name = %key.1, "a bug ended the pass; please report what stands above");
        controller.forget(key);
        Next::At(controller.context().clock.now() + AFTER_A_BUG)
    })
}
