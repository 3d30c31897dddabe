//! Writes files into a tree without touching anything else in it.

use std::collections::{BTreeMap, BTreeSet};

use gix::{
    ObjectId,
    bstr::{BString, ByteSlice as _},
    objs::{self, WriteTo as _, tree},
};

use super::{MAX_FILE, NewObject, entries};
use crate::{Budget, Write, error::Failure, path};

/// A tree after the writes, with everything that is new in it.
#[derive(Debug)]
pub(crate) struct Edited {
    /// The root.
    pub(crate) tree: ObjectId,
    /// New blobs and trees, contents before containers.
    pub(crate) objects: Vec<NewObject>,
    /// The paths whose content is different now, sorted.
    pub(crate) files: Vec<String>,
}

/// One directory that is being changed.
#[derive(Default)]
struct Directory {
    /// The tree as it was; none for a directory that is new.
    origin: Option<ObjectId>,
    entries: Vec<tree::Entry>,
    open: BTreeMap<BString, Directory>,
}

/// What is to become of one path.
enum Leaf {
    Put(ObjectId),
    Delete,
}

/// Applies the writes in order to the tree `root`.
pub(crate) fn edit(repo: &gix::Repository, root: ObjectId, writes: &[Write]) -> Result<Edited, Failure> {
    let mut top = Directory { origin: Some(root), entries: entries(repo, root)?, open: BTreeMap::new() };
    let mut blobs = BTreeMap::new();
    let mut files = BTreeSet::new();
    // The writer may have taken from a budget; whoever it was, no more than that is written.
    let budget = Budget::default();
    for write in writes {
        budget.take(write.content.as_ref().map_or(0, |content| content.len() as u64))?;
        let parts = path::file(&write.path)?;
        let blob = match &write.content {
            None => None,
            Some(content) if content.len() as u64 > MAX_FILE => {
                return Err(Failure::problem(format!(
                    "`{}` is too large: at most 16 MiB can be written",
                    write.path
                )));
            }
            Some(content) => Some(NewObject::new(objs::Kind::Blob, content.clone())?),
        };
        let leaf = blob.as_ref().map_or(Leaf::Delete, |blob| Leaf::Put(blob.id));
        if top.set(repo, &parts, &leaf, &write.path)? {
            files.insert(parts.join("/"));
            blobs.extend(blob.map(|blob| (blob.id, blob)));
        }
    }
    let mut objects: Vec<NewObject> = Vec::new();
    let tree = top.close(&mut objects)?.unwrap_or_else(|| ObjectId::empty_tree(gix::hash::Kind::Sha1));
    if objects.is_empty() && tree != root {
        objects.push(NewObject::new(objs::Kind::Tree, Vec::new())?);
    }
    objects.splice(0..0, blobs.into_values());
    Ok(Edited { tree, objects, files: files.into_iter().collect() })
}

impl Directory {
    /// Sets or deletes a leaf; says whether anything is different now.
    fn set(
        &mut self,
        repo: &gix::Repository,
        parts: &[&str],
        leaf: &Leaf,
        path: &str,
    ) -> Result<bool, Failure> {
        let Some((first, rest)) = parts.split_first() else { return Ok(false) };
        let at = self.entries.iter().position(|entry| entry.filename == first.as_bytes().as_bstr());
        if rest.is_empty() {
            return self.set_here(at, first, leaf, path);
        }
        let name = BString::from(*first);
        if !self.open.contains_key(&name) {
            let (origin, entries) = match at.and_then(|at| self.entries.get(at)) {
                Some(entry) if entry.mode.is_tree() => (Some(entry.oid), entries(repo, entry.oid)?),
                Some(entry) => return Err(in_the_way(path, entry)),
                None => (None, Vec::new()),
            };
            self.open.insert(name.clone(), Directory { origin, entries, open: BTreeMap::new() });
        }
        match self.open.get_mut(&name) {
            Some(child) => child.set(repo, rest, leaf, path),
            None => Ok(false),
        }
    }

    fn set_here(
        &mut self,
        mut at: Option<usize>,
        name: &str,
        leaf: &Leaf,
        path: &str,
    ) -> Result<bool, Failure> {
        let name = name.as_bytes().as_bstr();
        match self.open.get(name) {
            Some(child) if !child.is_empty() => {
                return Err(Failure::problem(format!("`{path}` is a directory, not a file")));
            }
            // An earlier write of the same change emptied it.
            Some(_) => {
                self.open.remove(name);
                self.entries.retain(|entry| entry.filename != name);
                at = None;
            }
            None => {}
        }
        match (leaf, at.and_then(|at| self.entries.get_mut(at))) {
            (_, Some(entry)) if !entry.mode.is_blob() => Err(in_the_way(path, entry)),
            (Leaf::Put(id), Some(entry)) => {
                let changed = entry.oid != *id;
                entry.oid = *id;
                Ok(changed)
            }
            (Leaf::Put(id), None) => {
                self.entries.push(tree::Entry {
                    mode: tree::EntryKind::Blob.into(),
                    filename: name.into(),
                    oid: *id,
                });
                Ok(true)
            }
            (Leaf::Delete, Some(_)) => {
                self.entries.retain(|entry| entry.filename != name);
                Ok(true)
            }
            (Leaf::Delete, None) => Ok(false),
        }
    }

    fn is_empty(&self) -> bool {
        let unopened = self.entries.iter().any(|entry| !self.open.contains_key(&entry.filename));
        !unopened && self.open.values().all(Directory::is_empty)
    }

    /// Writes the changed directories, innermost first; an empty one vanishes.
    fn close(mut self, objects: &mut Vec<NewObject>) -> Result<Option<ObjectId>, Failure> {
        for (name, child) in self.open {
            let before = self.entries.iter().position(|entry| entry.filename == name);
            let id = child.close(objects)?;
            match (id, before.and_then(|at| self.entries.get_mut(at))) {
                (Some(id), Some(entry)) => entry.oid = id,
                (Some(oid), None) => {
                    let mode = tree::EntryKind::Tree.into();
                    self.entries.push(tree::Entry { mode, filename: name, oid });
                }
                (None, _) => self.entries.retain(|entry| entry.filename != name),
            }
        }
        if self.entries.is_empty() {
            return Ok(None);
        }
        self.entries.sort();
        let mut data = Vec::new();
        objs::Tree { entries: self.entries }
            .write_to(&mut data)
            .map_err(|error| Failure::corrupt("encoding a tree", error))?;
        let object = NewObject::new(objs::Kind::Tree, data)?;
        let id = object.id;
        if self.origin != Some(id) {
            objects.push(object);
        }
        Ok(Some(id))
    }
}

/// Says what stands where a file or directory should be.
pub(crate) fn in_the_way(path: &str, entry: &tree::Entry) -> Failure {
    let name = entry.filename.to_str_lossy();
    let what = match entry.mode.kind() {
        tree::EntryKind::Link => "is a symbolic link: links are never followed, give the real path",
        tree::EntryKind::Commit => "is a submodule: promote the other repository instead",
        tree::EntryKind::Tree => "is a directory, not a file",
        _ => "is a file, not a directory",
    };
    Failure::problem(format!("`{name}` in the path `{path}` {what}"))
}
