//! Walking history: who is whose ancestor, and which orders have left their mark.

use std::collections::{HashMap, HashSet, VecDeque};

use gix::{ObjectId, bstr::ByteSlice as _};

use super::find_commit;
use crate::error::Failure;

/// So many commits are searched for an order's identity when a branch is seen first.
const DEPTH: usize = 400;
/// So many commits are walked when a branch has moved on since.
const CATCH_UP: usize = 4_000;
/// More marks than this are not kept; the recent ones are collected afresh.
const MAX_MARKS: usize = 20_000;

/// Commits whose parents are not in the database.
pub(crate) type Shallow = HashSet<ObjectId>;

/// What a walk needs to know of a commit.
struct Step {
    parents: Vec<ObjectId>,
    lines: Vec<String>,
}

fn step(repo: &gix::Repository, id: ObjectId, shallow: &Shallow) -> Result<Step, Failure> {
    let commit = find_commit(repo, id)?;
    let parents = if shallow.contains(&id) { Vec::new() } else { parent_ids(&commit) };
    let message = commit.message_raw_sloppy().to_str_lossy();
    let lines = message.lines().map(str::trim).filter(|line| line.contains(": ")).take(64);
    Ok(Step { parents, lines: lines.map(str::to_owned).collect() })
}

fn parent_ids(commit: &gix::Commit<'_>) -> Vec<ObjectId> {
    commit.parent_ids().map(gix::Id::detach).collect()
}

/// All parents that a commit names, whether they are here or not.
pub(crate) fn parents(repo: &gix::Repository, id: ObjectId) -> Result<Vec<ObjectId>, Failure> {
    Ok(parent_ids(&find_commit(repo, id)?))
}

/// The first parent of a commit, unless history ends there.
pub(crate) fn parent(
    repo: &gix::Repository,
    id: ObjectId,
    shallow: &Shallow,
) -> Result<Option<ObjectId>, Failure> {
    Ok(step(repo, id, shallow)?.parents.first().copied())
}

/// The answer to "is it an ancestor?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ancestry {
    Yes,
    No,
    /// The history we have ends before the question is settled.
    Unknown,
}

/// Whether `ancestor` is in the history of `descendant`.
pub(crate) fn ancestry(
    repo: &gix::Repository,
    descendant: ObjectId,
    ancestor: ObjectId,
    shallow: &Shallow,
) -> Result<Ancestry, Failure> {
    let mut seen = HashSet::from([descendant]);
    let mut queue = VecDeque::from([descendant]);
    let mut cut = false;
    while let Some(id) = queue.pop_front() {
        if id == ancestor {
            return Ok(Ancestry::Yes);
        }
        if shallow.contains(&id) {
            cut = true;
            continue;
        }
        queue.extend(parents(repo, id)?.into_iter().filter(|parent| seen.insert(*parent)));
    }
    Ok(if cut { Ancestry::Unknown } else { Ancestry::No })
}

/// More commits than this are not searched.
const SEARCHED: usize = 1_000_000;

/// The commits in the history of some tips whose ids begin with a text.
pub(crate) fn with_prefix(
    repo: &gix::Repository,
    tips: Vec<ObjectId>,
    prefix: &str,
) -> Result<Vec<ObjectId>, Failure> {
    let mut seen: HashSet<ObjectId> = tips.iter().copied().collect();
    let mut queue: VecDeque<ObjectId> = seen.iter().copied().collect();
    let mut found = Vec::new();
    while let Some(id) = queue.pop_front() {
        // Where the history that we have ends, there is nothing to be found.
        if !repo.has_object(id) {
            continue;
        }
        if id.to_string().starts_with(prefix) {
            found.push(id);
        }
        queue.extend(parents(repo, id)?.into_iter().filter(|parent| seen.insert(*parent)));
        if seen.len() > SEARCHED {
            return Err(Failure::no_commit(format!(
                "the history is too long to look for `{prefix}`: write all 40 digits of the id"
            )));
        }
    }
    Ok(found)
}

/// The marks that orders left in the recent history of one branch.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    tip: Option<ObjectId>,
    marks: HashMap<String, ObjectId>,
}

impl Trail {
    /// The commit that carries the line.
    pub(crate) fn find(&self, identity: &str) -> Option<ObjectId> {
        self.marks.get(identity.trim()).copied()
    }

    /// Follows the branch to a new tip. Only what is new is walked, unless the branch was rewritten.
    pub(crate) fn follow(
        &mut self,
        repo: &gix::Repository,
        tip: ObjectId,
        shallow: &Shallow,
    ) -> Result<(), Failure> {
        if self.tip == Some(tip) {
            return Ok(());
        }
        if let Some(old) = self.tip
            && self.marks.len() < MAX_MARKS
            && let Some(marks) = collect(repo, tip, Some(old), CATCH_UP, shallow)?
        {
            self.marks.extend(marks);
        } else {
            self.marks = collect(repo, tip, None, DEPTH, shallow)?.unwrap_or_default();
        }
        self.tip = Some(tip);
        Ok(())
    }
}

/// The marks from `tip` back to `stop`; `None` when `stop` was not met.
fn collect(
    repo: &gix::Repository,
    tip: ObjectId,
    stop: Option<ObjectId>,
    limit: usize,
    shallow: &Shallow,
) -> Result<Option<HashMap<String, ObjectId>>, Failure> {
    let mut marks = HashMap::new();
    let mut seen = HashSet::from([tip]);
    let mut queue = VecDeque::from([tip]);
    let mut met = false;
    while let Some(id) = queue.pop_front() {
        if Some(id) == stop {
            met = true;
            continue;
        }
        let step = step(repo, id, shallow)?;
        for line in step.lines {
            marks.entry(line).or_insert(id);
        }
        queue.extend(step.parents.into_iter().filter(|parent| seen.insert(*parent)));
        if seen.len() >= limit {
            break;
        }
    }
    Ok((met || stop.is_none()).then_some(marks))
}
