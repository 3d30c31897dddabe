//! SSH goes through the git program, with a script in place of `ssh`.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    time::Duration,
};

use kardinal_git::{Git, Outcome, Repositories as _};

use crate::bench::*;

/// A script that runs on this machine what it should run on another.
const HERE: &str = "[ \"$1\" = -G ] && exit 1\nfor last; do :; done\nexec sh -c \"$last\"\n";

#[test]
fn repositories_behind_ssh() {
    let bench = Bench::new();
    let script = bench.script("ssh", HERE);
    bench.inside("ssh::inside", &[("GIT_SSH_COMMAND", script.as_os_str())]);
    assert_eq!(bench.subjects("main"), ["Promote two", "by alice", "Promote one", "first"]);
    assert_eq!(bench.ask(&["show", "main:log"]), "one\ntwo");
    bench.fsck();
}

/// A script that stands in for `ssh` writes down how it is called: with the address that was judged, whatever the name
/// leads to by then.
#[test]
fn the_address_that_was_judged_is_the_one_that_is_connected_to() {
    let bench = Bench::new();
    bench.script("ssh", &format!("echo \"$@\" >> {}/called\nexit 1\n", bench.dir.path().display()));
    let path = format!("{}:{}", bench.dir.path().display(), std::env::var("PATH").unwrap());
    bench.inside("ssh::inside_a_cluster", &[("PATH", path.as_ref())]);
    let called = std::fs::read_to_string(bench.dir.path().join("called")).unwrap();
    let calls: Vec<&str> = called.lines().filter(|line| line.contains("git-upload-pack")).collect();
    let [usual, other, named_like_the_web] = calls.as_slice() else { panic!("{called}") };
    assert!(usual.contains("-o HostName=10.1.2.3 -o HostKeyAlias=git.example -o"), "{usual}");
    assert!(other.contains("-o HostName=10.1.2.3 -o HostKeyAlias=[git.example]:2222"), "{other}");
    assert!(named_like_the_web.contains("-o HostName=10.1.2.3 -o HostKeyAlias=git.example -o"), "{called}");
}

/// Knows one address for every name.
struct OneAddress;

impl reqwest::dns::Resolve for OneAddress {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = vec![std::net::SocketAddr::from(([10, 1, 2, 3], 0))].into_iter();
        Box::pin(async move { Ok(Box::new(found) as reqwest::dns::Addrs) })
    }
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside_a_cluster() {
    let policy = kardinal_reach::Policy::cluster(kardinal_reach::Hosts::default());
    let git = Git::reaching(settings(&directory()), policy, Some(std::sync::Arc::new(OneAddress)));
    let credentials = kardinal_git::Credentials::Ssh { key: "key".into(), known_hosts: None };
    for url in
        ["git@git.example:a/app.git", "ssh://git@git.example:2222/a/app.git", "httpx@git.example:a/app.git"]
    {
        let remote = kardinal_git::Remote { credentials: credentials.clone(), ..remote(url) };
        assert!(git.tip(&remote, "main").await.is_err());
    }
    let error = git.tip(&remote("https@git.example:a/app.git"), "main").await.unwrap_err();
    assert!(error.to_string().contains("needs a key of its own"), "{error}");
    let hostile = kardinal_git::Remote { credentials, ..remote("git@a'$(id)':x/app.git") };
    let error = git.tip(&hostile, "main").await.unwrap_err();
    assert!(error.to_string().contains("not the name of a host"), "{error}");
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside() {
    let directory = directory();
    let git = Git::new(settings(&directory));
    let remote = remote(&format!("git@forge.example:{}/app.git", directory.display()));
    git.commit(&remote, &order("one", Append("log", "one".into()))).await.unwrap();
    run(&directory, &["clone", "-q", "app.git", "alice"]);
    let work = directory.join("alice");
    write(&work, "other", b"mine\n");
    run(&work, &["add", "-A"]);
    run(&work, &["commit", "-q", "-m", "by alice"]);
    run(&work, &["push", "-q", "origin", "HEAD:main"]);
    let two = order("two", Append("log", "two".into()));
    let done = git.commit(&remote, &two).await.unwrap();
    assert_eq!(done.kind, Outcome::Pushed);
    assert_eq!(git.commit(&remote, &two).await.unwrap().commit, done.commit);
    assert!(git.contains(&remote, &done.commit, done.parent.as_ref().unwrap()).await.unwrap());
    let branch = git.commit(&remote, &branched("three", "p/x", Append("log", "3".into()))).await.unwrap();
    git.delete_branch(&remote, "p/x", &branch.commit).await.unwrap();
    assert_eq!(git.tip(&remote, "p/x").await.unwrap(), None);
}

/// In place of `ssh`: starts another process, and both hold a pipe until they end. Not for ever, or a test that fails would
/// leave them behind.
#[test]
fn what_the_git_program_has_started_ends_with_the_call() {
    let bench = Bench::new();
    let pipe = bench.dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let text = format!(
        "[ \"$1\" = -G ] && exit 1\nexec 9> {}\necho started >&9\nsleep 50 <&- >&- 2>&- &\nwait\n",
        pipe.display()
    );
    let script = bench.script("ssh", &text);
    bench.inside("ssh::inside_a_call_that_is_dropped", &[("GIT_SSH_COMMAND", script.as_os_str())]);
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside_a_call_that_is_dropped() {
    let directory = directory();
    let git = Git::new(settings(&directory));
    let call = tokio::spawn(async move { git.tip(&remote("git@forge.example:a/app.git"), "main").await });
    let held = tokio::task::spawn_blocking(move || {
        let mut pipe = BufReader::new(File::open(directory.join("pipe")).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        pipe
    });
    let mut pipe = held.await.unwrap();
    call.abort();
    // Nobody writes; it ends when the last one who holds it does.
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(pipe.read_to_end(&mut Vec::new()).unwrap()));
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(0), "a process lives on");
}

/// `kardinal up` acts for the one who started it; everybody else has neither this machine's files nor its keys.
#[test]
fn files_and_the_machines_ssh_keys_are_used_only_in_kardinal_up() {
    let bench = Bench::new();
    let script =
        bench.script("ssh", &format!("echo called >> {}/called\n{HERE}", bench.dir.path().display()));
    bench.inside("ssh::inside_a_cluster_and_up", &[("GIT_SSH_COMMAND", script.as_os_str())]);
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside_a_cluster_and_up() {
    use kardinal_reach::{Hosts, Policy};

    let directory = directory();
    let app = directory.join("app.git");
    let file = remote(&format!("file://{}", app.display()));
    let path = remote(&app.display().to_string());
    let ssh = remote(&format!("git@forge.example:{}", app.display()));
    let resolver = std::sync::Arc::new(OneAddress);
    let cluster = Git::reaching(settings(&directory), Policy::cluster(Hosts::default()), Some(resolver));
    for (remote, wanted) in [
        (&file, "used by `kardinal up` only"),
        (&path, "used by `kardinal up` only"),
        (&ssh, "needs a key of its own: name a Secret"),
    ] {
        let error = cluster.tip(remote, "main").await.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    assert!(!directory.join("called").exists(), "the keys of the machine were used");
    let up = Git::reaching(settings(&directory), Policy::machine(Hosts::default()), None);
    for remote in [&file, &path, &ssh] {
        assert!(up.tip(remote, "main").await.unwrap().is_some(), "{}", remote.url);
    }
    assert!(directory.join("called").exists(), "SSH was asked");
}
