//! What happens to a repository while it is backed up.

use std::io::{Cursor, SeekFrom};
use std::process::Command;

use kardinal_forge::Store;

use super::*;
use crate::archive;
use crate::commands::restore;

fn git(bare: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(bare).args(arguments).env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", bare);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "alice").env(format!("GIT_{who}_EMAIL"), "a@example.org");
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {}: {said}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What a push does: a commit on top of the branch, then the branch.
fn push(bare: &Path, branch: &str, message: &str) {
    let branch = format!("refs/heads/{branch}");
    let tree = git(bare, &["mktree", "--missing"]);
    let old = git(bare, &["for-each-ref", "--format=%(objectname)", &branch]);
    let parent = if old.is_empty() { vec![] } else { vec!["-p", &old] };
    let commit = git(bare, &[&["commit-tree", &tree, "-m", message], &*parent].concat());
    git(bare, &["update-ref", &branch, &commit]);
}

/// An archive in memory. Something happens to the repository at every few writes, which is between any two files.
struct Disturbed<F> {
    archive: Cursor<Vec<u8>>,
    writes: usize,
    happens: F,
}

impl<F: FnMut(usize)> Write for Disturbed<F> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.writes += 1;
        (self.happens)(self.writes);
        self.archive.write(data)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<F> Seek for Disturbed<F> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.archive.seek(to)
    }
}

/// Backs up a directory while something happens to it, and restores it elsewhere.
fn check(dir: &Path, happens: impl FnMut(usize)) -> tempfile::TempDir {
    let out = Disturbed { archive: Cursor::new(Vec::new()), writes: 0, happens };
    let mut writer = Writer::new(out);
    add_files(&mut writer, dir).unwrap();
    let archived = writer.finish().unwrap().archive.into_inner();
    let restored = tempfile::tempdir().unwrap();
    archive::read(&*archived, |name, content| restore::put(restored.path(), name, content)).unwrap();
    restored
}

/// A data directory with a repository that has two branches; the repository.
fn repository(namespace: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let bare = Store::new(dir.path().join(REPOSITORIES)).create(namespace, "app", "main").unwrap();
    for branch in ["earlier", "main"] {
        push(&bare, branch, branch);
    }
    (dir, bare)
}

/// The branches of the restored repository, each of which has all that it names.
fn branches(restored: &Path, namespace: &str) -> Vec<String> {
    let bare = restored.join(REPOSITORIES).join(namespace).join("app.git");
    git(&bare, &["fsck", "--strict"]);
    let branches = git(&bare, &["for-each-ref", "--format=%(objecttype) %(refname:lstrip=2)"]);
    branches.lines().map(str::to_owned).collect()
}

const BOTH: [&str; 2] = ["commit earlier", "commit main"];

#[test]
fn a_branch_that_is_pushed_to_meanwhile_has_its_commit_in_the_backup() {
    // Whoever takes a folder's name for its meaning is misled by these.
    for namespace in ["default", "objects", "refs"] {
        let (dir, bare) = repository(namespace);
        let restored = check(dir.path(), |write| {
            if write % 3 == 1 && write < 60 {
                push(&bare, "main", &format!("push {write}"));
            }
        });
        assert_eq!(branches(restored.path(), namespace), BOTH, "{namespace}");
    }
}

#[test]
fn what_git_packs_meanwhile_is_in_the_backup() {
    let (dir, bare) = repository("default");
    for at in 0..10 {
        push(&bare, "main", &format!("push {at}"));
    }
    let restored = check(dir.path(), |write| match write {
        2 => drop(git(&bare, &["pack-refs", "--all"])),
        // Then all objects are in one pack, and in another one.
        30 => drop(git(&bare, &["repack", "-adq"])),
        50 | 60 => {
            push(&bare, "main", &format!("push {write}"));
            git(&bare, &["repack", "-adq"]);
        }
        _ => {}
    });
    assert_eq!(branches(restored.path(), "default"), BOTH);
}

#[test]
fn every_branch_is_in_the_backup_whatever_its_name_and_nothing_half_written_is() {
    let (dir, bare) = repository("default");
    let odd = ["objects/pack", "tmp_try", "try.idx", "try.tmp"];
    odd.iter().for_each(|branch| push(&bare, branch, branch));
    let half = [
        "refs/heads/main.lock",
        "objects/tmp_objdir-incoming-x/pack/pack-x.pack",
        "objects/pack/tmp_pack_x",
        "objects/.tmpx",
        "../.new-other-1-1/HEAD",
    ];
    for name in half {
        std::fs::create_dir_all(bare.join(name).parent().unwrap()).unwrap();
        std::fs::write(bare.join(name), "half").unwrap();
    }
    // It is of no use without its pack, and keeps nobody from saving the others.
    std::fs::create_dir_all(bare.join("objects/pack")).unwrap();
    std::fs::write(bare.join("objects/pack/pack-y.idx"), "lost").unwrap();
    let restored = check(dir.path(), |_| {});
    let all: Vec<String> =
        ["earlier", "main"].iter().chain(&odd).map(|name| format!("commit {name}")).collect();
    assert_eq!(branches(restored.path(), "default"), all);
    let bare = restored.path().join(bare.strip_prefix(dir.path()).unwrap());
    for name in half.iter().chain(&["objects/pack/pack-y.idx"]) {
        assert!(!bare.join(name).exists(), "{name}");
    }
}

#[test]
fn a_repository_to_which_nobody_has_pushed_yet_is_one_after_the_restore() {
    let dir = tempfile::tempdir().unwrap();
    Store::new(dir.path().join(REPOSITORIES)).create("default", "app", "main").unwrap();
    let restored = check(dir.path(), |_| {});
    let store = Store::new(restored.path().join(REPOSITORIES));
    assert_eq!(store.branches("default", "app").unwrap(), []);
    git(&store.path("default", "app").unwrap(), &["fsck"]);
}
