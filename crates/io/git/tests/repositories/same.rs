//! What we write is what git writes: same trees, same commits, for random repositories and edits.

use std::collections::BTreeMap;

use kardinal_git::{Outcome, Repositories as _, Write};
use proptest::{collection, prelude::*, sample, test_runner::Config};

use crate::bench::*;

type Files = BTreeMap<String, Vec<u8>>;

/// Few names, so that files, directories and prefixes of each other meet.
fn paths() -> impl Strategy<Value = String> {
    let name = sample::select(vec!["a", "b", "a.b", "a-b", "a0", "z", "é", "A"]);
    collection::vec(name, 1..4).prop_map(|parts| parts.join("/"))
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![]), Just(b"x\r\n".to_vec()), collection::vec(any::<u8>(), 0..200)]
}

/// Leaves out what cannot stand beside what is there.
fn fits(files: &Files, path: &str) -> bool {
    let below = format!("{path}/");
    !files.keys().any(|other| other.starts_with(&below) || path.starts_with(&format!("{other}/")))
}

fn repositories() -> impl Strategy<Value = Files> {
    collection::vec((paths(), contents()), 1..12).prop_map(|all| {
        let mut files = Files::new();
        for (path, content) in all {
            if fits(&files, &path) {
                files.insert(path, content);
            }
        }
        files
    })
}

fn edits() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    collection::vec((paths(), proptest::option::weighted(0.7, contents())), 1..8)
}

fn put_all(work: &std::path::Path, files: &Files) {
    for entry in std::fs::read_dir(work).unwrap().map(Result::unwrap) {
        if entry.file_name() != ".git" {
            let path = entry.path();
            if path.is_dir() {
                std::fs::remove_dir_all(path).unwrap()
            } else {
                std::fs::remove_file(path).unwrap()
            }
        }
    }
    for (path, content) in files {
        write(work, path, content);
    }
}

proptest! {
    #![proptest_config(Config { cases: 16, ..Config::default() })]
    #[test]
    fn commits_are_the_ones_git_makes(before in repositories(), edits in edits()) {
        let bench = Bench::new();
        let work = bench.clone_as("alice");
        put_all(&work, &before);
        bench.push_all(&work, "before");
        let mut after = before.clone();
        let mut writes = Vec::new();
        for (path, content) in edits {
            if after.contains_key(&path) || fits(&after, &path) {
                match &content {
                    Some(content) => after.insert(path.clone(), content.clone()),
                    None => after.remove(&path),
                };
                writes.push(Write { path, content });
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (git, remote) = (bench.git(), bench.remote());
        let done = runtime.block_on(git.commit(&remote, &order("x", Fixed(writes)))).unwrap();
        put_all(&work, &after);
        run(&work, &["add", "-A"]);
        if after == before {
            prop_assert_eq!(done.kind, Outcome::NothingToDo);
        } else {
            run(&work, &["commit", "-q", "-m", "Promote x\n\nKardinal-Step: x"]);
            prop_assert_eq!(&done.commit, &run(&work, &["rev-parse", "HEAD"]));
            let changed = run(&work, &["-c", "core.quotePath=false", "diff", "--name-only", "--no-renames", "HEAD~1", "HEAD"]);
            let mut changed: Vec<_> = changed.lines().map(str::to_owned).collect();
            changed.sort();
            let files: Vec<_> = runtime.block_on(git.diff(&remote, None, &done.commit, &kardinal_git::Budget::default())).unwrap();
            prop_assert_eq!(&changed, &files.iter().map(|file| file.path.clone()).collect::<Vec<_>>());
            for path in &changed {
                prop_assert!(done.files.contains(path));
            }
        }
        bench.fsck();
    }
}
