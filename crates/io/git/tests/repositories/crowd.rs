//! Many writers at once: nobody's commit is ever lost.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use futures::future::BoxFuture;
use kardinal_git::{Change, ChangeError, Error, Git, Outcome, Remote, Repositories as _, Tree, Write};

use crate::{bench::*, server::Server};

const EACH: usize = 4;

/// Somebody with the real git program, who pulls and tries again like everybody does.
fn alice(work: PathBuf, name: String) {
    for n in 0..EACH {
        write(&work, &format!("{name}-{n}"), b"mine\n");
        run(&work, &["add", "-A"]);
        run(&work, &["commit", "-q", "-m", &format!("{name} {n}")]);
        let mut pushed = false;
        for _ in 0..200 {
            pushed =
                command(&work).args(["push", "-q", "origin", "HEAD:main"]).output().unwrap().status.success();
            if pushed {
                break;
            }
            run(&work, &["pull", "-q", "--rebase", "origin", "main"]);
        }
        assert!(pushed, "{name} never got through");
    }
}

async fn promotions(git: Git, remote: Remote, name: String) {
    for n in 0..EACH {
        let order = order(&format!("{name}-{n}"), Append("log", format!("{name}-{n}")));
        let done = loop {
            match git.commit(&remote, &order).await {
                Ok(done) => break done,
                Err(Error::Fault { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        assert_ne!(done.kind, Outcome::NothingToDo);
    }
}

async fn crowd(bench: &Bench, remotes: Vec<Remote>) {
    let mut tasks = Vec::new();
    for name in ["alice", "bob"] {
        let work = bench.clone_as(name);
        tasks.push(tokio::task::spawn_blocking(move || alice(work, name.to_owned())));
    }
    // Two processes' worth of us, each with several promotions at a time.
    for (n, remote) in remotes.into_iter().enumerate() {
        let git = bench.git();
        for m in 0..3 {
            tasks.push(tokio::spawn(promotions(git.clone(), remote.clone(), format!("p{n}-{m}"))));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let promoted = bench.ask(&["show", "main:log"]);
    let mut lines: Vec<_> = promoted.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 6 * EACH, "every promotion is there");
    assert_eq!(promoted.lines().count(), 6 * EACH, "and only once");
    assert_eq!(bench.subjects("main").len(), 1 + 8 * EACH);
    let files = bench.ask(&["ls-tree", "--name-only", "main"]);
    for name in ["alice", "bob"] {
        assert_eq!(files.lines().filter(|file| file.starts_with(name)).count(), EACH);
    }
    bench.fsck();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_disk() {
    let bench = Bench::new();
    let remote = bench.remote();
    crowd(&bench, vec![remote.clone(), remote]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http() {
    let bench = Bench::new();
    let server = Arc::new(Server::new(&bench).await);
    crowd(&bench, vec![server.remote(), server.remote()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_and_on_disk() {
    let bench = Bench::new();
    let server = Arc::new(Server::new(&bench).await);
    crowd(&bench, vec![server.remote(), bench.remote()]).await;
}

/// A change that keeps its thread busy until somebody else has had a turn.
struct Heavy(Mutex<mpsc::Receiver<()>>);

impl Change for Heavy {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async {
            // Only a failing test waits long.
            let turn = self.0.lock().unwrap().recv_timeout(Duration::from_secs(20));
            turn.map_err(|_| failed("nobody else had a turn"))?;
            Ok(vec![put("heavy", b"done\n")])
        })
    }
}

#[tokio::test]
async fn a_change_that_keeps_its_thread_busy_keeps_nobody_waiting() {
    let bench = Bench::new();
    let (turn, taken) = mpsc::channel();
    let (git, remote) = (bench.git(), bench.remote());
    let order = order("heavy", Heavy(Mutex::new(taken)));
    let (done, ()) = tokio::join!(git.commit(&remote, &order), async { turn.send(()).unwrap() });
    assert_eq!(done.unwrap().kind, Outcome::Pushed);
}
