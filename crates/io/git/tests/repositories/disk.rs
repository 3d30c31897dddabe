//! Repositories on this machine.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::future::BoxFuture;
use kardinal_git::{
    Change, ChangeError, Error, Git, Local, Order, Outcome, Repositories as _, Settings, Tree, Write,
};

use crate::bench::*;

#[tokio::test]
async fn a_commit_is_made_once() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let order = order("one", Fixed(vec![put("env/prod/x.yaml", b"x: 1\n")]));
    let before = git.tip(&remote, "main").await.unwrap().unwrap();
    let done = git.commit(&remote, &order).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(done.parent.as_deref(), Some(before.as_str()));
    assert_eq!(done.files, ["env/prod/x.yaml"]);
    assert_eq!(git.tip(&remote, "main").await.unwrap().unwrap(), done.commit);
    assert_eq!(bench.ask(&["show", "main:env/prod/x.yaml"]), "x: 1");
    assert_eq!(bench.ask(&["log", "-1", "--format=%B", "main"]), "Promote one\n\nKardinal-Step: one");
    for git in [git, bench.git()] {
        let again = git.commit(&remote, &order).await.unwrap();
        assert_eq!((again.kind, &again.commit), (Outcome::AlreadyThere, &done.commit));
        assert_eq!((again.files, again.parent), (done.files.clone(), done.parent.clone()));
    }
    assert_eq!(bench.subjects("main"), ["Promote one", "first"]);
    bench.fsck();
}

#[tokio::test]
async fn the_same_parent_gives_the_same_commit() {
    let (one, two) = (Bench::new(), Bench::new());
    let order = order("one", Fixed(vec![put("x", b"1")]));
    let first = one.git().commit(&one.remote(), &order).await.unwrap();
    let second = two.git().commit(&two.remote(), &order).await.unwrap();
    assert_eq!(first.commit, second.commit);
}

#[tokio::test]
async fn an_order_that_was_overtaken_is_not_made_again() {
    let bench = Bench::new();
    let remote = bench.remote();
    let old = order("old", Fixed(vec![put("tag", b"v1")]));
    let done = bench.git().commit(&remote, &old).await.unwrap();
    bench.git().commit(&remote, &order("new", Fixed(vec![put("tag", b"v2")]))).await.unwrap();
    // Alice merges, so that our commits are not on the first-parent line any more.
    let work = bench.clone_as("alice");
    run(&work, &["checkout", "-q", "-b", "side", "HEAD~2"]);
    write(&work, "side", b"x");
    run(&work, &["add", "-A"]);
    run(&work, &["commit", "-q", "-m", "side"]);
    run(&work, &["merge", "-q", "--no-edit", "main"]);
    run(&work, &["push", "-q", "origin", "HEAD:main"]);
    let again = bench.git().commit(&remote, &old).await.unwrap();
    assert_eq!((again.kind, again.commit), (Outcome::AlreadyThere, done.commit));
    assert_eq!(bench.ask(&["show", "main:tag"]), "v2");
}

#[tokio::test]
async fn nothing_to_do_is_not_a_commit() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let tip = git.tip(&remote, "main").await.unwrap().unwrap();
    for writes in
        [vec![], vec![put("README.md", b"hello\n")], vec![Write { path: "none".into(), content: None }]]
    {
        let done = git.commit(&remote, &order("idle", Fixed(writes.clone()))).await.unwrap();
        assert_eq!((done.kind, &done.commit), (Outcome::NothingToDo, &tip));
        assert!(done.files.is_empty());
        let done = git.commit(&remote, &branched("idle", "kardinal/x", Fixed(writes))).await.unwrap();
        assert_eq!((done.kind, &done.commit), (Outcome::NothingToDo, &tip));
    }
    assert_eq!(git.tip(&remote, "kardinal/x").await.unwrap(), None);
}

#[tokio::test]
async fn branches_are_made_replaced_and_deleted() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let one = branched("one", "kardinal/a/prod", Fixed(vec![put("x", b"1")]));
    let done = git.commit(&remote, &one).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(git.commit(&remote, &one).await.unwrap().kind, Outcome::AlreadyThere);
    assert_eq!(bench.subjects("main"), ["first"]);
    let two = branched("two", "kardinal/a/prod", Fixed(vec![put("x", b"2")]));
    let replaced = git.commit(&remote, &two).await.unwrap();
    assert_eq!(bench.subjects("kardinal/a/prod"), ["Promote two", "first"]);
    assert!(git.delete_branch(&remote, "kardinal/a/prod", &done.commit).await.is_err());
    git.delete_branch(&remote, "kardinal/a/prod", &replaced.commit).await.unwrap();
    git.delete_branch(&remote, "kardinal/a/prod", &replaced.commit).await.unwrap();
    assert_eq!(git.tip(&remote, "kardinal/a/prod").await.unwrap(), None);
    assert_eq!(git.read(&remote, &replaced.commit, "x").await.unwrap().unwrap(), b"2");
    // Once merged the order is done, even when its branch is gone.
    run(&bench.bare(), &["update-ref", "refs/heads/main", &replaced.commit]);
    assert_eq!(git.commit(&remote, &two).await.unwrap().kind, Outcome::AlreadyThere);
}

#[tokio::test]
async fn a_commit_of_our_own_is_rebuilt_on_the_new_tip_and_nobody_elses_is_overwritten() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let branch = "kardinal/a/prod";
    let first = branched("one", branch, Fixed(vec![put("x", b"ours")]));
    let old = git.commit(&remote, &first).await.unwrap();
    let again = branched("one", branch, Fixed(vec![put("x", b"ours")]));
    let again = Order { replaces: Some(old.commit.clone()), ..again };
    // Nothing stands against it: it is the forge that has not looked yet.
    let refusal = git.commit(&remote, &again).await.unwrap_err();
    assert!(matches!(&refusal, Error::Fault { .. }), "{refusal}");
    git.commit(&remote, &order("stranger", Fixed(vec![put("other", b"1")]))).await.unwrap();
    assert!(git.commit(&remote, &again).await.is_err(), "another file is no conflict");
    let rival = git.commit(&remote, &order("rival", Fixed(vec![put("x", b"theirs")]))).await.unwrap();
    let new = git.commit(&remote, &again).await.unwrap();
    assert_eq!((new.kind, new.parent.as_ref()), (Outcome::Pushed, Some(&rival.commit)));
    assert_eq!(bench.ask(&["show", &format!("{branch}:x")]), "ours");
    assert_eq!(bench.subjects(branch), ["Promote one", "Promote rival", "Promote stranger", "first"]);
    // Whoever died after the push finds it done.
    let found = git.commit(&remote, &again).await.unwrap();
    assert_eq!((found.kind, &found.commit), (Outcome::AlreadyThere, &new.commit));
    // A stranger's commit on the branch stays.
    let work = bench.clone_as("stranger");
    run(&work, &["checkout", "-q", branch]);
    run(&work, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    run(&work, &["push", "-q", "origin", &format!("HEAD:{branch}")]);
    git.commit(&remote, &order("third", Fixed(vec![put("x", b"third")]))).await.unwrap();
    let refusal = git.commit(&remote, &Order { replaces: Some(new.commit), ..again }).await.unwrap_err();
    assert!(matches!(&refusal, Error::Overtaken(why) if why.contains("not overwritten")), "{refusal}");
    assert_eq!(bench.subjects(branch).first().map(String::as_str), Some("mine"));
}

#[tokio::test]
async fn history_can_be_asked() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let first = git.tip(&remote, "main").await.unwrap().unwrap();
    let change = vec![put("a", b"1"), put("README.md", b"bye\n"), put("env/new/x", b"2")];
    let second = git.commit(&remote, &order("one", Fixed(change))).await.unwrap().commit;
    assert!(git.contains(&remote, &second, &first).await.unwrap());
    assert!(git.contains(&remote, &second, &second).await.unwrap());
    assert!(!git.contains(&remote, &first, &second).await.unwrap());
    let missing = "1234567890123456789012345678901234567890";
    assert!(!git.contains(&remote, &second, missing).await.unwrap());
    assert!(matches!(git.contains(&remote, missing, &second).await, Err(Error::NoCommit(_))));
    assert!(matches!(git.contains(&remote, "main", &second).await, Err(Error::Problem { .. })));
    let tree = bench.ask(&["rev-parse", "main^{tree}"]);
    assert!(matches!(git.read(&remote, &tree, "a").await, Err(Error::Problem { .. })));
    assert!(matches!(git.contains(&remote, &tree, &first).await, Err(Error::Problem { .. })));
    let changes = git.diff(&remote, None, &second, &kardinal_git::Budget::default()).await.unwrap();
    let paths: Vec<_> = changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["README.md", "a", "env/new/x"]);
    assert_eq!(changes[0].before.as_deref(), Some(&b"hello\n"[..]));
    assert_eq!((&changes[1].before, changes[1].after.as_deref()), (&None, Some(&b"1"[..])));
    assert_eq!(git.diff(&remote, None, &first, &kardinal_git::Budget::default()).await.unwrap().len(), 2);
    let back = git.diff(&remote, Some(&second), &first, &kardinal_git::Budget::default()).await.unwrap();
    let turned: Vec<_> = changes.iter().map(|one| (&one.path, &one.after, &one.before)).collect();
    assert_eq!(back.iter().map(|one| (&one.path, &one.before, &one.after)).collect::<Vec<_>>(), turned);
}

#[tokio::test]
async fn our_own_forge_needs_no_network() {
    let bench = Bench::new();
    let local = Local { prefix: "http://127.0.0.1:1/git/".into(), root: bench.dir.path().to_owned() };
    let git = Git::new(Settings { local: Some(local), ..bench.settings() });
    let remote = remote("http://127.0.0.1:1/git/app.git");
    let done = git.commit(&remote, &order("one", Fixed(vec![put("x", b"1")]))).await.unwrap();
    assert_eq!(bench.ask(&["rev-parse", "main"]), done.commit);
    assert!(!bench.dir.path().join("cache").exists());
    let error = git.tip(&crate::bench::remote("http://127.0.0.1:1/git/none.git"), "main").await.unwrap_err();
    assert!(matches!(error, Error::Problem { .. }));
}

#[tokio::test]
async fn repositories_with_a_work_tree_and_packed_refs_work_too() {
    let bench = Bench::new();
    let work = bench.clone_as("alice");
    run(&work, &["pack-refs", "--all"]);
    run(&work, &["gc", "-q"]);
    let remote = remote(&work.display().to_string());
    let git = bench.git();
    let done = git.commit(&remote, &order("one", Fixed(vec![put("x", b"1")]))).await.unwrap();
    assert_eq!(run(&work, &["rev-parse", "main"]), done.commit);
    // A repack under our hands.
    run(&work, &["gc", "-q"]);
    let done = git.commit(&remote, &order("two", Fixed(vec![put("x", b"2")]))).await.unwrap();
    assert_eq!(run(&work, &["rev-parse", "main"]), done.commit);
    git.delete_branch(&remote, "main", &done.commit).await.unwrap();
    assert_eq!(git.tip(&remote, "main").await.unwrap(), None);
}

/// A change during which somebody else pushes, the first time.
struct Overtaken {
    bench: Arc<Bench>,
    calls: AtomicUsize,
}

impl Change for Overtaken {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
                let work = self.bench.clone_as("rival");
                write(&work, "log", b"rival\n");
                self.bench.push_all(&work, "rival");
            }
            let mut log = tree.read("log").unwrap().unwrap_or_default();
            log.extend_from_slice(b"ours\n");
            Ok(vec![put("log", &log)])
        })
    }
}

#[tokio::test]
async fn a_change_is_applied_again_when_somebody_was_faster() {
    let bench = Arc::new(Bench::new());
    let change = Arc::new(Overtaken { bench: Arc::clone(&bench), calls: AtomicUsize::new(0) });
    let order = Order { change: Arc::<Overtaken>::clone(&change), ..order("one", Broken) };
    let done = bench.git().commit(&bench.remote(), &order).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(change.calls.load(Ordering::SeqCst), 2);
    assert_eq!(bench.ask(&["show", "main:log"]), "rival\nours");
}

/// A change that never comes to an end.
struct Endless(Arc<tokio::sync::Notify>);

impl Change for Endless {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async {
            self.0.notify_one();
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn giving_up_on_an_order_does_not_hurt_those_behind_it() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let started = Arc::new(tokio::sync::Notify::new());
    let endless = tokio::spawn({
        let (git, remote, started) = (git.clone(), remote.clone(), Arc::clone(&started));
        async move { git.commit(&remote, &order("endless", Endless(started))).await }
    });
    started.notified().await;
    let orders: Vec<_> = (0..3).map(|n| order(&format!("n{n}"), Append("log", format!("n{n}")))).collect();
    let rest = futures::future::join_all(orders.iter().map(|order| git.commit(&remote, order)));
    let (rest, ()) = tokio::join!(rest, async { endless.abort() });
    assert!(rest.iter().all(|result| result.as_ref().is_ok_and(|done| done.kind == Outcome::Pushed)));
    assert_eq!(bench.subjects("main").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn virtual_time_does_not_run_away() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let started = tokio::time::Instant::now();
    for n in 0..20 {
        git.commit(&remote, &order(&format!("n{n}"), Append("log", format!("n{n}")))).await.unwrap();
    }
    assert_eq!(started.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test]
async fn twins_become_one_commit() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let twin = order("twin", Append("log", "x".into()));
    let results = futures::future::join_all((0..5).map(|_| git.commit(&remote, &twin))).await;
    let commits: std::collections::BTreeSet<_> =
        results.iter().map(|result| result.as_ref().unwrap().commit.clone()).collect();
    assert_eq!(commits.len(), 1);
    assert_eq!(bench.ask(&["show", "main:log"]), "x");
}
