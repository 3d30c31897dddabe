//! Repositories behind smart HTTP.

use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use kardinal_git::{
    Change, ChangeError, Credentials, Error, Outcome, Remote, Repositories as _, Secret, Tree, Write,
};

use crate::{bench::*, server::Server};

#[tokio::test]
async fn a_warm_push_is_one_request() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (git, remote) = (bench.git(), server.remote());
    let first = git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    assert_eq!(first.kind, Outcome::Pushed);
    server.take_requests();
    for name in ["two", "three"] {
        let done = git.commit(&remote, &order(name, Append("log", name.into()))).await.unwrap();
        assert_eq!(done.kind, Outcome::Pushed);
        assert_eq!(server.take_requests(), ["POST /app.git/git-receive-pack"]);
    }
    assert_eq!(bench.ask(&["show", "main:log"]), "one\ntwo\nthree");
    bench.fsck();
}

#[tokio::test]
async fn a_refused_push_is_redone_on_the_new_tip() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (git, remote) = (bench.git(), server.remote());
    git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    let work = bench.clone_as("alice");
    write(&work, "other", b"mine\n");
    bench.push_all(&work, "by alice");
    let done = git.commit(&remote, &order("two", Append("log", "two".into()))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(bench.subjects("main"), ["Promote two", "by alice", "Promote one", "first"]);
    assert_eq!(bench.ask(&["show", "main:other"]), "mine");
    bench.fsck();
}

/// A change that needs a file to be there.
struct Needs(&'static str);

impl Change for Needs {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            match tree.read(self.0) {
                Ok(Some(_)) => Ok(vec![put("done", b"yes")]),
                _ => Err(failed("the file is missing")),
            }
        })
    }
}

#[tokio::test]
async fn a_failure_on_an_old_tip_is_looked_at_twice() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (git, remote) = (bench.git(), server.remote());
    git.commit(&remote, &order("one", Fixed(vec![put("tag", b"v1")]))).await.unwrap();
    let error = git.commit(&remote, &order("two", Needs("new"))).await.unwrap_err();
    assert!(matches!(error, Error::Change(_)));
    let work = bench.clone_as("alice");
    write(&work, "new", b"x");
    write(&work, "tag", b"v0");
    bench.push_all(&work, "by alice");
    assert_eq!(git.commit(&remote, &order("two", Needs("new"))).await.unwrap().kind, Outcome::Pushed);
    write(&work, "tag", b"v3");
    run(&work, &["pull", "-q", "--rebase", "--autostash", "origin", "main"]);
    bench.push_all(&work, "by alice again");
    // The cached tree says v0 already, the real one does not.
    let done = git.commit(&remote, &order("three", Fixed(vec![put("tag", b"v0")]))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(bench.ask(&["show", "main:tag"]), "v0");
}

#[tokio::test]
async fn a_lost_answer_does_not_make_a_second_commit() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (git, remote) = (bench.git(), server.remote());
    git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    for (name, fresh) in [("two", false), ("three", true)] {
        let order = order(name, Append("log", name.into()));
        server.switches.lose_answers.store(true, Ordering::SeqCst);
        let error = git.commit(&remote, &order).await.unwrap_err();
        assert!(matches!(error, Error::Fault { .. }), "{error}");
        server.switches.lose_answers.store(false, Ordering::SeqCst);
        // Somebody goes on from there before we ask again.
        let work = bench.clone_as(name);
        write(&work, "log", b"rewritten\n");
        bench.push_all(&work, &format!("after {name}"));
        let again = if fresh { bench.git() } else { git.clone() };
        let done = again.commit(&remote, &order).await.unwrap();
        assert_eq!(done.kind, Outcome::AlreadyThere);
        assert_eq!(done.commit, bench.ask(&["rev-parse", "main~1"]));
    }
    assert_eq!(
        bench.subjects("main"),
        ["after three", "Promote three", "after two", "Promote two", "Promote one", "first"]
    );
}

#[tokio::test]
async fn a_pull_request_branch_is_made_once_and_replaced_with_care() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let remote = server.remote();
    let order = branched("one", "kardinal/b/prod", Append("log", "one".into()));
    let git = bench.git();
    let done = git.commit(&remote, &order).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(git.tip(&remote, "kardinal/b/prod").await.unwrap().as_ref(), Some(&done.commit));
    let again = bench.git().commit(&remote, &order).await.unwrap();
    assert_eq!((again.kind, &again.commit), (Outcome::AlreadyThere, &done.commit));
    let next = branched("two", "kardinal/b/prod", Append("log", "two".into()));
    server.take_requests();
    let replaced = git.commit(&remote, &next).await.unwrap();
    assert_eq!((replaced.kind, &replaced.parent), (Outcome::Pushed, &done.parent));
    assert_eq!(server.take_requests(), ["POST /app.git/git-upload-pack", "POST /app.git/git-receive-pack"]);
    assert_eq!(bench.subjects("kardinal/b/prod"), ["Promote two", "first"]);
    let refused = git.delete_branch(&remote, "kardinal/b/prod", &done.commit).await.unwrap_err();
    assert!(matches!(refused, Error::Problem { .. }), "{refused}");
    git.delete_branch(&remote, "kardinal/b/prod", &replaced.commit).await.unwrap();
    git.delete_branch(&remote, "kardinal/b/prod", &replaced.commit).await.unwrap();
    assert_eq!(git.tip(&remote, "kardinal/b/prod").await.unwrap(), None);
    bench.fsck();
}

#[tokio::test]
async fn ten_orders_at_once_share_a_push() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (git, remote) = (bench.git(), server.remote());
    git.commit(&remote, &order("zero", Append("log", "zero".into()))).await.unwrap();
    server.take_requests();
    let mut orders: Vec<_> =
        (0..10).map(|n| order(&format!("n{n}"), Append("log", format!("n{n}")))).collect();
    orders.push(order("broken", Broken));
    orders.push(order("hostile", Fixed(vec![put("../x", b"")])));
    let results = futures::future::join_all(orders.iter().map(|order| git.commit(&remote, order))).await;
    for result in results.iter().take(10) {
        assert_eq!(result.as_ref().unwrap().kind, Outcome::Pushed);
    }
    assert!(matches!(results[10], Err(Error::Change(_))));
    assert!(matches!(results[11], Err(Error::Problem { .. })));
    let pushes = server.take_requests();
    assert!(pushes.len() <= 2 && pushes.iter().all(|one| one.ends_with("receive-pack")), "{pushes:?}");
    assert_eq!(bench.subjects("main").len(), 12);
    assert_eq!(bench.ask(&["show", "main:log"]).lines().count(), 11);
    bench.fsck();
}

#[tokio::test]
async fn credentials_are_sent_at_once_and_never_shown() {
    let bench = Bench::new();
    // "Basic " + base64("x-access-token:hunter2")
    let server = Server::with_password(&bench, "Basic eC1hY2Nlc3MtdG9rZW46aHVudGVyMg==").await;
    let git = bench.git();
    let good = server.remote_as(Credentials::Token(Secret::new("hunter2")));
    git.commit(&good, &order("one", Append("log", "one".into()))).await.unwrap();
    let inside = remote(&format!("http://x-access-token:hunter2@{}/app.git", server.address));
    assert!(git.tip(&inside, "main").await.unwrap().is_some());
    for requests in server.take_requests() {
        assert!(!requests.contains("401"));
    }
    let tip = git.tip(&good, "main").await.unwrap().unwrap();
    let bad = server.remote_as(Credentials::Token(Secret::new("s3cr3t")));
    let in_url = remote(&format!("http://alice:s3cr3t@{}/app.git", server.address));
    for remote in [bad, in_url, server.remote()] {
        let order = order("two", Append("log", "two".into()));
        let mut errors = vec![git.tip(&remote, "main").await.unwrap_err()];
        errors.push(git.commit(&remote, &order).await.unwrap_err());
        // The cache holds the file, but it is not theirs to read.
        errors.push(git.read(&remote, &tip, "README.md").await.unwrap_err());
        errors.push(bench.git().tip(&remote, "main").await.unwrap_err());
        for error in errors {
            let shown = format!("{error} {error:?} {remote:?}");
            assert!(matches!(error, Error::Problem { .. }), "{shown}");
            assert!(
                shown.contains("Secret") && !shown.contains("s3cr3t") && !shown.contains("czNjcjN0"),
                "{shown}"
            );
        }
    }
    assert_eq!(git.read(&good, &tip, "README.md").await.unwrap().as_deref(), Some(&b"hello\n"[..]));
}

#[tokio::test]
async fn trouble_is_sorted() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let remote = server.remote();
    for (status, fault) in [(403, false), (404, false), (429, true), (500, true), (503, true)] {
        server.switches.status.store(status, Ordering::SeqCst);
        let error = bench.git().tip(&remote, "main").await.unwrap_err();
        match &error {
            Error::Fault { retry_after, .. } if fault && status != 429 => {
                assert_eq!(retry_after.unwrap().as_secs(), 7);
            }
            Error::Limited { retry_after, .. } if status == 429 => {
                assert_eq!(retry_after.unwrap().as_secs(), 7)
            }
            Error::Problem { .. } if !fault => {}
            _ => panic!("{status}: {error:?}"),
        }
    }
    server.switches.status.store(0, Ordering::SeqCst);
    let missing = Remote { url: format!("http://{}/nothing.git", server.address), ..remote.clone() };
    assert!(matches!(bench.git().tip(&missing, "main").await, Err(Error::Problem { .. })));
    let no_branch =
        kardinal_git::Order { base: "trunk".into(), branch: "trunk".into(), ..order("x", Broken) };
    let error = bench.git().commit(&remote, &no_branch).await.unwrap_err();
    assert!(matches!(&error, Error::Problem { message: text, .. } if text.contains("`trunk`")), "{error}");
    let unknown = "1234567890123456789012345678901234567890";
    let error = bench.git().read(&remote, unknown, "x").await.unwrap_err();
    assert!(matches!(&error, Error::NoCommit(text) if text.contains(unknown)), "{error}");
    let closed = remote_to_a_closed_port().await;
    assert!(matches!(bench.git().tip(&closed, "main").await, Err(Error::Fault { .. })));
}

async fn remote_to_a_closed_port() -> Remote {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    remote(&format!("http://{}/app.git", listener.local_addr().unwrap()))
}

#[tokio::test]
async fn hooks_say_why() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let hook = bench.bare().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script = "#!/bin/sh\nwhile read old new ref; do git log --format=%s $old..$new | grep -q bad && { echo 'nothing bad here'; exit 1; }; done; exit 0\n";
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (git, remote) = (bench.git(), server.remote());
    let error = git.commit(&remote, &order("bad", Append("log", "x".into()))).await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if text.contains("hook declined") && text.contains("nothing bad here")),
        "{error}"
    );
    // In a batch only the guilty one fails.
    let orders: Vec<_> =
        ["a", "bad", "b", "c"].map(|name| order(name, Append("log", name.into()))).into_iter().collect();
    let results = futures::future::join_all(orders.iter().map(|order| git.commit(&remote, order))).await;
    let fine: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, false, true, true]);
    assert_eq!(bench.ask(&["show", "main:log"]), "a\nb\nc");
}

#[tokio::test]
async fn a_shallow_cache_deepens_when_asked() {
    for old in [false, true] {
        deepens(old).await;
    }
}

async fn deepens(old: bool) {
    let bench = Bench::new();
    let root = bench.ask(&["rev-parse", "main"]);
    let work = bench.clone_as("alice");
    for n in 0..70 {
        run(&work, &["commit", "-q", "--allow-empty", "-m", &format!("c{n}")]);
    }
    write(&work, "README.md", b"changed\n");
    bench.push_all(&work, "last");
    let server = Server::new(&bench).await;
    server.switches.old.store(old, Ordering::SeqCst);
    run(&bench.bare(), &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let (git, remote) = (bench.git(), server.remote());
    let done = git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    let shallow = || std::fs::read_to_string(cache_of(&bench).join("shallow"));
    assert_eq!(shallow().unwrap().lines().count(), 1);
    let near = bench.ask(&["rev-parse", "main~5"]);
    assert!(git.contains(&remote, &done.commit, &near).await.unwrap());
    assert!(shallow().is_ok());
    assert!(git.contains(&remote, &done.commit, &root).await.unwrap());
    assert!(shallow().is_err(), "history is whole now");
    assert!(!git.contains(&remote, &near, &done.commit).await.unwrap());
    let done = git.commit(&remote, &order("two", Append("log", "two".into()))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    bench.fsck();
    run(&cache_of(&bench), &["fsck", "--strict", "--no-dangling"]);
    let changes = bench
        .git()
        .diff(&remote, None, &bench.ask(&["rev-parse", "main~2"]), &kardinal_git::Budget::default())
        .await
        .unwrap();
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(change.before.as_deref(), Some(&b"hello\n"[..]));
    assert_eq!(change.after.as_deref(), Some(&b"changed\n"[..]));
}

pub(crate) fn cache_of(bench: &Bench) -> std::path::PathBuf {
    let entries = std::fs::read_dir(bench.dir.path().join("cache")).unwrap();
    entries.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap()
}

#[tokio::test]
async fn a_server_of_the_old_protocol_is_served_by_the_git_program() {
    let bench = Bench::new();
    let server = Server::with_password(&bench, "Basic eC1hY2Nlc3MtdG9rZW46aHVudGVyMg==").await;
    server.switches.old.store(true, Ordering::SeqCst);
    run(&bench.bare(), &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let git = bench.git();
    let remote = server.remote_as(Credentials::Token(Secret::new("hunter2")));
    git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    let work = bench.clone_as("alice");
    write(&work, "other", b"mine\n");
    bench.push_all(&work, "by alice");
    let two = git.commit(&remote, &order("two", Append("log", "two".into()))).await.unwrap();
    assert_eq!(bench.subjects("main"), ["Promote two", "by alice", "Promote one", "first"]);
    assert_eq!(git.read(&remote, &two.commit, "log").await.unwrap().unwrap(), b"one\ntwo\n");
    let branch = git.commit(&remote, &branched("three", "p/x", Append("log", "3".into()))).await.unwrap();
    git.delete_branch(&remote, "p/x", &branch.commit).await.unwrap();
    git.delete_branch(&remote, "p/x", &branch.commit).await.unwrap();
    let bad = server.remote_as(Credentials::Token(Secret::new("s3cr3t")));
    let error = git.commit(&bad, &order("four", Append("log", "4".into()))).await.unwrap_err();
    assert!(matches!(&error, Error::Problem { message: text, .. } if !text.contains("s3cr3t")), "{error:?}");
    bench.fsck();
}

#[tokio::test]
async fn redirects_stay_on_the_host() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    *server.switches.redirect.lock().unwrap() = Some(("/short".into(), "/app.git".into()));
    let short = remote(&format!("http://{}/short", server.address));
    let git = bench.git();
    git.commit(&short, &order("one", Append("log", "one".into()))).await.unwrap();
    let (port, host) = (server.address.clone(), "localhost");
    let elsewhere = format!("http://{host}:{}/app.git", port.rsplit(':').next().unwrap());
    *server.switches.redirect.lock().unwrap() = Some(("/short".into(), elsewhere));
    let error = bench.git().tip(&short, "main").await.unwrap_err();
    assert!(matches!(&error, Error::Problem { message: text, .. } if text.contains("moved")), "{error}");
}

#[tokio::test]
async fn a_damaged_cache_heals() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let remote = server.remote();
    let git = bench.git();
    let first = git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    // Nothing left of the objects, while the repository is open.
    std::fs::remove_dir_all(cache_of(&bench).join("objects")).unwrap();
    std::fs::create_dir_all(cache_of(&bench).join("objects/pack")).unwrap();
    let done = git.commit(&remote, &order("two", Append("log", "two".into()))).await.unwrap();
    assert_eq!((done.kind, done.parent), (Outcome::Pushed, Some(first.commit.clone())));
    drop(git);
    // A pack full of zeros, found by the next process.
    let packs = std::fs::read_dir(cache_of(&bench).join("objects/pack")).unwrap();
    for pack in packs.map(|pack| pack.unwrap().path()) {
        let length = std::fs::metadata(&pack).unwrap().len() as usize;
        let mut permissions = std::fs::metadata(&pack).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
        std::fs::set_permissions(&pack, permissions).unwrap();
        std::fs::write(&pack, vec![0; length]).unwrap();
    }
    let git = bench.git();
    let done = git.commit(&remote, &order("three", Append("log", "three".into()))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    drop(git);
    std::fs::write(cache_of(&bench).join("HEAD"), "garbage").unwrap();
    std::fs::write(cache_of(&bench).join("config"), "[[[").unwrap();
    assert_eq!(bench.git().read(&remote, &done.commit, "log").await.unwrap().unwrap(), b"one\ntwo\nthree\n");
    bench.fsck();
}

/// How often a sweep is tried before something is wrong.
const ROUNDS: usize = 50;

#[tokio::test]
async fn caches_are_bounded_in_bytes_and_age() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    for name in ["second.git", "third.git"] {
        run(bench.dir.path(), &["clone", "-q", "--bare", "app.git", name]);
    }
    let caches = || {
        let entries = std::fs::read_dir(bench.dir.path().join("cache")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    };
    let tiny = kardinal_git::Git::new(kardinal_git::Settings { max_bytes: 1, ..bench.settings() });
    let remotes = ["app.git", "second.git", "third.git"]
        .map(|name| remote(&format!("http://{}/{name}", server.address)));
    // A thread that has just finished may still hold a cache; the next sweep finds it free.
    for _ in 0..ROUNDS {
        for remote in &remotes {
            let tip = tiny.tip(remote, "main").await.unwrap().unwrap();
            assert_eq!(tiny.read(remote, &tip, "README.md").await.unwrap().unwrap(), b"hello\n");
        }
        if caches() == 1 {
            break;
        }
    }
    assert_eq!(caches(), 1, "only the one in use stays");
    let roomy = bench.git();
    for remote in &remotes {
        let tip = roomy.tip(remote, "main").await.unwrap().unwrap();
        roomy.read(remote, &tip, "README.md").await.unwrap();
    }
    assert!(caches() >= 3);
    drop((roomy, tiny));
    let brief = kardinal_git::Git::new(kardinal_git::Settings {
        max_age: std::time::Duration::ZERO,
        ..bench.settings()
    });
    // Caches are swept when something was fetched, so each round needs a repository that is not there yet.
    for round in 0..ROUNDS {
        let name = format!("new-{round}.git");
        run(bench.dir.path(), &["clone", "-q", "--bare", "app.git", &name]);
        let new = remote(&format!("http://{}/{name}", server.address));
        let tip = brief.tip(&new, "main").await.unwrap().unwrap();
        brief.read(&new, &tip, "README.md").await.unwrap();
        if caches() == 1 {
            break;
        }
    }
    assert_eq!(caches(), 1);
}

#[tokio::test]
async fn a_certificate_must_be_trusted() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let (address, ca) = behind_tls(&server.address).await;
    let trusted = Remote { ca: Some(ca.into_bytes()), ..remote(&format!("https://{address}/app.git")) };
    let git = bench.git();
    let done = git.commit(&trusted, &order("one", Append("log", "one".into()))).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    let doubtful = Remote { ca: None, ..trusted.clone() };
    let error = git.tip(&doubtful, "main").await.unwrap_err();
    assert!(matches!(&error, Error::Problem { message: text, .. } if text.contains("CA")), "{error:?}");
    let garbage = Remote { ca: Some(b"garbage".to_vec()), ..trusted };
    assert!(matches!(git.tip(&garbage, "main").await, Err(Error::Problem { .. })));
}

/// Puts TLS with a certificate of its own in front of a server: the address and the certificate.
async fn behind_tls(plain: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("localhost:{}", listener.local_addr().unwrap().port());
    let plain = plain.to_owned();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, plain) = (acceptor.clone(), plain.clone());
            tokio::spawn(async move {
                let Ok(mut outside) = acceptor.accept(stream).await else { return };
                let mut inside = tokio::net::TcpStream::connect(plain).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut outside, &mut inside).await);
            });
        }
    });
    (address, made.cert.pem())
}

#[tokio::test]
async fn short_commit_ids_are_resolved_against_the_repository() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let work = bench.clone_as("alice");
    for n in 0..5 {
        write(&work, "log", format!("{n}\n").as_bytes());
        bench.push_all(&work, &format!("change {n}"));
    }
    let whole = bench.ask(&["rev-parse", "main~2"]);
    for (remote, old) in [(server.remote(), false), (server.remote(), true), (bench.remote(), false)] {
        server.switches.old.store(old, Ordering::SeqCst);
        run(&bench.bare(), &["config", "uploadpack.allowAnySHA1InWant", "true"]);
        let git = bench.git();
        for digits in [7, 12, 39, 40] {
            let upper = whole[..digits].to_uppercase();
            let short = if digits == 40 { &whole[..] } else { &upper };
            assert_eq!(git.resolve(&remote, short).await.unwrap(), whole, "{digits}");
        }
        // What was looked through is not mistaken for what is here.
        let changes = git.diff(&remote, None, &whole, &kardinal_git::Budget::default()).await.unwrap();
        assert_eq!(changes.len(), 1);
        for wrong in ["abc123def456", "abc", "main", ""] {
            let error = git.resolve(&remote, wrong).await.unwrap_err();
            assert!(matches!(&error, Error::NoCommit(_)), "{wrong}: {error}");
        }
    }
    server.switches.status.store(503, Ordering::SeqCst);
    let error = bench.git().resolve(&server.remote(), &whole[..12]).await.unwrap_err();
    assert!(matches!(error, Error::Fault { .. }), "unreachable is not unknown: {error}");
}

#[tokio::test]
async fn a_repository_with_an_object_beyond_the_limit_is_refused_and_a_higher_limit_takes_it() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let work = bench.clone_as("alice");
    write(&work, "zeros", &vec![0; 2 << 20]);
    bench.push_all(&work, "two MiB of zeros, two KiB packed");
    let tip = bench.ask(&["rev-parse", "main"]);
    let with = |object, pack| {
        let limits = kardinal_git::Limits { object, pack };
        kardinal_git::Git::new(kardinal_git::Settings { limits, ..bench.settings() })
    };
    let error = with(1 << 20, 1 << 30).read(&server.remote(), &tip, "README.md").await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if text.contains("2097152 bytes")),
        "{error}"
    );
    let error = with(64 << 20, 0).read(&server.remote(), &tip, "README.md").await;
    assert!(error.is_ok(), "small answers are within what may come besides a pack");
    let read = with(64 << 20, 1 << 30).read(&server.remote(), &tip, "zeros").await.unwrap().unwrap();
    assert_eq!(read.len(), 2 << 20);
}

/// Says of every name that it may not be reached.
struct NoWay;

impl reqwest::dns::Resolve for NoWay {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let policy = kardinal_reach::Policy::cluster(kardinal_reach::Hosts::default());
        let told = policy.check_address(name.as_str(), [127, 0, 0, 1].into()).unwrap_err();
        Box::pin(async move { Err(told.into()) })
    }
}

#[tokio::test]
async fn a_name_that_leads_to_a_forbidden_address_is_a_problem_and_no_fault() {
    let bench = Bench::new();
    let policy = kardinal_reach::Policy::cluster(kardinal_reach::Hosts::default());
    let git = kardinal_git::Git::reaching(bench.settings(), policy, Some(std::sync::Arc::new(NoWay)));
    let error = git.tip(&remote("https://rebinding.example/a.git"), "main").await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if text.starts_with("`rebinding.example` may not")),
        "{error:?}"
    );
    let error = git.tip(&remote("ssh://git@10.0.0.1/a.git"), "main").await.unwrap_err();
    assert!(
        matches!(&error, Error::Problem { message: text, .. } if text.contains("`ssh-privatekey`")),
        "{error:?}"
    );
}
