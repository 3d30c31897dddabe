//! What a head branch changes: file by file, as people read it.

use std::io;

use gix::diff::blob::unified_diff::{ConsumeHunk, ContextSize, DiffLineKind, HunkHeader};
use gix::diff::blob::{Algorithm, InternedInput, UnifiedDiff, diff_with_slider_heuristics};
use gix::diff::tree_with_rewrites::Change;
use gix::objs::tree::EntryKind;

use super::{Store, tip};
use crate::error::Error;

/// Bigger files are not shown line by line.
const TEXT_LIMIT: u64 = 1024 * 1024;
/// So much text is compared in one change; further files are only named.
const TOTAL_LIMIT: usize = 32 * 1024 * 1024;
/// Git, too, takes a file with a zero byte near its beginning for binary.
const BINARY_PROBE: usize = 8000;

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileChange {
    /// It is new.
    Added,
    /// Its content or its mode changes.
    Modified,
    /// It goes away.
    Removed,
}

/// What a change does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The path of the file.
    pub path: String,
    /// What happens to it.
    pub change: FileChange,
    /// The id of its content before, unless it is new.
    pub before: Option<String>,
    /// The id of its content after, unless it goes away.
    pub after: Option<String>,
    /// Whether it is not shown line by line: it is binary, or larger than 1 MiB, or no file at all, or the change has
    /// too much text in all.
    pub binary: bool,
    /// How many lines it adds.
    pub additions: u64,
    /// How many lines it removes.
    pub deletions: u64,
    /// The change in the form of `git diff`, its header lines included.
    pub unified: String,
}

impl Store {
    /// What `head` changes since it left `base`, in the order of the paths: the diff of a pull request.
    /// Both are branches or commit ids.
    pub fn diff(&self, namespace: &str, name: &str, base: &str, head: &str) -> Result<Vec<FileDiff>, Error> {
        let repository = self.open(namespace, name)?;
        let base = commit_of(&repository, base)?;
        let head = commit_of(&repository, head)?;
        diff(&repository, base, head)
    }
}

/// A branch first, and a commit id if there is no such branch.
fn commit_of(repository: &gix::Repository, name: &str) -> Result<gix::ObjectId, Error> {
    if let Some(id) = tip(repository, name).ok().flatten() {
        return Ok(id);
    }
    gix::ObjectId::from_hex(name.as_bytes())
        .ok()
        .filter(|id| repository.find_commit(*id).is_ok())
        .ok_or_else(|| Error::Problem(format!("there is no branch and no commit `{name}`")))
}

pub(super) fn diff(
    repository: &gix::Repository,
    base: gix::ObjectId,
    head: gix::ObjectId,
) -> Result<Vec<FileDiff>, Error> {
    let read = |error: gix::Error| Error::fault("compare the branches", error);
    // Branches without a common commit differ in everything.
    let left = match repository.merge_base(base, head).map_err(read)? {
        Some(common) => tree_of(repository, common.detach())?,
        None => repository.empty_tree(),
    };
    let right = tree_of(repository, head)?;
    let mut options = gix::diff::Options::default();
    options.track_path();
    options.track_rewrites(None);
    let changes = repository.diff_tree_to_tree(&left, &right, options).map_err(read)?;
    let mut left = TOTAL_LIMIT;
    let mut files = changes
        .iter()
        .filter(|change| !change.entry_mode().is_tree())
        .map(|change| file_diff(repository, change, &mut left))
        .collect::<Result<Vec<_>, _>>()?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn tree_of(repository: &gix::Repository, commit: gix::ObjectId) -> Result<gix::Tree<'_>, Error> {
    repository
        .find_commit(commit)
        .and_then(|commit| commit.tree())
        .map_err(|error| Error::fault("read a commit", error))
}

/// One side of a change: the kind of the entry and its id.
type Side = Option<(EntryKind, gix::ObjectId)>;

fn file_diff(repository: &gix::Repository, change: &Change, left: &mut usize) -> Result<FileDiff, Error> {
    let side = |mode: &gix::objs::tree::EntryMode, id: &gix::ObjectId| Some((mode.kind(), *id));
    let (kind, before, after): (FileChange, Side, Side) = match change {
        Change::Addition { entry_mode, id, .. } => (FileChange::Added, None, side(entry_mode, id)),
        Change::Deletion { entry_mode, id, .. } => (FileChange::Removed, side(entry_mode, id), None),
        Change::Modification { previous_entry_mode, previous_id, entry_mode, id, .. } => {
            (FileChange::Modified, side(previous_entry_mode, previous_id), side(entry_mode, id))
        }
        // Renames are not tracked, so this does not come.
        Change::Rewrite { entry_mode, id, source_entry_mode, source_id, .. } => {
            (FileChange::Modified, side(source_entry_mode, source_id), side(entry_mode, id))
        }
    };
    let path = change.location().to_string();
    let (old, new) = match *left {
        0 => (None, None),
        _ => (text(repository, before)?, text(repository, after)?),
    };
    let size = |side: &Option<String>| side.as_ref().map_or(0, String::len);
    *left = left.saturating_sub(size(&old) + size(&new));
    let mut diff = FileDiff {
        unified: header(&path, kind, before, after),
        path,
        change: kind,
        before: before.map(|(_, id)| id.to_string()),
        after: after.map(|(_, id)| id.to_string()),
        binary: false,
        additions: 0,
        deletions: 0,
    };
    match (old, new) {
        (Some(old), Some(new)) => add_hunks(&mut diff, &old, &new),
        _ => {
            diff.binary = true;
            diff.unified.push_str("Binary files differ\n");
        }
    }
    Ok(diff)
}

/// The text of one side; an absent side is empty, and one that cannot be shown is nothing.
fn text(repository: &gix::Repository, side: Side) -> Result<Option<String>, Error> {
    let Some((kind, id)) = side else { return Ok(Some(String::new())) };
    if kind == EntryKind::Commit {
        return Ok(Some(format!("Subproject commit {id}\n")));
    }
    let read = |error: gix::Error| Error::fault("read a file", error);
    if repository.find_header(id).map_err(read)?.size() > TEXT_LIMIT {
        return Ok(None);
    }
    let blob = repository.find_blob(id).map_err(read)?;
    let binary = blob.data.iter().take(BINARY_PROBE).any(|byte| *byte == 0);
    Ok((!binary).then(|| String::from_utf8_lossy(&blob.data).into_owned()))
}

fn header(path: &str, change: FileChange, before: Side, after: Side) -> String {
    let mode = |side: Side| side.map(|(kind, _)| format!("{:06o}", kind as u16)).unwrap_or_default();
    let mut text = format!("diff --git a/{path} b/{path}\n");
    match change {
        FileChange::Added => text.push_str(&format!("new file mode {}\n", mode(after))),
        FileChange::Removed => text.push_str(&format!("deleted file mode {}\n", mode(before))),
        FileChange::Modified if mode(before) != mode(after) => {
            text.push_str(&format!("old mode {}\nnew mode {}\n", mode(before), mode(after)));
        }
        FileChange::Modified => {}
    }
    text
}

fn add_hunks(diff: &mut FileDiff, old: &str, new: &str) {
    let input = InternedInput::new(old, new);
    let lines = diff_with_slider_heuristics(Algorithm::Histogram, &input);
    diff.additions = u64::from(lines.count_additions());
    diff.deletions = u64::from(lines.count_removals());
    if diff.additions + diff.deletions == 0 {
        return;
    }
    let path = &diff.path;
    let from = if diff.before.is_some() { format!("a/{path}") } else { "/dev/null".to_owned() };
    let to = if diff.after.is_some() { format!("b/{path}") } else { "/dev/null".to_owned() };
    // Writing to a `String` cannot fail.
    let hunks = UnifiedDiff::new(&lines, &input, Hunks::default(), ContextSize::default())
        .consume()
        .unwrap_or_default();
    diff.unified.push_str(&format!("--- {from}\n+++ {to}\n{hunks}"));
}

/// Writes hunks as git does, with its remark about a file that does not end in a line break.
#[derive(Default)]
struct Hunks(String);

impl ConsumeHunk for Hunks {
    type Out = String;

    fn consume_hunk(&mut self, header: HunkHeader, lines: &[(DiffLineKind, &[u8])]) -> io::Result<()> {
        // An empty side starts at the line before it.
        let start = |start: u32, len: u32| if len == 0 { start.saturating_sub(1) } else { start };
        let (before, after) = (header.before_hunk_len, header.after_hunk_len);
        let (from, to) = (start(header.before_hunk_start, before), start(header.after_hunk_start, after));
        self.0.push_str(&format!("@@ -{from},{before} +{to},{after} @@\n"));
        for (kind, line) in lines {
            self.0.push(kind.to_prefix());
            self.0.push_str(&String::from_utf8_lossy(line));
            if !line.ends_with(b"\n") {
                self.0.push_str("\n\\ No newline at end of file\n");
            }
        }
        Ok(())
    }

    fn finish(self) -> String {
        self.0
    }
}
