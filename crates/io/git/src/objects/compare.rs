//! What one commit changed.

use std::collections::{BTreeMap, BTreeSet};

use gix::{
    ObjectId,
    bstr::{BString, ByteSlice as _},
    objs::tree,
};

use super::{edit::in_the_way, entries, snapshot::blob};
use crate::{Budget, FileChange, error::Failure};

/// More changed files than this are refused.
const MAX_FILES: usize = 2000;
/// Directories deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// The files that differ between two trees, sorted by path.
pub(crate) fn files(
    repo: &gix::Repository,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
    budget: &Budget,
) -> Result<Vec<FileChange>, Failure> {
    let pairs = pairs(repo, before, after, budget)?;
    let mut changes = Vec::with_capacity(pairs.len());
    for (path, before, after) in pairs {
        let before = before.map(|id| blob(repo, id, &path, budget)).transpose()?;
        let after = after.map(|id| blob(repo, id, &path, budget)).transpose()?;
        changes.push(FileChange { path, before, after });
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(changes)
}

/// The paths that differ between two trees, sorted.
pub(crate) fn paths(
    repo: &gix::Repository,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
) -> Result<Vec<String>, Failure> {
    let pairs = pairs(repo, before, after, &Budget::default())?;
    let paths: BTreeSet<String> = pairs.into_iter().map(|(path, ..)| path).collect();
    Ok(paths.into_iter().collect())
}

type Pair = (String, Option<ObjectId>, Option<ObjectId>);

fn pairs(
    repo: &gix::Repository,
    before: Option<ObjectId>,
    after: Option<ObjectId>,
    budget: &Budget,
) -> Result<Vec<Pair>, Failure> {
    let mut walk = Walk { repo, budget, pairs: Vec::new() };
    walk.compare(before, after, "", 0)?;
    Ok(walk.pairs)
}

/// The way through two trees, and what was found on it.
struct Walk<'a> {
    repo: &'a gix::Repository,
    budget: &'a Budget,
    pairs: Vec<Pair>,
}

impl Walk<'_> {
    fn compare(
        &mut self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        prefix: &str,
        depth: usize,
    ) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::problem("the commit changes directories nested deeper than 64"));
        }
        let old = named(self.repo, before)?;
        let new = named(self.repo, after)?;
        let names: BTreeSet<&BString> = old.keys().chain(new.keys()).collect();
        for name in names {
            let (was, is) = (old.get(name), new.get(name));
            if was == is {
                continue;
            }
            // Directories cost time even if there is no file in them.
            self.budget.take_files(1)?;
            let path = match name.to_str() {
                Ok(name) if prefix.is_empty() => name.to_owned(),
                Ok(name) => format!("{prefix}/{name}"),
                Err(_) => {
                    return Err(Failure::problem(format!("the name `{name}` in `{prefix}` is not UTF-8")));
                }
            };
            let (was_tree, was_file) = split(was, &path)?;
            let (is_tree, is_file) = split(is, &path)?;
            if was_file != is_file {
                self.pairs.push((path.clone(), was_file, is_file));
            }
            if self.pairs.len() > MAX_FILES {
                return Err(Failure::problem(format!("the commit changes more than {MAX_FILES} files")));
            }
            if was_tree != is_tree {
                self.compare(was_tree, is_tree, &path, depth + 1)?;
            }
        }
        Ok(())
    }
}

fn named(repo: &gix::Repository, id: Option<ObjectId>) -> Result<BTreeMap<BString, tree::Entry>, Failure> {
    let entries = id.map(|id| entries(repo, id)).transpose()?.unwrap_or_default();
    Ok(entries.into_iter().map(|entry| (entry.filename.clone(), entry)).collect())
}

/// The entry as a directory or as a file. Links and submodules cannot be carried over.
fn split(entry: Option<&tree::Entry>, path: &str) -> Result<(Option<ObjectId>, Option<ObjectId>), Failure> {
    match entry {
        None => Ok((None, None)),
        Some(entry) if entry.mode.is_tree() => Ok((Some(entry.oid), None)),
        Some(entry) if entry.mode.is_blob() => Ok((None, Some(entry.oid))),
        Some(entry) => Err(in_the_way(path, entry)),
    }
}
