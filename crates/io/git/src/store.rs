//! One object database, opened once and kept.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use gix::{ObjectId, ThreadSafeRepository, odb::store::init::Slots};

use crate::{
    Limits,
    error::Failure,
    objects::history::{self, Shallow, Trail},
};

/// A pack wears as much as this many loose objects.
pub(crate) const PACK_WEAR: usize = 64;
/// A cache is worn out with this many loose objects, or accordingly fewer packs.
const MAX_WEAR: usize = 40_000;
/// So many starting points are remembered.
const HAVES: usize = 32;
/// More packs than this at a time cannot be used.
const SLOTS: u16 = 1024;

/// An open repository with what we know about its branches.
pub(crate) struct Store {
    pub(crate) repo: ThreadSafeRepository,
    /// The directory of the repository itself.
    pub(crate) path: PathBuf,
    /// Where the branches of the remote were when we last looked; empty for a repository on disk.
    tips: Mutex<HashMap<String, ObjectId>>,
    trails: Mutex<HashMap<String, Trail>>,
    /// Commits of the remote that are complete here, oldest first.
    haves: Mutex<VecDeque<ObjectId>>,
    /// How much has piled up in a cache: loose objects and packs.
    wear: AtomicUsize,
    /// Held while a cache is in use by this process.
    lock: Option<File>,
}

impl Store {
    /// Opens the repository at `path`, bare or not.
    pub(crate) fn open(path: &Path, lock: Option<File>, limits: &Limits) -> Result<Store, gix::Error> {
        let repo = options(limits).open(path)?;
        let path = repo.to_thread_local().git_dir().to_owned();
        let haves = Mutex::new(read_haves(&path));
        let wear = AtomicUsize::new(if lock.is_some() { wear_of(&path) } else { 0 });
        Ok(Store { repo, path, tips: Mutex::default(), trails: Mutex::default(), haves, wear, lock })
    }

    /// Notes that the cache is of use; the least recently used one goes first.
    pub(crate) fn touch(&self) {
        if let Some(lock) = &self.lock
            && let Err(error) = lock.set_modified(SystemTime::now())
        {
            tracing::debug!(%error, "the time of use cannot be noted");
        }
    }

    /// Notes that a push left some loose objects or a fetch a pack.
    pub(crate) fn wear(&self, amount: usize) {
        self.wear.fetch_add(amount, Ordering::Relaxed);
    }

    /// Whether so much has piled up that a fresh cache is cheaper. Nobody collects garbage here.
    pub(crate) fn is_worn(&self) -> bool {
        self.wear.load(Ordering::Relaxed) > MAX_WEAR
    }

    /// A handle for this thread.
    pub(crate) fn local(&self) -> gix::Repository {
        self.repo.to_thread_local()
    }

    /// The last known tip of a branch of the remote.
    pub(crate) fn known_tip(&self, branch: &str) -> Option<ObjectId> {
        guard(&self.tips).get(branch).copied()
    }

    /// Remembers, or forgets, the tip of a branch of the remote.
    pub(crate) fn remember_tip(&self, branch: &str, tip: Option<ObjectId>) {
        let mut tips = guard(&self.tips);
        match tip {
            Some(tip) => tips.insert(branch.to_owned(), tip),
            None => tips.remove(branch),
        };
    }

    /// The commit in the history of the branch that carries the line.
    pub(crate) fn find_mark(
        &self,
        branch: &str,
        tip: ObjectId,
        identity: &str,
    ) -> Result<Option<ObjectId>, Failure> {
        let shallow = self.shallow()?;
        let mut trails = guard(&self.trails);
        let trail = trails.entry(branch.to_owned()).or_default();
        trail.follow(&self.local(), tip, &shallow)?;
        Ok(trail.find(identity))
    }

    /// The same for a branch that is looked at only once.
    pub(crate) fn find_mark_once(&self, tip: ObjectId, identity: &str) -> Result<Option<ObjectId>, Failure> {
        let mut trail = Trail::default();
        trail.follow(&self.local(), tip, &self.shallow()?)?;
        Ok(trail.find(identity))
    }

    /// The commits at which the history we have ends.
    pub(crate) fn shallow(&self) -> Result<Shallow, Failure> {
        match std::fs::read_to_string(self.path.join("shallow")) {
            Ok(text) => text
                .lines()
                .map(|line| ObjectId::from_hex(line.trim().as_bytes()))
                .collect::<Result<Shallow, _>>()
                .map_err(|error| Failure::corrupt("reading the shallow file", error)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Shallow::new()),
            Err(error) => Err(Failure::corrupt("reading the shallow file", error)),
        }
    }

    /// Moves the end of the history we have, to where the remote says that it ends now. Nobody is believed: history ends at a
    /// commit as long as a parent of it is not here, and not any longer.
    pub(crate) fn move_boundary(&self, ends: impl IntoIterator<Item = ObjectId>) -> Result<(), Failure> {
        let mut shallow = self.shallow()?;
        shallow.extend(ends);
        let repo = self.local();
        let mut text: Vec<String> = Vec::new();
        for id in shallow {
            let parents = history::parents(&repo, id)?;
            if parents.iter().any(|parent| !repo.has_object(parent)) {
                text.push(format!("{id}\n"));
            }
        }
        text.sort();
        self.replace_file("shallow", &text.concat())
    }

    /// Commits to name as a starting point in a fetch.
    pub(crate) fn haves(&self) -> Vec<ObjectId> {
        guard(&self.haves).iter().rev().copied().collect()
    }

    /// Remembers that a commit of the remote is here with all it needs.
    pub(crate) fn add_have(&self, id: ObjectId) {
        let mut haves = guard(&self.haves);
        haves.retain(|have| *have != id);
        haves.push_back(id);
        while haves.len() > HAVES {
            haves.pop_front();
        }
    }

    /// Writes the starting points down for the next process.
    pub(crate) fn save_haves(&self) -> Result<(), Failure> {
        let text: String = guard(&self.haves).iter().map(|id| format!("{id}\n")).collect();
        self.replace_file("haves", &text)
    }

    /// Replaces a file as a whole; an empty one is removed.
    fn replace_file(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let done = if text.is_empty() {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            let new = self.path.join(format!("{name}.new"));
            std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path))
        };
        done.map_err(|error| Failure::fault(format!("writing `{name}` in the repository cache: {error}")))
    }

    /// Whether an object is here.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.local().has_object(id)
    }
}

/// The wear found on disk; loose objects are estimated from one of their 256 directories.
fn wear_of(path: &Path) -> usize {
    let count = |name: &str| std::fs::read_dir(path.join(name)).map_or(0, Iterator::count);
    count("objects/17") * 256 + count("objects/pack") / 2 * PACK_WEAR
}

fn read_haves(path: &Path) -> VecDeque<ObjectId> {
    let text = std::fs::read_to_string(path.join("haves")).unwrap_or_default();
    text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect()
}

/// Nothing of the surrounding system is taken into account, least of all programs to run.
pub(crate) fn options(limits: &Limits) -> gix::open::Options {
    let largest = format!("gitoxide.objects.allocLimit={}", limits.object);
    gix::open::Options::isolated()
        .config_overrides(["core.useReplaceRefs=false", &largest])
        .object_store_slots(Slots::Given(SLOTS))
        .with(gix::sec::Trust::Full)
}

/// A panic elsewhere leaves these maps usable: every entry stands for itself.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
