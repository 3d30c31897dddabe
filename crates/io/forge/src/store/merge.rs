//! Bringing one branch into another: in memory, by a merge commit, with the ref moved by compare-and-swap.

use std::collections::BTreeSet;

use gix::merge::tree::TreatAsUnresolved;
use gix::refs::Target;
use gix::refs::transaction::{PreviousValue, RefEdit};
use jiff::Timestamp;

use super::diff::diff;
use super::{FileDiff, Store, branch_name, names, tip};
use crate::error::Error;

/// How far back a merge that was made already is looked for.
const SEARCH_LIMIT: usize = 20_000;

/// Who a merge commit says made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The name.
    pub name: String,
    /// The address, which need not exist.
    pub email: String,
}

/// A merge to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOrder {
    /// The branch that receives the change.
    pub base: String,
    /// The branch with the change.
    pub head: String,
    /// The commit that `base` must be at. Absent: wherever it is.
    pub expected_base: Option<String>,
    /// The commit that `head` must be at. Absent: wherever it is.
    pub expected_head: Option<String>,
    /// The message of the merge commit.
    pub message: String,
    /// Author and committer.
    pub author: Author,
    /// When it says it was made.
    pub time: Timestamp,
}

/// What became of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merged {
    /// The change is in the base branch now.
    Done {
        /// The commit that brought it.
        commit: String,
        /// The commit of the base branch before it.
        base: String,
        /// The commit of the head branch that was merged.
        head: String,
    },
    /// The change was in the base branch before, perhaps from an earlier life of this very order.
    Already {
        /// The commit that brought it.
        commit: String,
    },
    /// Both sides changed the same; nothing was written.
    Conflict {
        /// The files to settle, in order.
        files: Vec<String>,
    },
    /// A branch is not where the order expects it; nothing was written.
    Moved {
        /// The branch.
        branch: String,
        /// Where it is; nothing when it is gone.
        tip: Option<String>,
    },
}

/// What two branches are to each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The newest commit of the base branch, unless there is no such branch.
    pub base: Option<String>,
    /// The newest commit of the head branch, unless there is no such branch.
    pub head: Option<String>,
    /// Whether the base branch has everything that the head branch has. For a head branch that is gone this speaks of
    /// its last known commit.
    pub contained: bool,
    /// The commit that brought the head into the base branch. There is none for a head branch that was set back to a
    /// commit of the base branch: its change was dropped, not merged.
    pub merge_commit: Option<String>,
    /// When that commit was made, if it is a merge.
    pub merged_at: Option<Timestamp>,
    /// The files that both sides changed in ways that do not fit together.
    pub conflicts: Vec<String>,
    /// What the head branch changes since it left the base branch.
    pub files: Vec<FileDiff>,
}

impl Comparison {
    /// Whether there is something to merge, and it fits.
    pub fn mergeable(&self) -> bool {
        self.base.is_some() && self.head.is_some() && !self.contained && self.conflicts.is_empty()
    }
}

impl Store {
    /// Whether a merge would work: the files that are in conflict, none when it would. Writes nothing.
    pub fn conflicts(
        &self,
        namespace: &str,
        name: &str,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, Error> {
        let repository = self.open(namespace, name)?;
        let base = existing(&repository, base)?;
        let head = existing(&repository, head)?;
        conflicts(&repository, base, head)
    }

    /// Everything that a pull request wants to know about its two branches. `last_head` is the newest commit that the
    /// head branch is known to have had; it stands in when the branch is gone.
    pub fn compare(
        &self,
        namespace: &str,
        name: &str,
        base: &str,
        head: &str,
        last_head: Option<&str>,
    ) -> Result<Comparison, Error> {
        let repository = self.open(namespace, name)?;
        let (base_tip, head_tip) = (tip(&repository, base)?, tip(&repository, head)?);
        let known = last_head
            .and_then(|id| gix::ObjectId::from_hex(id.as_bytes()).ok())
            .filter(|id| repository.find_commit(*id).is_ok());
        let mut comparison = Comparison {
            base: base_tip.map(|id| id.to_string()),
            head: head_tip.map(|id| id.to_string()),
            ..Comparison::default()
        };
        let (Some(base_tip), Some(change)) = (base_tip, head_tip.or(known)) else { return Ok(comparison) };
        comparison.contained = contains(&repository, base_tip, change)?;
        if comparison.contained {
            if known.map_or(Ok(true), |known| contains(&repository, base_tip, known))? {
                let merge = merge_of(&repository, base_tip, change)?;
                comparison.merge_commit = Some(merge.to_string());
                comparison.merged_at = merge_time(&repository, merge);
            }
        } else if head_tip.is_some() {
            comparison.conflicts = conflicts(&repository, base_tip, change)?;
            comparison.files = diff(&repository, base_tip, change)?;
        }
        Ok(comparison)
    }

    /// Makes a merge. Given the same order again after a crash it finds the first one.
    pub fn merge(&self, namespace: &str, name: &str, order: &MergeOrder) -> Result<Merged, Error> {
        let repository = self.open(namespace, name)?;
        let base = tip(&repository, &order.base)?;
        let head = tip(&repository, &order.head)?;
        let expected = order.expected_head.as_deref();
        let change = head.or_else(|| expected.and_then(|id| gix::ObjectId::from_hex(id.as_bytes()).ok()));
        let moved = |branch: &str, tip: Option<gix::ObjectId>| {
            Ok(Merged::Moved { branch: branch.to_owned(), tip: tip.map(|id| id.to_string()) })
        };
        let (Some(base), Some(change)) = (base, change) else {
            return if base.is_none() { moved(&order.base, base) } else { moved(&order.head, head) };
        };
        let known = is(expected, change) && repository.find_commit(change).is_ok();
        if known && contains(&repository, base, change)? {
            let commit = merge_of(&repository, base, change)?.to_string();
            return Ok(Merged::Already { commit });
        }
        if head != Some(change) || !is(expected, change) {
            return moved(&order.head, head);
        }
        if !is(order.expected_base.as_deref(), base) {
            return moved(&order.base, Some(base));
        }
        let files = conflicts(&repository, base, change)?;
        if !files.is_empty() {
            return Ok(Merged::Conflict { files });
        }
        let commit = write_merge(&repository, order, base, change)?;
        let previous = PreviousValue::MustExistAndMatch(Target::Object(base));
        let edit = RefEdit::update(branch_name(&order.base)?, commit, previous, "merge");
        match repository.edit_reference(edit) {
            Ok(_) => Ok(Merged::Done {
                commit: commit.to_string(),
                base: base.to_string(),
                head: change.to_string(),
            }),
            // Whoever was faster moved the branch; the caller looks again.
            Err(error) => match tip(&repository, &order.base)? {
                Some(now) if now == base => Err(Error::fault("move the branch", error)),
                now => moved(&order.base, now),
            },
        }
    }
}

fn is(expected: Option<&str>, id: gix::ObjectId) -> bool {
    expected.is_none_or(|expected| names(expected, id))
}

fn existing(repository: &gix::Repository, branch: &str) -> Result<gix::ObjectId, Error> {
    tip(repository, branch)?.ok_or_else(|| Error::Problem(format!("there is no branch `{branch}`")))
}

/// Whether `change` is in the history of `base`.
fn contains(repository: &gix::Repository, base: gix::ObjectId, change: gix::ObjectId) -> Result<bool, Error> {
    let common =
        repository.merge_base(base, change).map_err(|error| Error::fault("read the history", error))?;
    Ok(common.is_some_and(|common| common.detach() == change))
}

/// The commit on the main line of `base` that brought `change`: the merge that names it as a parent, or the change
/// itself when it was pushed. A change that came with something bigger is ascribed to the oldest commit that has it.
fn merge_of(
    repository: &gix::Repository,
    base: gix::ObjectId,
    change: gix::ObjectId,
) -> Result<gix::ObjectId, Error> {
    let parent = |id: gix::ObjectId| {
        let commit = repository.find_commit(id).map_err(|error| Error::fault("read the history", error))?;
        Ok(commit.parent_ids().next().map(gix::Id::detach).filter(|_| id != change))
    };
    let oldest = oldest(base, parent, |id| contains(repository, id, change))?;
    Ok(oldest.unwrap_or(base))
}

/// The oldest commit of a line that has something, by following it back from its newest one, which has it. Those that have
/// it come before those that do not, so few of them are asked: first in steps of growing length, then between the last
/// two. Nothing if the line is too long.
fn oldest<T: Copy>(
    newest: T,
    mut parent: impl FnMut(T) -> Result<Option<T>, Error>,
    mut has: impl FnMut(T) -> Result<bool, Error>,
) -> Result<Option<T>, Error> {
    let (mut known, mut at, mut length) = (newest, newest, 0);
    loop {
        // What comes after the one that is known to have it, as far as it was before.
        let mut steps = Vec::new();
        while steps.len() <= length {
            match parent(at)? {
                Some(next) => steps.push(next),
                None => break,
            }
            at = *steps.last().unwrap_or(&at);
        }
        let Some(last) = steps.last().copied() else { return Ok(Some(known)) };
        length += steps.len();
        if !has(last)? {
            let (mut low, mut high) = (0, steps.len());
            while low < high {
                let middle = low + (high - low) / 2;
                match steps.get(middle).map(|step| has(*step)).transpose()? {
                    Some(true) => low = middle + 1,
                    _ => high = middle,
                }
            }
            return Ok(Some(low.checked_sub(1).and_then(|found| steps.get(found)).copied().unwrap_or(known)));
        }
        if length >= SEARCH_LIMIT {
            return Ok(None);
        }
        known = last;
    }
}

/// When a merge was made. Any other commit was made before it came into the branch.
fn merge_time(repository: &gix::Repository, commit: gix::ObjectId) -> Option<Timestamp> {
    let commit = repository.find_commit(commit).ok()?;
    let time = commit.time().ok()?;
    Timestamp::from_second(time.seconds).ok().filter(|_| commit.parent_ids().count() > 1)
}

fn conflicts(
    repository: &gix::Repository,
    base: gix::ObjectId,
    head: gix::ObjectId,
) -> Result<Vec<String>, Error> {
    let memory = repository.clone().with_object_memory();
    let outcome = merge_trees(&memory, base, head)?;
    let how = TreatAsUnresolved::git();
    let files: BTreeSet<String> = outcome
        .tree_merge
        .conflicts
        .iter()
        .filter(|conflict| conflict.is_unresolved(how))
        .map(|conflict| conflict.ours.location().to_string())
        .collect();
    Ok(files.into_iter().collect())
}

fn merge_trees<'a>(
    repository: &'a gix::Repository,
    base: gix::ObjectId,
    head: gix::ObjectId,
) -> Result<gix::merge::commit::Outcome<'a>, Error> {
    let merge = |error: gix::Error| Error::fault("merge the branches", error);
    let options = gix::merge::commit::Options::from(repository.tree_merge_options().map_err(merge)?)
        .with_allow_missing_merge_base(true);
    let labels = gix::merge::blob::builtin_driver::text::Labels {
        ancestor: None,
        current: Some("base".into()),
        other: Some("head".into()),
    };
    repository.merge_commits(base, head, labels, options).map_err(merge)
}

fn write_merge(
    repository: &gix::Repository,
    order: &MergeOrder,
    base: gix::ObjectId,
    head: gix::ObjectId,
) -> Result<gix::ObjectId, Error> {
    let write = |error: gix::Error| Error::fault("write the merge", error);
    let mut outcome = merge_trees(repository, base, head)?;
    let tree = outcome.tree_merge.tree.write().map_err(write)?.detach();
    let signature = gix::actor::Signature {
        name: signature_text(&order.author.name).into(),
        email: signature_text(&order.author.email).into(),
        time: gix::date::Time { seconds: order.time.as_second(), offset: 0 },
    };
    let mut buffer = gix::date::parse::TimeBuf::default();
    let signature = signature.to_ref(&mut buffer);
    let commit =
        repository.new_commit_as(signature, signature, &order.message, tree, [base, head]).map_err(write)?;
    Ok(commit.id)
}

/// Names come from people; what would break a commit is left out.
pub(super) fn signature_text(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !matches!(c, '<' | '>' | '\n' | '\r' | '\0')).collect();
    let clean = clean.trim();
    if clean.is_empty() { "unknown".to_owned() } else { clean.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of numbers, newest first; those up to `end` have it.
    fn search(length: usize, end: usize) -> (Option<usize>, usize, usize) {
        let (mut read, mut asked) = (0, 0);
        let parent = |at: usize| {
            read += 1;
            Ok(Some(at + 1).filter(|next| *next < length))
        };
        let has = |at: usize| {
            asked += 1;
            Ok(at <= end)
        };
        (oldest(0, parent, has).unwrap(), read, asked)
    }

    #[test]
    fn the_oldest_commit_that_has_a_change_is_found() {
        for length in 1..70 {
            for end in 0..length {
                assert_eq!(search(length, end).0, Some(end), "{end} of {length}");
            }
        }
    }

    #[test]
    fn a_long_history_is_read_once_and_few_of_its_commits_are_asked() {
        for end in [0, 1, 5_000, 11_998, 11_999] {
            let (found, read, asked) = search(12_000, end);
            assert_eq!(found, Some(end));
            assert!(read <= 12_001 && asked <= 30, "{read} read, {asked} asked");
        }
        assert!(search(12_000, 3).1 < 20, "what is near is found without reading the rest");
        assert_eq!(search(100 * SEARCH_LIMIT, usize::MAX).0, None);
    }
}
