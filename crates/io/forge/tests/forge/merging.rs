//! Merges in memory, checked by git.

use jiff::Timestamp;
use kardinal_forge::{Author, Error, FileChange, MergeOrder, Merged, Store};

use crate::world::{KARDINAL, World, commit, git, good};

fn order(head: &str) -> MergeOrder {
    MergeOrder {
        base: "main".to_owned(),
        head: head.to_owned(),
        expected_base: None,
        expected_head: None,
        message: format!("Merge {head}\n"),
        author: Author { name: "alice".to_owned(), email: "alice@localhost".to_owned() },
        time: "2026-04-09T10:00:00Z".parse::<Timestamp>().unwrap(),
    }
}

/// `main` and `feature` have gone different ways since the first commit.
async fn forked(main: &[(&str, &str)], feature: &[(&str, &str)]) -> World {
    let world = World::new().await;
    let seed = world.seeded().await;
    good(&seed, &["checkout", "-q", "-b", "feature"]).await;
    commit(&seed, feature, "feature").await;
    good(&seed, &["checkout", "-q", "main"]).await;
    commit(&seed, main, "main").await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main", "feature"]).await;
    world
}

fn tip(world: &World, branch: &str) -> String {
    world.store.tip("default", "app", branch).unwrap().unwrap()
}

#[tokio::test]
async fn both_sides_are_in_the_merge() {
    let world = forked(
        &[("README.md", "zero\none\ntwo\nthree\n")],
        &[("README.md", "one\ntwo\nthree\nfour\n"), ("a/b", "c")],
    )
    .await;
    let (base, head) = (tip(&world, "main"), tip(&world, "feature"));
    assert!(world.store.conflicts("default", "app", "main", "feature").unwrap().is_empty());
    let merged = world.store.merge("default", "app", &order("feature")).unwrap();
    let commit = tip(&world, "main");
    assert_eq!(merged, Merged::Done { commit: commit.clone(), base: base.clone(), head: head.clone() });
    let bare = world.bare();
    good(&bare, &["fsck", "--strict"]).await;
    assert_eq!(good(&bare, &["show", "main:README.md"]).await, "zero\none\ntwo\nthree\nfour");
    assert_eq!(good(&bare, &["show", "main:a/b"]).await, "c");
    assert_eq!(
        good(&bare, &["log", "-1", "--format=%P|%an|%ae|%cI|%s", "main"]).await,
        format!("{base} {head}|alice|alice@localhost|2026-04-09T10:00:00+00:00|Merge feature")
    );
    good(&world.dir("seed"), &["pull", "-q", &world.url(KARDINAL), "main"]).await;
}

#[tokio::test]
async fn the_second_merge_finds_the_first() {
    let world = forked(&[("m", "1")], &[("f", "1")]).await;
    let head = tip(&world, "feature");
    let first = world.store.merge("default", "app", &order("feature")).unwrap();
    let Merged::Done { commit: merge, .. } = first else { panic!("{first:?}") };
    let already = Merged::Already { commit: merge.clone() };
    assert_eq!(world.store.merge("default", "app", &order("feature")).unwrap(), already);
    // Later commits on the base and a deleted head do not hide it.
    let seed = world.dir("seed");
    good(&seed, &["pull", "-q", &world.url(KARDINAL), "main"]).await;
    commit(&seed, &[("later", "1")], "later").await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main"]).await;
    assert_eq!(world.store.merge("default", "app", &order("feature")).unwrap(), already);
    world.store.delete_branch("default", "app", "feature", &head).unwrap();
    let known = MergeOrder { expected_head: Some(head.clone()), ..order("feature") };
    assert_eq!(world.store.merge("default", "app", &known).unwrap(), already);
    let comparison = world.store.compare("default", "app", "main", "feature", Some(&head)).unwrap();
    assert_eq!((comparison.head, comparison.merge_commit), (None, Some(merge)));
    assert_eq!(comparison.merged_at, Some(order("feature").time));
    assert_eq!(good(&world.bare(), &["rev-list", "--merges", "--count", "main"]).await, "1");
}

/// A head that was set back has lost its change; nobody merged it.
#[tokio::test]
async fn a_head_that_was_set_back_is_not_merged() {
    let world = forked(&[("m", "1")], &[("f", "1")]).await;
    let head = tip(&world, "feature");
    let compare = || world.store.compare("default", "app", "main", "feature", Some(&head)).unwrap();
    let apart = compare();
    assert!(apart.mergeable() && !apart.contained && apart.merge_commit.is_none());
    let paths: Vec<&str> = apart.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["f"]);
    good(&world.dir("seed"), &["push", "-q", "-f", &world.url(KARDINAL), "main:feature"]).await;
    let back = compare();
    assert!(!back.mergeable() && back.contained && back.merge_commit.is_none());
    let fresh = world.store.compare("default", "app", "main", "feature", None).unwrap();
    assert_eq!(fresh.merge_commit, Some(tip(&world, "main")));
    assert_eq!(fresh.merged_at, None);
}

#[tokio::test]
async fn the_same_order_gives_the_same_commit() {
    let mut ids = Vec::new();
    for _ in 0..2 {
        let world = forked(&[("m", "1")], &[("f", "1")]).await;
        let (base, head) = (tip(&world, "main"), tip(&world, "feature"));
        let Merged::Done { commit, .. } = world.store.merge("default", "app", &order("feature")).unwrap()
        else {
            panic!("not merged")
        };
        // The commits of the two worlds differ by their times; the text of the merge must not.
        let text = good(&world.bare(), &["cat-file", "commit", &commit]).await;
        ids.push(text.replace(&base, "base").replace(&head, "head"));
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn conflicts_name_their_files_and_write_nothing() {
    let world = forked(
        &[("README.md", "ONE\ntwo\nthree\n"), ("env/dev.yaml", "tag: 2\n"), ("fine", "1")],
        &[("README.md", "Eins\ntwo\nthree\n"), ("env/dev.yaml", "tag: 3\n"), ("other", "1")],
    )
    .await;
    let before = tip(&world, "main");
    let objects = good(&world.bare(), &["count-objects"]).await;
    let files = vec!["README.md".to_owned(), "env/dev.yaml".to_owned()];
    let merged = world.store.merge("default", "app", &order("feature")).unwrap();
    assert_eq!(merged, Merged::Conflict { files: files.clone() });
    let comparison = world.store.compare("default", "app", "main", "feature", None).unwrap();
    assert_eq!(comparison.conflicts, files);
    assert!(!comparison.mergeable());
    assert_eq!(tip(&world, "main"), before);
    assert_eq!(good(&world.bare(), &["count-objects"]).await, objects);
}

#[tokio::test]
async fn deleted_here_and_changed_there_is_a_conflict() {
    let world = World::new().await;
    let seed = world.seeded().await;
    good(&seed, &["checkout", "-q", "-b", "feature"]).await;
    commit(&seed, &[("env/dev.yaml", "tag: 2\n")], "change").await;
    good(&seed, &["checkout", "-q", "main"]).await;
    good(&seed, &["rm", "-q", "env/dev.yaml"]).await;
    good(&seed, &["commit", "-q", "-m", "delete"]).await;
    good(&seed, &["push", "-q", &world.url(KARDINAL), "main", "feature"]).await;
    let merged = world.store.merge("default", "app", &order("feature")).unwrap();
    assert_eq!(merged, Merged::Conflict { files: vec!["env/dev.yaml".to_owned()] });
}

#[tokio::test]
async fn a_moved_branch_is_not_merged() {
    let world = forked(&[("m", "1")], &[("f", "1")]).await;
    let (base, head) = (tip(&world, "main"), tip(&world, "feature"));
    let other = "1".repeat(40);
    let cases = [
        (MergeOrder { expected_base: Some(other.clone()), ..order("feature") }, "main", Some(base)),
        (MergeOrder { expected_head: Some(other.clone()), ..order("feature") }, "feature", Some(head)),
        (order("gone"), "gone", None),
        (MergeOrder { expected_head: Some(other), ..order("gone") }, "gone", None),
        (MergeOrder { base: "nowhere".to_owned(), ..order("feature") }, "nowhere", None),
    ];
    for (order, branch, tip) in cases {
        let merged = world.store.merge("default", "app", &order).unwrap();
        assert_eq!(merged, Merged::Moved { branch: branch.to_owned(), tip });
    }
}

/// Whoever loses the race looks again; in the end both changes are there, each merged once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_merges_lose_nothing() {
    let world = World::new().await;
    let seed = world.seeded().await;
    let heads: Vec<String> = (0..8).map(|n| format!("feature-{n}")).collect();
    for head in &heads {
        good(&seed, &["checkout", "-q", "-b", head, "main"]).await;
        commit(&seed, &[(head, "1")], head).await;
    }
    good(&seed, &["push", "-q", &world.url(KARDINAL), "refs/heads/*:refs/heads/*"]).await;
    let merges = heads.iter().map(|head| {
        let (store, order) = (world.store.clone(), order(head));
        tokio::task::spawn_blocking(move || {
            for _ in 0..1000 {
                match store.merge("default", "app", &order) {
                    Ok(Merged::Done { .. } | Merged::Already { .. }) => return,
                    Ok(Merged::Moved { .. }) | Err(Error::Fault(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
            panic!("never merged");
        })
    });
    for merged in futures::future::join_all(merges).await {
        merged.unwrap();
    }
    let bare = world.bare();
    good(&bare, &["fsck", "--strict"]).await;
    assert_eq!(good(&bare, &["rev-list", "--merges", "--count", "main"]).await, "8");
    assert_eq!(good(&bare, &["ls-tree", "--name-only", "main"]).await.matches("feature-").count(), 8);
}

#[tokio::test]
async fn a_diff_is_what_git_would_apply() {
    let world = forked(
        &[("README.md", "zero\none\ntwo\nthree\n"), ("main-only", "1")],
        &[("README.md", "one\ntwo\nthree\nfour"), ("new/file", "a\nb\n"), ("env/dev.yaml", "tag: 2\n")],
    )
    .await;
    let files = world.store.diff("default", "app", "main", "feature").unwrap();
    let told: Vec<(&str, FileChange, u64, u64)> =
        files.iter().map(|file| (file.path.as_str(), file.change, file.additions, file.deletions)).collect();
    assert_eq!(
        told,
        [
            ("README.md", FileChange::Modified, 1, 0),
            ("env/dev.yaml", FileChange::Modified, 1, 1),
            ("new/file", FileChange::Added, 2, 0),
        ]
    );
    let patch: String = files.iter().map(|file| file.unified.as_str()).collect();
    assert!(patch.contains("\\ No newline at end of file"), "{patch}");
    assert!(patch.contains("@@ -0,0 +1,2 @@"), "{patch}");
    let seed = world.dir("seed");
    std::fs::write(world.dir("patch"), &patch).unwrap();
    good(&seed, &["checkout", "-q", "--detach", "main~1"]).await;
    let applied = git(&seed, &["apply", "--index", world.dir("patch").to_str().unwrap()]).await;
    assert!(applied.status.success(), "{patch}\n{applied:?}");
    let tree = good(&seed, &["write-tree"]).await;
    assert_eq!(tree, good(&seed, &["rev-parse", "feature^{tree}"]).await);
    let by_id = world.store.diff("default", "app", &tip(&world, "main"), &tip(&world, "feature")).unwrap();
    assert_eq!(by_id, files);
    assert!(world.store.diff("default", "app", "main", "nothing").is_err());
}

#[test]
fn creating_twice_is_creating_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("deep/er"));
    assert!(!store.exists("default", "app"));
    let path = store.create("default", "app", "trunk").unwrap();
    assert_eq!(store.create("default", "app", "trunk").unwrap(), path);
    assert_eq!(store.default_branch("default", "app").unwrap().as_deref(), Some("trunk"));
    assert_eq!(store.default_branch("default", "none").unwrap(), None);
    assert_eq!(std::fs::read_to_string(path.join("HEAD")).unwrap().trim(), "ref: refs/heads/trunk");
    store.create("default", "app", "main").unwrap();
    assert_eq!(std::fs::read_to_string(path.join("HEAD")).unwrap().trim(), "ref: refs/heads/main");
    assert_eq!(store.branches("default", "app").unwrap(), []);
    assert_eq!(store.tip("default", "app", "main").unwrap(), None);
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(entries, 1, "nothing is left lying about");
    assert!(matches!(store.create("default", "bad name", "main"), Err(Error::Problem(_))));
    assert!(matches!(store.create("default", "app", "bad..branch"), Err(Error::Problem(_))));
    assert!(matches!(store.tip("default", "none", "main"), Err(Error::Problem(_))));
}

#[test]
fn creating_at_once_is_creating_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| store.create("default", "app", "main").unwrap());
        }
    });
    assert_eq!(std::fs::read_dir(folder.path().join("default")).unwrap().count(), 1);
}

#[tokio::test]
async fn branches_are_deleted_where_they_are_expected() {
    let world = forked(&[("m", "1")], &[("f", "1")]).await;
    let head = tip(&world, "feature");
    let wrong = "1".repeat(40);
    assert!(matches!(world.store.delete_branch("default", "app", "feature", &wrong), Err(Error::Problem(_))));
    world.store.delete_branch("default", "app", "feature", &head).unwrap();
    world.store.delete_branch("default", "app", "feature", &head).unwrap();
    assert_eq!(world.store.branches("default", "app").unwrap().len(), 1);
}

#[tokio::test]
async fn an_old_merge_is_found_in_a_long_history() {
    let world = forked(&[("m", "1")], &[("f", "1")]).await;
    let head = tip(&world, "feature");
    let first = world.store.merge("default", "app", &order("feature")).unwrap();
    let Merged::Done { commit: merge, base, .. } = first else { panic!("{first:?}") };
    let mut stream = String::new();
    for n in 0..300 {
        let from = if n == 0 { format!("from {merge}\n") } else { String::new() };
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter a <a@b> {} +0000\ndata 1\nx\n{from}",
            1_800_000_000 + n
        ));
    }
    let file = world.dir("stream");
    std::fs::write(&file, stream).unwrap();
    let script = format!("git fast-import --quiet --force < '{}'", file.display());
    let done = tokio::process::Command::new("sh")
        .current_dir(world.bare())
        .args(["-c", &script])
        .status()
        .await
        .unwrap();
    assert!(done.success());
    for (change, expected) in [(&head, &merge), (&base, &base)] {
        let seen = world.store.compare("default", "app", "main", "gone", Some(change)).unwrap();
        assert_eq!(seen.merge_commit.as_ref(), Some(expected));
    }
}
