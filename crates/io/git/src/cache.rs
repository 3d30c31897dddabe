//! The caches of remote repositories on disk: bounded, shared by all tasks, and never precious.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};

use crate::{
    Limits,
    error::Failure,
    git::Settings,
    program::incoming,
    store::{Store, options},
};

/// So many processes may each have a cache of the same repository.
const SLOTS: usize = 16;

/// Opens the cache for a URL, making it if need be.
pub(crate) fn open(settings: &Settings, url: &str) -> Result<Store, Failure> {
    let root = &settings.cache_dir;
    std::fs::create_dir_all(root).map_err(|error| {
        Failure::fault(format!("creating the cache directory `{}`: {error}", root.display()))
    })?;
    let key: String =
        Sha256::digest(url.as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    for slot in 0..SLOTS {
        let name = if slot == 0 { key.clone() } else { format!("{key}-{slot}") };
        if let Some(lock) = lock(&root.join(format!("{name}.lock")))? {
            let store = open_at(&root.join(&name), lock, &settings.limits)?;
            store.touch();
            return Ok(store);
        }
    }
    Err(Failure::fault(format!("too many processes use the cache in `{}`", root.display())))
}

/// A folder that is there as long as this is. The lock goes last: what has none is taken for the rest of a process that
/// died.
pub(crate) struct Passing {
    folder: tempfile::TempDir,
    _lock: tempfile::TempPath,
}

/// A store that goes with its folder.
pub(crate) fn passing(settings: &Settings) -> Result<(Passing, Store), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::fault(format!("creating a passing cache: {error}"));
    std::fs::create_dir_all(&settings.cache_dir).map_err(|error| failed(&error))?;
    let folder = tempfile::Builder::new().prefix("passing-").tempdir_in(&settings.cache_dir);
    let folder = folder.map_err(|error| failed(&error))?;
    let path = folder.path().with_extension("lock");
    let held = lock(&path)?.ok_or_else(|| failed(&"somebody else removes it"))?;
    let path = tempfile::TempPath::try_from_path(path).map_err(|error| failed(&error))?;
    let passing = Passing { folder, _lock: path };
    init(passing.folder.path(), &settings.limits).map_err(|error| failed(&error))?;
    let store = Store::open(passing.folder.path(), Some(held), &settings.limits);
    Ok((passing, store.map_err(|error| failed(&error))?))
}

/// An empty repository.
pub(crate) fn init(path: &Path, limits: &Limits) -> Result<(), gix::Error> {
    gix::ThreadSafeRepository::init_opts(
        path,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        options(limits),
    )?;
    Ok(())
}

/// Takes a cache for this process, unless another one has it. The lock ends with the process.
fn lock(path: &Path) -> Result<Option<File>, Failure> {
    let failed = |error: std::io::Error| Failure::fault(format!("locking `{}`: {error}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn open_at(path: &Path, lock: File, limits: &Limits) -> Result<Store, Failure> {
    if path.exists() {
        incoming::clear(path);
        let copy = lock.try_clone().ok();
        match Store::open(path, copy, limits) {
            Ok(store) if store.is_worn() => tracing::debug!("a cache is worn out and is made afresh"),
            Ok(store) => return Ok(store),
            Err(error) => tracing::warn!(%error, "a cache cannot be opened and is made afresh"),
        }
    }
    remove(path)?;
    let failed =
        |error: gix::Error| Failure::fault(format!("creating the cache `{}`: {error}", path.display()));
    init(path, limits).map_err(failed)?;
    Store::open(path, Some(lock), limits).map_err(failed)
}

/// Removes a cache.
pub(crate) fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::fault(format!("removing the cache `{}`: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

/// A cache on disk, whoever uses it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// The caches that have to go: the old ones, and the least recently used until the rest fits.
pub(crate) fn surplus(settings: &Settings) -> Vec<Found> {
    let mut found = find(&settings.cache_dir);
    found.sort_by_key(|one| one.used);
    let mut bytes: u64 = found.iter().map(|one| one.bytes).sum();
    let now = SystemTime::now();
    found.retain(|one| {
        let age = now.duration_since(one.used).unwrap_or(Duration::ZERO);
        let goes = age > settings.max_age || bytes > settings.max_bytes;
        if goes {
            bytes = bytes.saturating_sub(one.bytes);
        }
        goes
    });
    found
}

/// Removes a cache that no process uses.
pub(crate) fn evict(found: &Found) {
    let removed = match lock(&found.path.with_extension("lock")) {
        Ok(Some(_lock)) => remove(&found.path),
        Ok(None) => return,
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "a cache cannot be removed");
    }
}

fn find(root: &Path) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let directories = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    directories
        .map(|path| {
            let lock = std::fs::metadata(path.with_extension("lock"));
            let used = lock.and_then(|lock| lock.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            Found { bytes: size(&path), path, used }
        })
        .collect()
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passing_cache_stays_while_it_is_used_and_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let settings = Settings {
            cache_dir: root.path().to_owned(),
            max_bytes: 1,
            max_age: Duration::ZERO,
            local: None,
            limits: Limits::default(),
        };
        let left = || std::fs::read_dir(root.path()).unwrap().count();
        let (folder, store) = passing(&settings).unwrap();
        surplus(&settings).iter().for_each(evict);
        assert!(store.path.join("objects").is_dir(), "it was taken away");
        drop((store, folder));
        assert_eq!(left(), 0);
        // What a process that died has left is nobody's.
        std::fs::create_dir(root.path().join("passing-x")).unwrap();
        surplus(&settings).iter().for_each(evict);
        assert!(!root.path().join("passing-x").exists());
    }
}
