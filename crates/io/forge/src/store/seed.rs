//! The first commit of a branch, for samples that start with something in their repository.

use std::collections::BTreeMap;

use gix::objs::tree::{Entry, EntryKind};
use gix::refs::Target;
use gix::refs::transaction::{PreviousValue, RefEdit};
use jiff::Timestamp;

use super::merge::signature_text;
use super::{Author, Store, branch_name, tip};
use crate::error::Error;

/// What a branch begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed<'a> {
    /// The branch.
    pub branch: &'a str,
    /// Paths and contents.
    pub files: &'a [(&'a str, &'a str)],
    /// The message of the commit.
    pub message: &'a str,
    /// Author and committer.
    pub author: &'a Author,
    /// When it says it was made.
    pub time: Timestamp,
}

/// Directories and files by name.
enum Node {
    File(gix::ObjectId),
    Directory(BTreeMap<String, Node>),
}

impl Store {
    /// Gives a branch without commits its first one; says whether it did. A branch that has a commit stays as it is.
    pub fn seed(&self, namespace: &str, name: &str, seed: &Seed<'_>) -> Result<bool, Error> {
        let repository = self.open(namespace, name)?;
        if tip(&repository, seed.branch)?.is_some() {
            return Ok(false);
        }
        let write = |error: gix::Error| Error::fault("write the first commit", error);
        let mut root = BTreeMap::new();
        for (path, content) in seed.files {
            let blob = repository.write_blob(content.as_bytes()).map_err(write)?.detach();
            place(&mut root, path, path, blob)?;
        }
        let tree = write_tree(&repository, root)?;
        let signature = gix::actor::Signature {
            name: signature_text(&seed.author.name).into(),
            email: signature_text(&seed.author.email).into(),
            time: gix::date::Time { seconds: seed.time.as_second(), offset: 0 },
        };
        let mut buffer = gix::date::parse::TimeBuf::default();
        let signature = signature.to_ref(&mut buffer);
        let none: [gix::ObjectId; 0] = [];
        let commit =
            repository.new_commit_as(signature, signature, seed.message, tree, none).map_err(write)?.id;
        let edit = RefEdit::update(
            branch_name(seed.branch)?,
            Target::Object(commit),
            PreviousValue::MustNotExist,
            "first commit",
        );
        match repository.edit_reference(edit) {
            Ok(_) => Ok(true),
            // Whoever was faster began the branch.
            Err(_) if tip(&repository, seed.branch)?.is_some() => Ok(false),
            Err(error) => Err(Error::fault("begin the branch", error)),
        }
    }
}

fn place(
    directory: &mut BTreeMap<String, Node>,
    rest: &str,
    path: &str,
    blob: gix::ObjectId,
) -> Result<(), Error> {
    let refused = || Error::Problem(format!("`{path}` is not a plain path of a file"));
    let (first, rest) = match rest.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (rest, None),
    };
    if matches!(first, "" | "." | ".." | ".git") {
        return Err(refused());
    }
    match rest {
        None => match directory.insert(first.to_owned(), Node::File(blob)) {
            None => Ok(()),
            Some(_) => Err(refused()),
        },
        Some(rest) => {
            let inner = directory.entry(first.to_owned()).or_insert_with(|| Node::Directory(BTreeMap::new()));
            match inner {
                Node::Directory(inner) => place(inner, rest, path, blob),
                Node::File(_) => Err(refused()),
            }
        }
    }
}

fn write_tree(repository: &gix::Repository, nodes: BTreeMap<String, Node>) -> Result<gix::ObjectId, Error> {
    let mut entries = Vec::new();
    for (name, node) in nodes {
        let (kind, oid) = match node {
            Node::File(blob) => (EntryKind::Blob, blob),
            Node::Directory(inner) => (EntryKind::Tree, write_tree(repository, inner)?),
        };
        entries.push(Entry { mode: kind.into(), filename: name.into(), oid });
    }
    // Git's order is not that of the names: a directory counts with a slash at its end.
    entries.sort();
    let written = repository.write_object(gix::objs::Tree { entries });
    Ok(written.map_err(|error| Error::fault("write a tree", error))?.detach())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed<'a>(files: &'a [(&'a str, &'a str)], author: &'a Author) -> Seed<'a> {
        Seed { branch: "main", files, message: "the beginning\n", author, time: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn a_branch_begins_once() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        let path = store.create("default", "demo", "main").unwrap();
        let author = Author { name: "kardinal".to_owned(), email: "kardinal@localhost".to_owned() };
        let files = [("a/b.txt", "b\n"), ("a.txt", "a\n"), ("a/c/d.txt", "d\n"), ("a-b", "x\n")];
        assert_eq!(store.seed("default", "demo", &seed(&files, &author)), Ok(true));
        let first = store.tip("default", "demo", "main").unwrap();
        assert_eq!(store.seed("default", "demo", &seed(&[("z", "z")], &author)), Ok(false));
        assert_eq!(store.tip("default", "demo", "main").unwrap(), first);
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git")
                .arg("--git-dir")
                .arg(&path)
                .args(arguments)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        git(&["fsck", "--strict"]);
        assert_eq!(git(&["ls-tree", "-r", "--name-only", "main"]), "a-b\na.txt\na/b.txt\na/c/d.txt\n");
        assert_eq!(git(&["show", "main:a/c/d.txt"]), "d\n");
        assert_eq!(git(&["log", "--format=%an %s", "main"]), "kardinal the beginning\n");
    }

    #[test]
    fn paths_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(folder.path());
        store.create("default", "demo", "main").unwrap();
        let author = Author { name: String::new(), email: String::new() };
        for path in ["", "/a", "a/", "a//b", "../a", "a/../b", ".git/config", "a/."] {
            let seeded = store.seed("default", "demo", &seed(&[(path, "x")], &author));
            assert!(matches!(seeded, Err(Error::Problem(_))), "{path}: {seeded:?}");
        }
        let twice = store.seed("default", "demo", &seed(&[("a", "x"), ("a/b", "x")], &author));
        assert!(matches!(twice, Err(Error::Problem(_))), "{twice:?}");
        assert_eq!(store.tip("default", "demo", "main"), Ok(None));
    }
}
