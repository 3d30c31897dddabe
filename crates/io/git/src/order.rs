//! What callers ask for and what they get back.

use std::{path::Path, sync::Arc};

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::{Budget, ChangeError, Error, Remote};

/// What every call returns: an answer that arrives later.
pub type Future<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Everything that is done with a repository. [`crate::Git`] does it for real.
pub trait Repositories: Send + Sync + 'static {
    /// The commit the branch points to now, asked of the remote; `None` when there is no such branch.
    fn tip<'a>(&'a self, remote: &'a Remote, branch: &'a str) -> Future<'a, Option<String>>;

    /// One file of one commit; `None` when the commit has no such file.
    fn read<'a>(&'a self, remote: &'a Remote, commit: &'a str, path: &'a str) -> Future<'a, Option<Vec<u8>>>;

    /// Makes the order's commit exactly once, however often it is asked for.
    fn commit<'a>(&'a self, remote: &'a Remote, order: &'a Order) -> Future<'a, Committed>;

    /// Deletes the branch if it still points to `expected`. A branch that is gone already is fine.
    fn delete_branch<'a>(&'a self, remote: &'a Remote, branch: &'a str, expected: &'a str) -> Future<'a, ()>;

    /// Whether `ancestor` is in the history of `descendant`; a commit contains itself.
    fn contains<'a>(&'a self, remote: &'a Remote, descendant: &'a str, ancestor: &'a str)
    -> Future<'a, bool>;

    /// The whole id of the commit that a short one means, looked for in the history of all branches. A whole one is
    /// returned as it is.
    fn resolve<'a>(&'a self, remote: &'a Remote, id: &'a str) -> Future<'a, String>;

    /// What differs in a commit from another one, or from its first parent, for carrying it over to another branch or
    /// repository. Commits are fetched by their ids when they are not here yet. All contents are taken from the budget.
    fn diff<'a>(
        &'a self,
        remote: &'a Remote,
        from: Option<&'a str>,
        to: &'a str,
        budget: &'a Budget,
    ) -> Future<'a, Vec<FileChange>>;
}

/// One commit to be made.
#[derive(Clone)]
pub struct Order {
    /// The branch to build on.
    pub base: String,
    /// The branch to write; the same as `base` for a direct push.
    pub branch: String,
    /// The commit message. The identity is appended as a trailer when it is not in there yet.
    pub message: String,
    /// Who and when. The time is part of the commit id, so it should not come from a clock.
    pub author: Author,
    /// A trailer line. A commit that carries it is this order's own, from an earlier life, if it also holds what the order
    /// makes of its parent: anybody can write a line.
    pub identity: String,
    /// The order's own commit at the tip of `branch` that a new one on the newest `base` shall take the place of. Commits
    /// of others on the branch are never overwritten.
    pub replaces: Option<String>,
    /// What to change. It is asked again, with the new tree, when somebody else pushed first.
    pub change: Arc<dyn Change>,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("base", &self.base)
            .field("branch", &self.branch)
            .field("message", &self.message)
            .field("author", &self.author)
            .field("identity", &self.identity)
            .field("replaces", &self.replaces)
            .finish_non_exhaustive()
    }
}

/// Author and committer of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The name.
    pub name: String,
    /// The mail address.
    pub email: String,
    /// The time of the commit, written in UTC.
    pub time: Timestamp,
}

/// A change to a tree.
pub trait Change: Send + Sync {
    /// Says what to write, given the tree as it is now.
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>>;

    /// Asked when the commit is made and nothing but the push is left to do, with the paths that it changes: fetching and
    /// editing may have taken long, and what allowed the change may not hold any more.
    fn confirm<'a>(&'a self, _files: &'a [String]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The files of one commit, read only. Paths use `/`, start at the root and never leave it; symbolic links
/// are never followed.
pub trait Tree: Send + Sync {
    /// The content of a file; `None` when there is none. A directory, a symbolic link or a submodule on the
    /// way is an error that names it.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error>;

    /// The direct children of a directory, sorted by path; `""` is the root. A directory that does not exist
    /// has none.
    fn list(&self, path: &str) -> Result<Vec<Entry>, Error>;

    /// Writes the regular files below `path` into the directory `to`, which must exist. Links and submodules
    /// are left out.
    fn export(&self, path: &str, to: &Path) -> Result<(), Error>;

    /// What the change may still read and write. Reads and lists take from it; whoever brings in or writes something
    /// else takes that.
    fn budget(&self) -> &Budget;
}

/// One child of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The path from the root.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// The size in bytes of a file or of a link's target, otherwise 0.
    pub size: u64,
}

/// What a tree can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A regular file with the executable bit.
    Executable,
    /// A symbolic link.
    Symlink,
    /// A directory.
    Directory,
    /// A commit of another repository.
    Submodule,
}

/// One file to write or delete. A file that exists keeps its executable bit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The path from the root.
    pub path: String,
    /// The new content; `None` deletes the file, which may be gone already.
    pub content: Option<Vec<u8>>,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The commit that carries the change.
    pub commit: String,
    /// Its first parent.
    pub parent: Option<String>,
    /// How it came about.
    pub kind: Outcome,
    /// The paths that the commit changed, sorted.
    pub files: Vec<String>,
}

/// How a commit came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was made and pushed just now.
    Pushed,
    /// A commit with the order's identity was found in the history.
    AlreadyThere,
    /// The tree says it already; `commit` is the tip.
    NothingToDo,
}

/// One file that a commit changed against its first parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path from the root.
    pub path: String,
    /// The content before; `None` when the commit added the file.
    pub before: Option<Vec<u8>>,
    /// The content after; `None` when the commit deleted the file.
    pub after: Option<Vec<u8>>,
}
