//! Bare repositories under one folder: `<root>/<namespace>/<name>.git`.

mod diff;
mod known;
mod merge;
mod name;
mod number;
mod seed;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use gix::refs::transaction::{PreviousValue, RefEdit};
use gix::refs::{FullName, Target};

use crate::error::Error;

pub use diff::{FileChange, FileDiff};
pub use merge::{Author, Comparison, MergeOrder, Merged};
pub use number::LastNumber;
pub use seed::Seed;

/// Trees and commits that one pass reads again and again.
const OBJECT_CACHE: usize = 8 * 1024 * 1024;

/// No memory is used for an object that declares to be larger, unpacked.
const LARGEST_OBJECT: u64 = 64 * 1024 * 1024;

/// All repositories of the forge. Every method blocks.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    counter: AtomicU64,
    /// The repositories whose files have all been looked at.
    walked: Mutex<BTreeSet<PathBuf>>,
    /// Since when this process has the store: what is locked since before that is locked by nobody.
    since: SystemTime,
}

impl Store {
    /// A store below `root`, which is created with the first repository.
    pub fn new(root: impl Into<PathBuf>) -> Store {
        Store {
            root: root.into(),
            counter: AtomicU64::new(0),
            walked: Mutex::default(),
            since: SystemTime::now(),
        }
    }

    /// The folder that holds all repositories.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a repository lives. Names that cannot be names of objects are refused, so no path leads out of the store.
    pub fn path(&self, namespace: &str, name: &str) -> Result<PathBuf, Error> {
        name::check(namespace, name)?;
        Ok(self.root.join(namespace).join(format!("{name}.git")))
    }

    /// Whether a repository is there.
    pub fn exists(&self, namespace: &str, name: &str) -> bool {
        self.path(namespace, name).is_ok_and(|path| path.join("HEAD").is_file())
    }

    /// Creates an empty repository, or points an existing one at its default branch. Doing it again changes nothing,
    /// and a crash leaves either no repository or a whole one.
    pub fn create(&self, namespace: &str, name: &str, default_branch: &str) -> Result<PathBuf, Error> {
        let path = self.path(namespace, name)?;
        let head = branch_name(default_branch)?;
        if !self.exists(namespace, name) {
            self.initialize(namespace, name, &path)?;
        }
        let repository = self.open(namespace, name)?;
        let current = repository.head_name().map_err(|error| Error::fault("read HEAD", error))?;
        if current.as_ref() != Some(&head) {
            let head_name = full_name("HEAD")?;
            let edit =
                RefEdit::update(head_name, Target::Symbolic(head), PreviousValue::Any, "default branch");
            repository.edit_reference(edit).map_err(|error| Error::fault("set the default branch", error))?;
        }
        Ok(path)
    }

    /// The branch that a clone checks out, or nothing when there is no such repository.
    pub fn default_branch(&self, namespace: &str, name: &str) -> Result<Option<String>, Error> {
        if !self.exists(namespace, name) {
            return Ok(None);
        }
        let head = self.open(namespace, name)?.head_name();
        let head = head.map_err(|error| Error::fault("read HEAD", error))?;
        Ok(head.map(|head| head.shorten().to_string()))
    }

    /// A repository is made aside and renamed into place.
    fn initialize(&self, namespace: &str, name: &str, path: &Path) -> Result<(), Error> {
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        let aside = self.root.join(namespace).join(format!(".new-{name}-{}-{count}", std::process::id()));
        let made = (|| {
            remove_if_there(&aside)?;
            fs::create_dir_all(&aside).map_err(|error| Error::fault("create the repository", error))?;
            gix::ThreadSafeRepository::init_opts(
                &aside,
                gix::create::Kind::Bare,
                gix::create::Options::default(),
                gix::open::Options::isolated(),
            )
            .map_err(|error| Error::fault("create the repository", error))?;
            // Sample hooks would only be bytes that nobody runs.
            remove_if_there(&aside.join("hooks"))?;
            match fs::rename(&aside, path) {
                // Somebody else was faster; theirs is as good as ours.
                Err(_) if self.exists(namespace, name) => Ok(()),
                done => done.map_err(|error| Error::fault("create the repository", error)),
            }
        })();
        remove_if_there(&aside)?;
        made
    }

    /// All branches with their newest commits, in the order of their names.
    pub fn branches(&self, namespace: &str, name: &str) -> Result<Vec<(String, String)>, Error> {
        let repository = self.open(namespace, name)?;
        let platform = repository.references().map_err(|error| Error::fault("read the branches", error))?;
        let branches = platform.local_branches().map_err(|error| Error::fault("read the branches", error))?;
        let mut all = Vec::new();
        for branch in branches {
            let branch = branch.map_err(|error| Error::fault("read a branch", error))?;
            if let Some(id) = branch.try_id() {
                all.push((branch.name().shorten().to_string(), id.to_string()));
            }
        }
        all.sort();
        Ok(all)
    }

    /// The newest commit of a branch, or nothing when there is no such branch.
    pub fn tip(&self, namespace: &str, name: &str, branch: &str) -> Result<Option<String>, Error> {
        let repository = self.open(namespace, name)?;
        Ok(tip(&repository, branch)?.map(|id| id.to_string()))
    }

    /// Deletes a branch that still is at `expected`. One that is gone already is fine.
    pub fn delete_branch(
        &self,
        namespace: &str,
        name: &str,
        branch: &str,
        expected: &str,
    ) -> Result<(), Error> {
        let repository = self.open(namespace, name)?;
        let Some(current) = tip(&repository, branch)? else { return Ok(()) };
        if !names(expected, current) {
            let message = format!(
                "branch `{branch}` is at `{current}` and not at `{expected}`; look again before deleting it"
            );
            return Err(Error::Problem(message));
        }
        let expected = PreviousValue::MustExistAndMatch(Target::Object(current));
        let edit = RefEdit::delete(branch_name(branch)?, expected);
        repository.edit_reference(edit).map_err(|error| Error::fault("delete the branch", error))?;
        Ok(())
    }

    /// Opens a repository without any settings but ours: nothing of the user's or of the machine's, and nothing of its own.
    fn open(&self, namespace: &str, name: &str) -> Result<gix::Repository, Error> {
        let path = self.known(namespace, name)?;
        let largest = format!("gitoxide.objects.allocLimit={LARGEST_OBJECT}");
        let options = gix::open::Options::isolated()
            .open_path_as_is(true)
            .config_overrides([largest.as_str(), "core.useReplaceRefs=false"])
            .filter_config_section(|section| section.source == gix::config::Source::Api);
        let mut repository =
            gix::open_opts(path, options).map_err(|error| Error::fault("open the repository", error))?;
        repository.object_cache_size_if_unset(OBJECT_CACHE);
        Ok(repository)
    }
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::fault("tidy up", error)),
        _ => Ok(()),
    }
}

fn full_name(name: &str) -> Result<FullName, Error> {
    FullName::try_from(name)
        .map_err(|error| Error::Problem(format!("`{name}` is not the name of a ref: {error}")))
}

fn branch_name(branch: &str) -> Result<FullName, Error> {
    full_name(&format!("refs/heads/{branch}"))
        .map_err(|_| Error::Problem(format!("`{branch}` is not a name that Git allows for a branch")))
}

/// Whether a text is the full id of this object.
fn names(text: &str, id: gix::ObjectId) -> bool {
    gix::ObjectId::from_hex(text.as_bytes()).is_ok_and(|named| named == id)
}

fn tip(repository: &gix::Repository, branch: &str) -> Result<Option<gix::ObjectId>, Error> {
    let name = branch_name(branch)?;
    let found =
        repository.try_find_reference(name.as_ref()).map_err(|error| Error::fault("read a branch", error))?;
    match found {
        None => Ok(None),
        Some(mut reference) => {
            let commit = reference.peel_to_commit().map_err(|error| Error::fault("read a branch", error))?;
            Ok(Some(commit.id))
        }
    }
}
