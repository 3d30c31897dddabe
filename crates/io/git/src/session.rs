//! One repository in use: what the remote and the object database can do together.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use gix::ObjectId;

use crate::remote::fingerprint;
use crate::{
    Budget, Error, FileChange, cache, disk,
    error::Failure,
    git::Inner,
    http::{Capabilities, Line, fetch::Depth, push::Update},
    lane::Lane,
    objects::{
        self, NewObject, compare,
        history::{self, Ancestry},
        pack, snapshot,
    },
    program,
    remote::{Place, Target},
    store::{PACK_WEAR, Store, guard},
};

/// How long credentials that a remote has accepted may read the cache without its being asked again.
const PROOF: Duration = Duration::from_secs(300);
/// A short id is looked for in so many branches.
const MAX_BRANCHES: usize = 2000;

/// What is kept about one repository between calls.
#[derive(Default)]
pub(crate) struct Depot {
    store: tokio::sync::Mutex<Option<Arc<Store>>>,
    /// One fetch at a time: the next one finds most of what it wants.
    fetching: tokio::sync::Mutex<()>,
    capabilities: Mutex<Option<Capabilities>>,
    /// Where the repository really is, after redirects.
    base: Mutex<Option<String>>,
    /// Fingerprints of the credentials that the remote has accepted, and when: only they may read the cache.
    proven: Mutex<HashMap<[u8; 32], Instant>>,
    lanes: Mutex<HashMap<(String, u64), Arc<Lane>>>,
}

impl Depot {
    /// Forgets the lanes nobody waits in.
    pub(crate) fn tidy_lanes(&self) {
        guard(&self.lanes).retain(|_, lane| Arc::strong_count(lane) > 1);
    }

    /// Closes the store at `path` if it is ours and nobody uses it.
    pub(crate) fn close_idle(&self, path: &Path) {
        if let Ok(mut slot) = self.store.try_lock()
            && slot.as_ref().is_some_and(|store| store.path == path && Arc::strong_count(store) == 1)
        {
            *slot = None;
        }
    }
}

/// A repository, open, with the way to its remote.
pub(crate) struct Session {
    pub(crate) target: Target,
    pub(crate) store: Arc<Store>,
    depot: Arc<Depot>,
    inner: Arc<Inner>,
}

/// Runs work that blocks where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await?
}

/// How a remote is reached.
enum Way {
    Disk,
    Http(Capabilities),
    Program,
}

impl Session {
    /// Opens the repository, or takes the one that is open already.
    pub(crate) async fn open(
        inner: Arc<Inner>,
        depot: Arc<Depot>,
        target: Target,
    ) -> Result<Session, Failure> {
        let mut slot = depot.store.lock().await;
        if slot.as_ref().is_some_and(|store| store.is_worn() && Arc::strong_count(store) == 1) {
            *slot = None;
        }
        let open = slot.as_ref().map(Arc::clone);
        let store = match open {
            Some(store) => store,
            None => {
                let store = Arc::new(open_store(&inner, &target).await?);
                *slot = Some(Arc::clone(&store));
                store
            }
        };
        drop(slot);
        store.touch();
        Ok(Session { target, store, depot, inner })
    }

    async fn way(&self) -> Result<Way, Failure> {
        match self.target.place {
            Place::Disk(_) => return Ok(Way::Disk),
            Place::Program => return Ok(Way::Program),
            Place::Http => {}
        }
        let known = guard(&self.depot.capabilities).clone();
        let capabilities = match known {
            Some(capabilities) => capabilities,
            None => {
                let found = self.line()?.capabilities().await?;
                *guard(&self.depot.capabilities) = Some(found.clone());
                found
            }
        };
        Ok(if capabilities.modern { Way::Http(capabilities) } else { Way::Program })
    }

    fn line(&self) -> Result<Line<'_>, Failure> {
        let client = self.inner.http.client(self.target.ca.as_ref())?;
        Ok(Line { client, target: &self.target, base: &self.depot.base, reach: &self.inner.reach })
    }

    fn program(&self) -> program::Way<'_> {
        let (reach, resolver) = (&self.inner.reach, self.inner.http.resolver());
        program::Way { target: &self.target, reach, resolver, limits: self.inner.settings.limits }
    }

    fn is_cached(&self) -> bool {
        !matches!(self.target.place, Place::Disk(_))
    }

    fn is_proven(&self) -> bool {
        let proven = guard(&self.depot.proven);
        proven.get(&fingerprint(&self.target.credentials)).is_some_and(|at| at.elapsed() < PROOF)
    }

    /// Where the branch was when these credentials last saw it.
    pub(crate) fn known_tip(&self, branch: &str) -> Option<ObjectId> {
        if self.is_cached() && self.is_proven() { self.store.known_tip(branch) } else { None }
    }

    /// The lane for a branch. Orders with other credentials go their own way.
    pub(crate) fn lane(&self, branch: &str) -> (Arc<Depot>, Arc<Lane>) {
        let mut hasher = DefaultHasher::new();
        self.target.credentials.hash(&mut hasher);
        self.target.ca.hash(&mut hasher);
        let key = (branch.to_owned(), hasher.finish());
        let lane = Arc::clone(guard(&self.depot.lanes).entry(key).or_default());
        (Arc::clone(&self.depot), lane)
    }

    /// Gives up a store that cannot be read; a cache is removed with it.
    pub(crate) async fn discard(&self) -> Result<(), Failure> {
        let mut slot = self.depot.store.lock().await;
        if !slot.as_ref().is_some_and(|store| Arc::ptr_eq(store, &self.store)) {
            return Ok(());
        }
        if self.is_cached() {
            let path = self.store.path.clone();
            blocking(move || cache::remove(&path)).await?;
        }
        *slot = None;
        Ok(())
    }

    /// Does something with the store where blocking is allowed.
    pub(crate) async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = Arc::clone(&self.store);
        blocking(move || work(&store)).await
    }

    /// The tip of a branch as it is at the remote.
    pub(crate) async fn tip(&self, branch: &str) -> Result<Option<ObjectId>, Failure> {
        Ok(self.tips(&[branch]).await?.remove(branch))
    }

    /// The tips of some branches as they are at the remote.
    pub(crate) async fn tips(&self, branches: &[&str]) -> Result<HashMap<String, ObjectId>, Failure> {
        let mut names: Vec<String> = Vec::with_capacity(branches.len());
        for branch in branches {
            disk::full_name(branch)?;
            names.push((*branch).to_owned());
        }
        let tips = match self.way().await? {
            Way::Disk => return self.with_store(move |store| disk::tips(&store.local(), names)).await,
            Way::Http(capabilities) => self.line()?.tips(&capabilities, &names).await,
            Way::Program => program::tips(self.program(), &names).await,
        };
        self.note_access(&tips);
        tips
    }

    /// Credentials that were let in may read the cache, those that were turned away may not any more.
    fn note_access<T>(&self, answer: &Result<T, Failure>) {
        let mut proven = guard(&self.depot.proven);
        match answer {
            Ok(_) => {
                proven.retain(|_, at| at.elapsed() < PROOF);
                proven.insert(fingerprint(&self.target.credentials), Instant::now());
            }
            Err(Failure::Plain(Error::Problem { .. })) => {
                proven.remove(&fingerprint(&self.target.credentials));
            }
            Err(_) => {}
        }
    }

    /// Gets commits that are not here yet.
    pub(crate) async fn ensure(&self, ids: &[ObjectId]) -> Result<(), Failure> {
        if self.is_cached() && !self.is_proven() {
            self.tips(&["main"]).await?;
        }
        if self.missing(ids).await?.is_empty() {
            return Ok(());
        }
        if self.is_cached() {
            self.fetch(ids, Depth::Usual).await?;
        }
        match self.missing(ids).await?.first() {
            None => Ok(()),
            Some(id) => Err(Failure::no_commit(format!(
                "there is no commit `{id}` in the repository `{}`",
                self.target.url
            ))),
        }
    }

    async fn missing(&self, ids: &[ObjectId]) -> Result<Vec<ObjectId>, Failure> {
        let ids = ids.to_vec();
        self.with_store(move |store| Ok(ids.into_iter().filter(|id| !store.has(*id)).collect())).await
    }

    /// Fetches commits into the cache. At the usual depth, only what is missing.
    async fn fetch(&self, ids: &[ObjectId], depth: Depth) -> Result<(), Failure> {
        let _turn = self.depot.fetching.lock().await;
        let wants = if depth == Depth::Usual { self.missing(ids).await? } else { ids.to_vec() };
        if wants.is_empty() {
            return Ok(());
        }
        match self.way().await? {
            Way::Disk => return Ok(()),
            Way::Http(capabilities) => {
                let limits = self.inner.settings.limits;
                let received =
                    self.line()?.fetch(&capabilities, &self.store, (&wants, depth), limits).await?;
                // A slow sender holds nobody up: only what is here already waits for its turn.
                let _turn = self.inner.unpacking.acquire().await;
                let store = Arc::clone(&self.store);
                blocking(move || received.keep(&store, &limits)).await?;
            }
            Way::Program => self.fetch_by_program(&self.store, &wants, depth).await?,
        }
        self.with_store(move |store| {
            wants.into_iter().for_each(|id| store.add_have(id));
            store.wear(PACK_WEAR);
            store.save_haves()
        })
        .await?;
        self.inner.sweep().await
    }

    /// Only what is here already waits for its turn, as above.
    async fn fetch_by_program(
        &self,
        store: &Arc<Store>,
        wants: &[ObjectId],
        depth: Depth,
    ) -> Result<(), Failure> {
        let incoming = program::fetch(self.program(), store, wants, depth).await?;
        let _turn = self.inner.unpacking.acquire().await;
        let (store, limits) = (Arc::clone(store), self.inner.settings.limits);
        blocking(move || incoming.keep(&store, &limits)).await
    }

    /// Moves a branch of the remote from `old` to `new`, giving it the objects it needs for that.
    pub(crate) async fn push(
        &self,
        branch: &str,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        objects: Vec<NewObject>,
    ) -> Result<(), Failure> {
        disk::full_name(branch)?;
        let update = Update { branch, old, new };
        self.store.wear(objects.len());
        let pushed = match self.way().await? {
            Way::Disk => {
                let branch = branch.to_owned();
                return self.with_store(move |store| disk::swap(&store.local(), &branch, old, new)).await;
            }
            Way::Http(_) => {
                let pack = match new {
                    Some(_) => blocking(move || pack::encode(&objects)).await?,
                    None => Vec::new(),
                };
                self.line()?.push(update, pack).await
            }
            Way::Program => program::push(self.program(), &self.store, update).await,
        };
        match &pushed {
            Ok(()) => {
                self.store.remember_tip(branch, new);
                if let Some(new) = new {
                    self.store.add_have(new);
                }
            }
            Err(Failure::Moved(_)) => self.store.remember_tip(branch, None),
            Err(_) => {}
        }
        pushed
    }

    /// One file of one commit.
    pub(crate) async fn read(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Failure> {
        let commit = objects::parse_id(commit)?;
        self.ensure(&[commit]).await?;
        let path = path.to_owned();
        self.with_store(move |store| {
            let repo = store.local();
            snapshot::read(&repo, objects::tree_of(&repo, commit)?, &path, &Budget::default())
        })
        .await
    }

    /// Deletes a branch if it is where the caller thinks.
    pub(crate) async fn delete_branch(&self, branch: &str, expected: &str) -> Result<(), Failure> {
        let expected = objects::parse_id(expected)?;
        match self.push(branch, Some(expected), None, Vec::new()).await {
            Err(Failure::Moved(message)) => match self.tip(branch).await? {
                None => Ok(()),
                Some(tip) if tip == expected => Err(Failure::Moved(message)),
                Some(tip) => Err(Failure::problem(format!(
                    "the branch `{branch}` was not deleted: it is at {tip}, not at {expected}"
                ))),
            },
            other => other,
        }
    }

    /// Whether one commit is in the history of another.
    pub(crate) async fn contains(&self, descendant: &str, ancestor: &str) -> Result<bool, Failure> {
        let (descendant, ancestor) = (objects::parse_id(descendant)?, objects::parse_id(ancestor)?);
        self.ensure(&[descendant]).await?;
        for depth in [Depth::Usual, Depth::Commits(1000), Depth::Whole] {
            if depth != Depth::Usual {
                self.fetch(&[descendant], depth).await?;
            }
            let answer = self
                .with_store(move |store| {
                    history::ancestry(&store.local(), descendant, ancestor, &store.shallow()?)
                })
                .await?;
            match answer {
                Ancestry::Yes => return Ok(true),
                Ancestry::No => return Ok(false),
                Ancestry::Unknown => {}
            }
        }
        Ok(false)
    }

    /// The whole id of a commit in the history of any branch. A whole one is taken as it is.
    pub(crate) async fn resolve(&self, text: &str) -> Result<ObjectId, Failure> {
        if text.len() == 40 {
            return objects::parse_id(text);
        }
        let prefix = objects::parse_prefix(text)?;
        let (looked_for, url) = (prefix.clone(), self.target.url.clone());
        let mut found = match self.way().await? {
            Way::Disk => {
                self.with_store(move |store| {
                    let repo = store.local();
                    history::with_prefix(&repo, disk::heads(&repo)?, &looked_for)
                })
                .await?
            }
            way @ (Way::Http(_) | Way::Program) => self.search(way, looked_for).await?,
        };
        found.sort();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(Failure::no_commit(format!(
                "no commit in any branch of `{url}` begins with `{prefix}`: push it first, or correct the id"
            ))),
            [first, second, ..] => Err(Failure::no_commit(format!(
                "`{prefix}` means several commits of `{url}`, among them {first} and {second}: write more digits"
            ))),
        }
    }

    /// Looks through the commits of all branches. They go into a folder of their own: without their trees they must
    /// not be mistaken for commits that are here.
    async fn search(&self, way: Way, prefix: String) -> Result<Vec<ObjectId>, Failure> {
        let tips = match &way {
            Way::Http(capabilities) => self.line()?.tips(capabilities, &[]).await?,
            _ => program::tips(self.program(), &[]).await?,
        };
        let mut tips: Vec<ObjectId> = tips.into_values().collect();
        tips.sort();
        tips.dedup();
        tips.truncate(MAX_BRANCHES);
        if tips.is_empty() {
            return Ok(Vec::new());
        }
        let (settings, limits) = (self.inner.settings.clone(), self.inner.settings.limits);
        let (folder, store) = blocking(move || cache::passing(&settings)).await?;
        let store = Arc::new(store);
        match way {
            Way::Http(capabilities) => {
                let wanted = (tips.as_slice(), Depth::History);
                let received = self.line()?.fetch(&capabilities, &store, wanted, limits).await?;
                let _turn = self.inner.unpacking.acquire().await;
                let store = Arc::clone(&store);
                blocking(move || received.keep(&store, &limits)).await?;
            }
            _ => self.fetch_by_program(&store, &tips, Depth::History).await?,
        }
        blocking(move || {
            let found = history::with_prefix(&store.local(), tips, &prefix);
            drop((store, folder));
            found
        })
        .await
    }

    /// What differs in a commit from another one, or from its first parent.
    pub(crate) async fn diff(
        &self,
        from: Option<&str>,
        to: &str,
        budget: &Budget,
    ) -> Result<Vec<FileChange>, Failure> {
        let budget = budget.clone();
        let Some(from) = from else { return self.diff_of(objects::parse_id(to)?, budget).await };
        let (from, to) = (objects::parse_id(from)?, objects::parse_id(to)?);
        self.ensure(&[from, to]).await?;
        self.with_store(move |store| {
            let repo = store.local();
            let (from, to) = (objects::tree_of(&repo, from)?, objects::tree_of(&repo, to)?);
            compare::files(&repo, Some(from), Some(to), &budget)
        })
        .await
    }

    async fn diff_of(&self, commit: ObjectId, budget: Budget) -> Result<Vec<FileChange>, Failure> {
        self.ensure(&[commit]).await?;
        if self.with_store(move |store| Ok(store.shallow()?.contains(&commit))).await? {
            self.fetch(&[commit], Depth::Commits(50)).await?;
        }
        self.with_store(move |store| {
            let repo = store.local();
            let before = history::parent(&repo, commit, &store.shallow()?)?;
            let before = before.map(|parent| objects::tree_of(&repo, parent)).transpose()?;
            compare::files(&repo, before, Some(objects::tree_of(&repo, commit)?), &budget)
        })
        .await
    }
}

async fn open_store(inner: &Arc<Inner>, target: &Target) -> Result<Store, Failure> {
    let (url, inner) = (target.url.clone(), Arc::clone(inner));
    match target.place.clone() {
        Place::Disk(path) => {
            blocking(move || {
                Store::open(&path, None, &inner.settings.limits)
                    .map_err(|error| Failure::problem(format!("there is no repository at `{url}`: {error}")))
            })
            .await
        }
        Place::Http | Place::Program => blocking(move || cache::open(&inner.settings, &url)).await,
    }
}
