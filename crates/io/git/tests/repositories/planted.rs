//! Commits that others have made under our name, and changes that lost their permission on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use kardinal_git::{Change, ChangeError, Committed, Error, Order, Outcome, Repositories, Tree, Write};
use tokio::sync::Notify;

use crate::bench::{Bench, Fixed, branched, failed, order, put, run, write};

const BRANCH: &str = "kardinal/a/prod";

/// Pushes a commit with this line from a work tree that has been prepared.
fn plant(bench: &Bench, branch: &str, files: &[(&str, &str)], line: &str) -> String {
    let work = bench.dir.path().join(format!("mallory-{}", files.len()));
    if !work.exists() {
        bench.clone_as(&format!("mallory-{}", files.len()));
    }
    for (path, content) in files {
        write(&work, path, content.as_bytes());
    }
    run(&work, &["add", "-A"]);
    run(&work, &["commit", "-q", "--allow-empty", "-m", &format!("Promote one\n\n{line}")]);
    run(&work, &["push", "-q", "-f", "origin", &format!("HEAD:{branch}")]);
    run(&work, &["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_planted_commit_with_our_line_is_not_taken_for_ours() {
    let bench = Bench::new();
    let line = "Kardinal-Step: one";
    let planted = plant(&bench, BRANCH, &[("x", "theirs")], line);
    let ours = branched("one", BRANCH, Fixed(vec![put("x", b"ours")]));
    let done = bench.git().commit(&bench.remote(), &ours).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_ne!(done.commit, planted);
    assert_eq!(bench.ask(&["show", &format!("{BRANCH}:x")]), "ours");
}

#[tokio::test]
async fn our_content_on_top_of_somebody_elses_commit_is_not_ours() {
    let bench = Bench::new();
    let line = "Kardinal-Step: one";
    plant(&bench, "side", &[("y", "smuggled")], "hello");
    let work = bench.dir.path().join("mallory-1");
    write(&work, "x", b"ours");
    run(&work, &["add", "-A"]);
    run(&work, &["commit", "-q", "-m", &format!("Promote one\n\n{line}")]);
    run(&work, &["push", "-q", "-f", "origin", &format!("HEAD:{BRANCH}")]);
    let ours = branched("one", BRANCH, Fixed(vec![put("x", b"ours")]));
    let done = bench.git().commit(&bench.remote(), &ours).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(bench.subjects(BRANCH), ["Promote one", "first"], "what it stood on would be merged with it");
}

#[tokio::test]
async fn a_planted_commit_on_the_base_does_not_pass_for_the_change() {
    let bench = Bench::new();
    plant(&bench, "main", &[("z", "anything")], "Kardinal-Step: one");
    let done =
        bench.git().commit(&bench.remote(), &order("one", Fixed(vec![put("x", b"ours")]))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(bench.ask(&["show", "main:x"]), "ours");
}

#[tokio::test]
async fn what_really_is_ours_is_found_again() {
    let bench = Bench::new();
    for ours in [
        branched("one", BRANCH, Fixed(vec![put("x", b"ours")])),
        order("two", Fixed(vec![put("x", b"ours")])),
    ] {
        let first = bench.git().commit(&bench.remote(), &ours).await.unwrap();
        let again = bench.git().commit(&bench.remote(), &ours).await.unwrap();
        assert_eq!((again.kind, again.commit), (Outcome::AlreadyThere, first.commit));
    }
}

/// A change whose permission ends while it is being made.
struct Overruled {
    was_applied: AtomicBool,
}

impl Change for Overruled {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        self.was_applied.store(true, Ordering::SeqCst);
        Box::pin(async { Ok(vec![put("b/x", b"1"), put("a", b"2")]) })
    }

    fn confirm<'a>(&'a self, files: &'a [String]) -> BoxFuture<'a, Result<(), ChangeError>> {
        Box::pin(async move {
            assert!(
                self.was_applied.load(Ordering::SeqCst),
                "asked before it was known what would be written"
            );
            assert_eq!(files, ["a", "b/x"]);
            Err(failed("the gate has closed"))
        })
    }
}

#[tokio::test]
async fn a_change_is_confirmed_with_its_files_when_only_the_push_is_left() {
    let bench = Bench::new();
    let overruled = || Overruled { was_applied: AtomicBool::new(false) };
    for refused in [order("one", overruled()), branched("one", BRANCH, overruled())] {
        let error = bench.git().commit(&bench.remote(), &refused).await.unwrap_err();
        assert!(matches!(&error, Error::Change(why) if why.message == "the gate has closed"), "{error}");
    }
    assert_eq!(bench.subjects("main"), ["first"]);
    assert_eq!(bench.git().tip(&bench.remote(), BRANCH).await.unwrap(), None);
}

/// A change that does something else while it is made, and may go out as long as it is allowed to.
struct Allowed<F> {
    path: &'static str,
    is_allowed: Arc<AtomicBool>,
    meanwhile: F,
}

impl<F: Fn() -> BoxFuture<'static, ()> + Send + Sync> Change for Allowed<F> {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            (self.meanwhile)().await;
            Ok(vec![put(self.path, b"1")])
        })
    }

    fn confirm<'a>(&'a self, _: &'a [String]) -> BoxFuture<'a, Result<(), ChangeError>> {
        let is_allowed = self.is_allowed.load(Ordering::SeqCst);
        Box::pin(async move { if is_allowed { Ok(()) } else { Err(failed("the gate has closed")) } })
    }
}

/// Carries out two orders that share a push: another one keeps the branch busy until both wait.
async fn together(bench: &Bench, first: Order, second: Order) -> [Result<Committed, Error>; 3] {
    let (git, remote) = (bench.git(), bench.remote());
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let meanwhile = {
        let (started, go) = (Arc::clone(&started), Arc::clone(&go));
        move || -> BoxFuture<'static, ()> {
            let (started, go) = (Arc::clone(&started), Arc::clone(&go));
            Box::pin(async move {
                started.notify_one();
                go.notified().await;
            })
        }
    };
    let is_allowed = Arc::new(AtomicBool::new(true));
    let busy = order("busy", Allowed { path: "busy", is_allowed, meanwhile });
    let both_wait = async {
        while [&first, &second].iter().any(|order| Arc::strong_count(&order.change) < 2) {
            tokio::task::yield_now().await;
        }
        go.notify_one();
    };
    let behind = async {
        started.notified().await;
        tokio::join!(git.commit(&remote, &first), git.commit(&remote, &second), both_wait)
    };
    let (busy, (first, second, ())) = tokio::join!(git.commit(&remote, &busy), behind);
    [busy, first, second]
}

#[tokio::test]
async fn what_is_objected_to_while_others_of_its_push_are_made_does_not_go_out() {
    let bench = Bench::new();
    let (always, open) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let nothing = || -> BoxFuture<'static, ()> { Box::pin(async {}) };
    let quick = order("quick", Allowed { path: "quick", is_allowed: Arc::clone(&open), meanwhile: nothing });
    let close = move || -> BoxFuture<'static, ()> {
        let open = Arc::clone(&open);
        Box::pin(async move { open.store(false, Ordering::SeqCst) })
    };
    let slow = order("slow", Allowed { path: "slow", is_allowed: always, meanwhile: close });
    let [busy, quick, slow] = together(&bench, quick, slow).await;
    let error = quick.unwrap_err();
    assert!(matches!(&error, Error::Change(why) if why.message == "the gate has closed"), "{error}");
    let slow = slow.unwrap();
    assert_eq!((slow.kind, slow.parent), (Outcome::Pushed, Some(busy.unwrap().commit)));
    assert_eq!(bench.subjects("main"), ["Promote slow", "Promote busy", "first"]);
    bench.fsck();
}

/// A change that something outside keeps from being made, once.
struct Interrupted {
    is_down: AtomicBool,
}

impl Change for Interrupted {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        let is_down = self.is_down.swap(false, Ordering::SeqCst);
        Box::pin(async move {
            match is_down {
                true => Err(ChangeError::fault("the other repository is away")),
                false => Ok(vec![put("x", b"ours")]),
            }
        })
    }
}

#[tokio::test]
async fn our_own_commit_is_not_given_up_because_something_outside_failed() {
    let bench = Bench::new();
    let made = order("one", Fixed(vec![put("x", b"ours")]));
    let first = bench.git().commit(&bench.remote(), &made).await.unwrap();
    let again = order("one", Interrupted { is_down: AtomicBool::new(true) });
    bench.git().commit(&bench.remote(), &again).await.unwrap_err();
    let found = bench.git().commit(&bench.remote(), &again).await.unwrap();
    assert_eq!((found.kind, found.commit), (Outcome::AlreadyThere, first.commit));
}

#[tokio::test]
async fn what_fails_for_one_order_does_not_fail_those_that_share_its_push() {
    let bench = Bench::new();
    bench.git().commit(&bench.remote(), &order("one", Fixed(vec![put("x", b"ours")]))).await.unwrap();
    let again = order("one", Interrupted { is_down: AtomicBool::new(true) });
    let other = order("two", Fixed(vec![put("y", b"ours")]));
    let [_, again, other] = together(&bench, again, other).await;
    assert!(matches!(again, Err(Error::Change(why)) if why.may_pass));
    assert_eq!(other.unwrap().kind, Outcome::Pushed);
}
