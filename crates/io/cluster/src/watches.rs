//! One watch per kind for the whole process, and immutable views of what the watches have seen.
//!
//! # Flow
//! [`Watches::ensure`] starts a task per kind: list, then watch from the list's version, for ever.
//! Every difference goes into the kind's [`Store`] and out as a [`Change`].
//!
//! # Guarantees
//! - A [`View`] never changes while somebody looks at it.
//! - Our own writes are visible at once ([`Watches::remember`]); an older event never undoes them.
//! - A kind whose watch is not connected says so ([`Store::lost`]): what was seen of it may be old.
//! - What is known of a kind is one [`Knowledge`]: neither "not seen yet" nor "nobody watches it" is ever mistaken for
//!   "absent".

mod object;
mod room;
mod store;
mod stream;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use kardinal_object::{Gvk, KindScope, ObjectId, can_be_namespace};
use kube::core::Request;
use kube::core::params::ListParams;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::kinds::Kinds;
pub use object::Object;
use room::Keeping;
pub use room::Room;
pub use store::{Name, Store};

/// Something that objects of a kind have in common and can be found by, such as `("bundle", "my-app-v1")`.
pub type Facet = (&'static str, String);

/// What an object can be found by.
pub type FacetsOf = fn(&Gvk, &Value) -> Vec<Facet>;

/// What a watch tells the controllers.
#[derive(Debug, Clone)]
pub enum Change {
    /// An object appeared, changed or went.
    Object {
        /// Which one.
        id: ObjectId,
        /// As it was seen before.
        old: Option<Arc<Object>>,
        /// As it is now.
        new: Option<Arc<Object>>,
    },
    /// It became known how the kind stands: its first list arrived, it is not served, or it cannot be listed.
    Kind(Gvk),
}

/// The watches of one process.
pub struct Watches {
    client: kube::Client,
    kinds: Arc<Kinds>,
    facets_of: FacetsOf,
    /// The bounds of what is kept, if there are any.
    room: Option<Arc<Room>>,
    running: Mutex<BTreeMap<Gvk, Arc<KindWatch>>>,
    changes: mpsc::UnboundedSender<Change>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One kind's watch.
pub(crate) struct KindWatch {
    keeping: Keeping,
    pub(crate) store: RwLock<Arc<Store>>,
    /// Woken when the server may have begun to serve the kind.
    pub(crate) retry: Notify,
}

impl KindWatch {
    pub(crate) fn read(&self) -> Arc<Store> {
        self.store.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the store; views that are still held keep what they had.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut store))
    }
}

impl Watches {
    /// No watch runs yet. Changes of all kinds arrive on the returned channel. Objects are filed under `facets_of`.
    pub fn new(
        client: kube::Client,
        kinds: Arc<Kinds>,
        facets_of: FacetsOf,
        stop: CancellationToken,
    ) -> (Arc<Watches>, mpsc::UnboundedReceiver<Change>) {
        Watches::start((client, kinds), facets_of, None, stop)
    }

    /// Watches of a stranger's cluster, of which no more is kept than `room` has. A kind with more than that is lost.
    pub fn within(
        room: Arc<Room>,
        client: kube::Client,
        kinds: Arc<Kinds>,
        stop: CancellationToken,
    ) -> (Arc<Watches>, mpsc::UnboundedReceiver<Change>) {
        Watches::start((client, kinds), |_, _| Vec::new(), Some(room), stop)
    }

    fn start(
        (client, kinds): (kube::Client, Arc<Kinds>),
        facets_of: FacetsOf,
        room: Option<Arc<Room>>,
        stop: CancellationToken,
    ) -> (Arc<Watches>, mpsc::UnboundedReceiver<Change>) {
        let (changes, receiver) = mpsc::unbounded_channel();
        let (running, tasks) = (Mutex::default(), TaskTracker::new());
        let watches = Watches { client, kinds, facets_of, room, running, changes, stop, tasks };
        (Arc::new(watches), receiver)
    }

    /// Starts the kind's watch unless it runs.
    pub fn ensure(&self, gvk: &Gvk) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.contains_key(gvk) {
            return;
        }
        let watch = Arc::new(KindWatch {
            keeping: self.keeping(gvk),
            store: RwLock::new(Arc::new(Store::new(gvk.clone()))),
            retry: Notify::new(),
        });
        running.insert(gvk.clone(), watch.clone());
        let run = stream::run(self.client.clone(), self.kinds.clone(), watch, self.changes.clone());
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = run => {}
            }
        });
    }

    fn keeping(&self, gvk: &Gvk) -> Keeping {
        Keeping { gvk: gvk.clone(), facets_of: self.facets_of, room: self.room.clone() }
    }

    /// Lets watches of kinds that were not served look again.
    pub fn retry_unserved(&self) {
        for watch in self.running.lock().unwrap_or_else(PoisonError::into_inner).values() {
            watch.retry.notify_one();
        }
    }

    /// What has been seen of these kinds.
    pub fn view<'a>(&self, kinds: impl IntoIterator<Item = &'a Gvk>) -> View {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |gvk: &Gvk| running.get(gvk).map(|watch| watch.read());
        let stores = kinds.into_iter().map(|gvk| (gvk.clone(), seen(gvk))).collect();
        View { stores }
    }

    /// Makes an object that the server has just answered visible, to everybody, before its watch event arrives.
    pub fn remember(&self, gvk: &Gvk, object: Value) {
        // One that does not fit is left to the watch, which says so.
        if let Ok(object) = self.keeping(gvk).keep(object) {
            self.put(gvk, [object]);
        }
    }

    fn put(&self, gvk: &Gvk, objects: impl IntoIterator<Item = (Name, Object)>) {
        let watch = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(gvk).cloned();
        let Some(watch) = watch else { return };
        for object in objects {
            if let Some(change) = watch.write(|store| store.put_answer(object)) {
                // Nobody listens any more when the controllers stop.
                let _ = self.changes.send(change);
            }
        }
    }

    /// Reads objects of a kind in one namespace once more, past their watch, which may be behind those of other kinds.
    pub async fn look_again(&self, gvk: &Gvk, namespace: &str, labels: &str) -> Result<(), kube::Error> {
        // Users write it; there is nothing in a namespace that cannot be.
        if !can_be_namespace(namespace) {
            return Ok(());
        }
        self.read(gvk, namespace, labels).await
    }

    /// Reads the objects of a kind in one namespace past their watch, and so proves that the server can be reached now;
    /// why not, otherwise.
    pub async fn confirm(&self, gvk: &Gvk, namespace: &str) -> Result<(), Lost> {
        if !can_be_namespace(namespace) {
            let why = format!("`{}` cannot be the name of a namespace", namespace.escape_default());
            return Err(Lost { why, code: None });
        }
        self.read(gvk, namespace, "").await.map_err(|error| Lost::of(&error))
    }

    async fn read(&self, gvk: &Gvk, namespace: &str, labels: &str) -> Result<(), kube::Error> {
        let Some(kind) = self.kinds.resolve(gvk).await? else { return Ok(()) };
        let params = match labels.is_empty() {
            true => ListParams::default(),
            false => ListParams::default().labels(labels),
        };
        let request = Request::new(kind.path(Some(namespace)));
        let found = stream::list(&self.client, &request, params, &self.keeping(gvk)).await?;
        self.put(gvk, found.into_iter().flat_map(|(items, _)| items));
        Ok(())
    }

    /// Waits until every watch has ended; `stop` must have been cancelled.
    pub async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// What is known of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing yet: nobody watches it, or nothing has come of the first attempt.
    Unknown,
    /// Its objects could not be listed; that is tried again.
    Failed,
    /// The server does not serve it.
    NotServed,
    /// Its objects. They are old while the watch is [lost](View::lost).
    Listed,
}

/// Why nothing is heard of a kind at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// In words.
    pub why: String,
    /// The code of HTTP that the server refused with, if it answered at all.
    pub code: Option<u16>,
}

/// Why nothing is heard of a kind that nobody watches.
const UNWATCHED: &str = "it is not watched";

/// What the watches had seen at one moment. As long as it is held, the watches copy what they change.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The kinds that were asked for; nothing for one that nobody watches.
    stores: BTreeMap<Gvk, Option<Arc<Store>>>,
}

impl View {
    /// What is known of a kind.
    pub fn knowledge(&self, gvk: &Gvk) -> Knowledge {
        self.store(gvk).map_or(Knowledge::Unknown, Store::knowledge)
    }

    fn all(&self, holds: impl Fn(Knowledge) -> bool) -> bool {
        self.stores.keys().all(|gvk| holds(self.knowledge(gvk)))
    }

    fn store(&self, gvk: &Gvk) -> Option<&Store> {
        self.stores.get(gvk)?.as_deref()
    }

    /// Whether every kind was tried at least once: it is known how it stands, be it that it could not be listed. Until then a
    /// decision would be made half blind.
    pub fn attempted(&self) -> bool {
        self.all(|known| known != Knowledge::Unknown)
    }

    /// Whether every kind has been listed. Where an absent object would be a permission, such as a gate that is not
    /// there, nothing less will do: a list that failed is not an empty one.
    pub fn synced(&self) -> bool {
        self.all(|known| known == Knowledge::Listed)
    }

    /// Whether every kind has been listed, or is known not to be served.
    pub fn known(&self) -> bool {
        self.all(|known| matches!(known, Knowledge::Listed | Knowledge::NotServed))
    }

    /// Why nothing is heard at present of one of these kinds; `None` while the watches of all of them are connected.
    pub fn lost<'a>(&self, kinds: impl IntoIterator<Item = &'a Gvk>) -> Option<Lost> {
        let unwatched = || Some(Lost { why: UNWATCHED.to_owned(), code: None });
        kinds
            .into_iter()
            .find_map(|gvk| self.store(gvk).map_or_else(unwatched, |store| store.lost().cloned()))
    }

    /// The kind's scope, when the server serves it.
    pub fn scope(&self, gvk: &Gvk) -> Option<KindScope> {
        self.store(gvk)?.scope()
    }

    /// The kind's objects; `None` while the first list has not arrived.
    pub fn kind(&self, gvk: &Gvk) -> Option<&Store> {
        self.store(gvk).filter(|store| store.knowledge() == Knowledge::Listed)
    }
}

#[cfg(test)]
mod tests;
