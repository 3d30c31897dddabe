//! The files of one commit as callers see them.

use std::{
    ffi::OsStr,
    fs::Permissions,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
    sync::{Mutex, PoisonError},
};

use gix::{
    ObjectId, ThreadSafeRepository,
    bstr::ByteSlice as _,
    objs::tree::{self, EntryKind as Kind},
};

use super::{MAX_FILE, edit::in_the_way, entries};
use crate::{Budget, Entry, EntryKind, Error, Tree, error::Failure, path};

/// At most this many bytes are written by one export. They go to the disk, one file at a time.
const MAX_EXPORT: u64 = 512 << 20;
/// And so many files and directories.
const MAX_EXPORTED: u64 = 100_000;
/// Directories deeper than this are not exported.
const MAX_DEPTH: usize = 64;

/// A tree in an object database.
pub(crate) struct Snapshot {
    repo: ThreadSafeRepository,
    root: ObjectId,
    damage: Mutex<Option<String>>,
    budget: Budget,
}

impl Snapshot {
    /// The tree `root`, for one change.
    pub(crate) fn new(repo: ThreadSafeRepository, root: ObjectId) -> Snapshot {
        Snapshot { repo, root, damage: Mutex::new(None), budget: Budget::default() }
    }

    /// Whether a read failed because the database is damaged, which a change can only report as its own error.
    pub(crate) fn damage(&self) -> Option<Failure> {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).take().map(Failure::Corrupt)
    }

    /// Keeps in mind that the database is damaged; the change gets the error.
    fn note_damage(&self, failure: Failure) -> Error {
        if let Failure::Corrupt(message) = &failure {
            *self.damage.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.clone());
        }
        failure.into_error()
    }
}

impl Tree for Snapshot {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        let repo = self.repo.to_thread_local();
        read(&repo, self.root, path, &self.budget).map_err(|failure| self.note_damage(failure))
    }

    fn list(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let repo = self.repo.to_thread_local();
        list(&repo, self.root, path, &self.budget).map_err(|failure| self.note_damage(failure))
    }

    fn export(&self, path: &str, to: &Path) -> Result<(), Error> {
        let repo = self.repo.to_thread_local();
        export(&repo, self.root, path, to).map_err(|failure| self.note_damage(failure))
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }
}

/// Reads one file below the tree `root`.
pub(crate) fn read(
    repo: &gix::Repository,
    root: ObjectId,
    path: &str,
    budget: &Budget,
) -> Result<Option<Vec<u8>>, Failure> {
    let parts = path::file(path)?;
    match find(repo, root, &parts, path)? {
        None => Ok(None),
        Some(entry) if entry.mode.is_blob() => blob(repo, entry.oid, path, budget).map(Some),
        Some(entry) => Err(in_the_way(path, &entry)),
    }
}

/// Reads a blob that is not too large, for itself and for the budget.
pub(crate) fn blob(
    repo: &gix::Repository,
    id: ObjectId,
    path: &str,
    budget: &Budget,
) -> Result<Vec<u8>, Failure> {
    let size = size(repo, id)?;
    if size > MAX_FILE {
        return Err(Failure::problem(format!(
            "`{path}` is too large: {size} bytes, at most 16 MiB can be read"
        )));
    }
    budget.take(size)?;
    let mut blob = repo.find_blob(id).map_err(|error| Failure::corrupt("reading a file", error))?;
    Ok(blob.take_data())
}

fn size(repo: &gix::Repository, id: ObjectId) -> Result<u64, Failure> {
    Ok(repo.find_header(id).map_err(|error| Failure::corrupt("reading a file", error))?.size())
}

/// Walks down to an entry. Only directories are entered.
fn find(
    repo: &gix::Repository,
    root: ObjectId,
    parts: &[&str],
    path: &str,
) -> Result<Option<tree::Entry>, Failure> {
    let Some((last, directories)) = parts.split_last() else { return Ok(None) };
    let mut tree = root;
    for part in directories {
        match child(repo, tree, part)? {
            None => return Ok(None),
            Some(entry) if entry.mode.is_tree() => tree = entry.oid,
            Some(entry) if entry.mode.is_blob() => return Ok(None),
            Some(entry) => return Err(in_the_way(path, &entry)),
        }
    }
    child(repo, tree, last)
}

fn child(repo: &gix::Repository, tree: ObjectId, name: &str) -> Result<Option<tree::Entry>, Failure> {
    Ok(entries(repo, tree)?.into_iter().find(|entry| entry.filename == name.as_bytes().as_bstr()))
}

/// The tree of a directory; `None` when it does not exist.
fn directory(repo: &gix::Repository, root: ObjectId, path: &str) -> Result<Option<ObjectId>, Failure> {
    let parts = path::directory(path)?;
    if parts.is_empty() {
        return Ok(Some(root));
    }
    match find(repo, root, &parts, path)? {
        None => Ok(None),
        Some(entry) if entry.mode.is_tree() => Ok(Some(entry.oid)),
        Some(entry) => Err(in_the_way(path, &entry)),
    }
}

fn list(repo: &gix::Repository, root: ObjectId, path: &str, budget: &Budget) -> Result<Vec<Entry>, Failure> {
    let Some(tree) = directory(repo, root, path)? else { return Ok(Vec::new()) };
    let prefix = path::directory(path)?.join("/");
    let mut found = Vec::new();
    let entries = entries(repo, tree)?;
    budget.take_files(entries.len() as u64)?;
    for entry in entries {
        let name = entry.filename.to_str_lossy();
        let path = if prefix.is_empty() { name.into_owned() } else { format!("{prefix}/{name}") };
        let kind = match entry.mode.kind() {
            Kind::Tree => EntryKind::Directory,
            Kind::Blob => EntryKind::File,
            Kind::BlobExecutable => EntryKind::Executable,
            Kind::Link => EntryKind::Symlink,
            Kind::Commit => EntryKind::Submodule,
        };
        let size = match kind {
            EntryKind::Directory | EntryKind::Submodule => 0,
            _ => size(repo, entry.oid)?,
        };
        found.push(Entry { path, kind, size });
    }
    found.sort();
    Ok(found)
}

fn export(repo: &gix::Repository, root: ObjectId, path: &str, to: &Path) -> Result<(), Failure> {
    let Some(tree) = directory(repo, root, path)? else {
        return Err(Failure::problem(format!("there is no directory `{path}` in the repository")));
    };
    export_tree(repo, tree, to, &Budget::new(MAX_EXPORT, MAX_EXPORTED), 0)
}

fn export_tree(
    repo: &gix::Repository,
    tree: ObjectId,
    to: &Path,
    budget: &Budget,
    depth: usize,
) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(Failure::problem("the repository has directories nested deeper than 64"));
    }
    for entry in entries(repo, tree)? {
        if !entry.mode.is_blob() && !entry.mode.is_tree() {
            continue;
        }
        let name = entry.filename.as_bytes();
        if unsafe_name(name) {
            let shown = entry.filename.to_str_lossy();
            return Err(Failure::problem(format!(
                "the repository holds a file with the forbidden name `{shown}`"
            )));
        }
        let target = to.join(OsStr::from_bytes(name));
        if entry.mode.is_tree() {
            budget.take_files(1)?;
            create(&target)?;
            export_tree(repo, entry.oid, &target, budget, depth + 1)?;
        } else {
            let data = blob(repo, entry.oid, &entry.filename.to_str_lossy(), budget)?;
            place(&target, &data, entry.mode.kind() == Kind::BlobExecutable)?;
        }
    }
    Ok(())
}

fn unsafe_name(name: &[u8]) -> bool {
    let parts = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0);
    parts || path::is_dot_git(&String::from_utf8_lossy(name))
}

fn create(directory: &Path) -> Result<(), Failure> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(disk(directory, &error)),
        _ => Ok(()),
    }
}

/// Writes a new file; one that exists (names that differ in case only) is an error.
fn place(path: &Path, data: &[u8], executable: bool) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut file = std::fs::File::create_new(path).map_err(|error| disk(path, &error))?;
    file.write_all(data).map_err(|error| disk(path, &error))?;
    if executable {
        file.set_permissions(Permissions::from_mode(0o755)).map_err(|error| disk(path, &error))?;
    }
    Ok(())
}

fn disk(path: &Path, error: &std::io::Error) -> Failure {
    Failure::fault(format!("writing `{}`: {error}", path.display()))
}
