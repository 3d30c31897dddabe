//! SSH goes through the git program, with a script in place of `ssh`.

use std::path::PathBuf;

use kardinal_git::{Git, Outcome, Repositories as _, Settings};

use crate::bench::*;

const DIRECTORY: &str = "KARDINAL_TEST_DIRECTORY";

/// The environment belongs to the whole process, so the work is done in one of its own.
#[test]
fn repositories_behind_ssh() {
    let bench = Bench::new();
    let script = bench.dir.path().join("ssh");
    std::fs::write(
        &script,
        "#!/bin/sh\n[ \"$1\" = -G ] && exit 1\nfor last; do :; done\nexec sh -c \"$last\"\n",
    )
    .unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ssh::inside", "--ignored", "--nocapture"])
        .env(DIRECTORY, bench.dir.path())
        .env("GIT_SSH_COMMAND", script)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(bench.subjects("main"), ["Promote two", "by alice", "Promote one", "first"]);
    assert_eq!(bench.ask(&["show", "main:log"]), "one\ntwo");
    bench.fsck();
}

/// A script that stands in for `ssh` writes down how it is called: with the address that was judged, whatever the name
/// leads to by then.
#[test]
fn the_address_that_was_judged_is_the_one_that_is_connected_to() {
    let bench = Bench::new();
    let script = bench.dir.path().join("ssh");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}/called\nexit 1\n", bench.dir.path().display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bench.dir.path().display(), std::env::var("PATH").unwrap());
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ssh::inside_a_cluster", "--ignored", "--nocapture"])
        .env(DIRECTORY, bench.dir.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let settings = Settings {
        cache_dir: directory.join("cache"),
        max_bytes: 1 << 30,
        max_age: std::time::Duration::from_secs(3600),
        local: None,
        limits: kardinal_git::Limits::default(),
    };
    let policy = kardinal_reach::Policy::cluster(kardinal_reach::Hosts::default());
    let git = Git::reaching(settings, policy, Some(std::sync::Arc::new(OneAddress)));
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
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap());
    let settings = Settings {
        cache_dir: directory.join("cache"),
        max_bytes: 1 << 30,
        max_age: std::time::Duration::from_secs(3600),
        local: None,
        limits: kardinal_git::Limits::default(),
    };
    let git = Git::new(settings);
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
