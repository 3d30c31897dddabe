//! The store: one writer in front of the model, many readers beside it.
//!
//! **Invariant**: nobody reads a write that a crash could take back. The writer prepares a batch, makes it durable,
//! publishes it to the model, wakes the watchers and only then answers the callers. Readers never touch the disk.

mod disk;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kardinal_apimodel::gc::Collector;
use kardinal_apimodel::object::Object;
use kardinal_apimodel::watch::Limits as WindowLimits;
use kardinal_apimodel::{Key, Model, Outcome, Request, Status};
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub(crate) use self::disk::{Disk, Open, Row, checksum};
use self::writer::{Job, Message, Writer};
use crate::clock::Clock;
use crate::error::Error;
use crate::files::{DirLock, lock_dir};
use crate::ids::IdSource;

/// What readers, watchers and the writer share.
#[derive(Debug)]
struct Shared {
    model: RwLock<Model>,
    /// The committed resource version; every change of it wakes the watchers.
    committed: watch::Sender<u64>,
    /// What housekeeping has to look at. Whoever takes both locks takes the model's first.
    collector: Mutex<Collector>,
    /// Woken when there is something to look at.
    work: Notify,
    /// Set while the disk refuses commits.
    broken: AtomicBool,
}

impl Shared {
    // A panic while the lock was held cannot leave the model half changed for readers: writers only swap whole
    // entries. So a poisoned lock is used on.
    fn read(&self) -> RwLockReadGuard<'_, Model> {
        self.model.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Model> {
        self.model.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a store is opened.
pub(crate) struct StoreOptions<'a> {
    /// Nothing means in memory.
    pub(crate) data_dir: Option<&'a Path>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: IdSource,
    pub(crate) batch: usize,
    pub(crate) window: WindowLimits,
}

/// A cheap handle on the store.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Message>,
}

/// Waits for the writer's end.
#[derive(Debug)]
pub(crate) struct WriterEnd {
    done: oneshot::Receiver<()>,
}

impl WriterEnd {
    /// Returns when everything queued before the stop is durable and the data directory is free again.
    pub(crate) async fn wait(self) {
        // A writer that died has released everything too.
        let _ = self.done.await;
    }
}

impl Store {
    /// Opens the store: loads every object, then starts the writer.
    pub(crate) async fn open(options: StoreOptions<'_>) -> Result<(Store, WriterEnd), Error> {
        let (disk, model) = match options.data_dir {
            None => (None, Model::new(options.window)),
            Some(dir) => {
                let (dir, window) = (dir.to_path_buf(), options.window);
                let load = move || load(&dir, window);
                let (disk, lock, model) =
                    tokio::task::spawn_blocking(load).await.map_err(|error| Error::Store {
                        path: options.data_dir.map(Path::to_path_buf).unwrap_or_default(),
                        message: format!("loading failed: {error}"),
                        dir: options.data_dir.map(Path::to_path_buf).unwrap_or_default(),
                    })??;
                (Some((disk, lock)), model)
            }
        };
        let committed = watch::Sender::new(model.resource_version());
        let collector = Collector::new(&model);
        let shared = Arc::new(Shared {
            model: RwLock::new(model),
            committed,
            collector: Mutex::new(collector),
            work: Notify::new(),
            broken: AtomicBool::new(false),
        });
        let (queue, receiver) = mpsc::channel(options.batch.max(1));
        let (finished, done) = oneshot::channel();
        let writer = Writer::new(shared.clone(), receiver, options.clock, options.ids, options.batch.max(1));
        match disk {
            None => {
                tokio::spawn(async move {
                    writer.run_in_task().await;
                    // Nobody may be waiting any more.
                    let _ = finished.send(());
                });
            }
            Some((disk, lock)) => {
                let run = move || {
                    writer.run_in_thread(disk);
                    drop(lock);
                    let _ = finished.send(());
                };
                std::thread::Builder::new()
                    .name("kardinal-store".to_owned())
                    .spawn(run)
                    .map_err(Error::file("start the writer of", options.data_dir.unwrap_or(Path::new(""))))?;
            }
        }
        Ok((Store { shared, queue }, WriterEnd { done }))
    }

    /// The committed state, for a short look: never hold this across an `await`.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Model> {
        self.shared.read()
    }

    /// A receiver that is woken by every commit.
    pub(crate) fn commits(&self) -> watch::Receiver<u64> {
        self.shared.committed.subscribe()
    }

    /// Whether writes still become durable.
    pub(crate) fn is_healthy(&self) -> bool {
        !self.shared.broken.load(Ordering::Relaxed) && !self.queue.is_closed()
    }

    /// Hands a write to the writer; the answer comes when it is durable and visible.
    pub(crate) async fn submit(&self, request: Request) -> Result<Outcome, Status> {
        let (reply, answer) = oneshot::channel();
        let stopping = || Status::unavailable("the server is shutting down");
        self.queue.send(Message::Write(Box::new(Job { request, reply }))).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())?
    }

    /// Waits until housekeeping has something to look at.
    pub(crate) async fn work_to_do(&self) {
        while !self.has_work() {
            self.shared.work.notified().await;
        }
    }

    /// Whether housekeeping has something to look at.
    pub(crate) fn has_work(&self) -> bool {
        !self.shared.collector().is_idle()
    }

    /// What housekeeping should do about up to `max` objects.
    pub(crate) fn decide(&self, max: usize) -> Vec<(Key, Request)> {
        let model = self.shared.read();
        self.shared.collector().decide(&model, max)
    }

    /// Puts an object back for housekeeping.
    pub(crate) fn look_again(&self, key: Key) {
        self.shared.collector().retry(key);
    }

    /// Asks the writer to finish what is queued and to end.
    pub(crate) async fn stop(&self) {
        // A writer that has ended already needs no message.
        let _ = self.queue.send(Message::Stop).await;
    }
}

fn load(dir: &Path, window: WindowLimits) -> Result<(Disk, DirLock, Model), Error> {
    let lock = lock_dir(dir)?;
    let disk = Disk::open(dir, Open::OrCreate)?;
    let (objects, high_water) = objects_of(&disk)?;
    let model = Model::load(window, objects, high_water);
    Ok((disk, lock, model))
}

/// Every object on the disk, checked, and the highest version ever given out.
pub(crate) fn objects_of(disk: &Disk) -> Result<(Vec<(Key, Object)>, u64), Error> {
    let mut objects: Vec<(Key, Object)> = Vec::new();
    disk.load(|key, rv, json| {
        let path = std::str::from_utf8(key).map_err(|error| error.to_string())?;
        let key = Key::from_path(path).ok_or("the key is not `resource/namespace/name`")?;
        let object = Object::from_json(json).map_err(|error| error.to_string())?;
        if object.resource_version() != rv {
            return Err(format!("stored as version {rv}, but says {}", object.resource_version()));
        }
        objects.push((key, object));
        Ok(())
    })?;
    Ok((objects, disk.high_water()?))
}
