//! What stands in the way is told as data, and no name is taken for it.

use std::sync::atomic::Ordering;

use kardinal_git::{Credentials, Error, Git, Order, Repositories as _, Secret};
use kardinal_reach::{Hosts, Policy};
use kardinal_vcs::Barrier;

use crate::bench::*;
use crate::server::Server;

fn barrier<T: std::fmt::Debug>(case: &str, answer: Result<T, Error>) -> Barrier {
    match answer {
        Err(Error::Problem { barrier, .. }) => barrier,
        other => panic!("{case}: {other:?}"),
    }
}

#[tokio::test]
async fn an_answer_of_the_server_says_whether_we_are_let_in() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let token = server.remote_as(Credentials::Token(Secret::new("hunter2")));
    for (status, expected) in [
        (401, Barrier::NotLetIn),
        (403, Barrier::NotLetIn),
        (404, Barrier::NotLetIn),
        (400, Barrier::Other),
        (410, Barrier::Other),
        (413, Barrier::Other),
    ] {
        server.switches.status.store(status, Ordering::SeqCst);
        for remote in [&token, &server.remote()] {
            let case = format!("{status} {:?}", remote.credentials);
            assert_eq!(barrier(&case, bench.git().tip(remote, "main").await), expected, "{case}");
        }
    }
}

#[tokio::test]
async fn the_words_of_a_hook_say_whether_this_user_is_the_matter() {
    let bench = Bench::new();
    let server = Server::new(&bench).await;
    let hook = bench.bare().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    for (said, expected) in [
        ("Gitea: Not allowed to push to protected branch main", Barrier::NotLetIn),
        (
            "GitLab: You are not allowed to push code to protected branches on this project.",
            Barrier::NotLetIn,
        ),
        ("GH006: Protected branch update failed for refs/heads/main.", Barrier::Other),
        ("permissions/token-service.yaml is forbidden: it has a password", Barrier::Other),
    ] {
        std::fs::write(&hook, format!("#!/bin/sh\ncat > /dev/null\necho '{said}'\nexit 1\n")).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        // Both ways to push: ours, and the git program's.
        for old in [false, true] {
            server.switches.old.store(old, Ordering::SeqCst);
            let order = order("one", Append("log", "one".into()));
            let case = format!("{said}, old: {old}");
            assert_eq!(
                barrier(&case, bench.git().commit(&server.remote(), &order).await),
                expected,
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn the_git_program_says_so_too() {
    let bench = Bench::new();
    let server = Server::with_password(&bench, "Basic eC1hY2Nlc3MtdG9rZW46aHVudGVyMg==").await;
    let good = server.remote_as(Credentials::Token(Secret::new("hunter2")));
    server.switches.old.store(true, Ordering::SeqCst);
    let git = bench.git();
    git.tip(&good, "main").await.unwrap();
    let bad = server.remote_as(Credentials::Token(Secret::new("other")));
    for remote in [bad, server.remote()] {
        assert_eq!(barrier("the program", git.tip(&remote, "main").await), Barrier::NotLetIn);
    }
    server.switches.status.store(403, Ordering::SeqCst);
    assert_eq!(barrier("403", git.tip(&good, "main").await), Barrier::NotLetIn);
    server.switches.status.store(404, Ordering::SeqCst);
    assert_eq!(barrier("404", git.tip(&good, "main").await), Barrier::Other);
}

#[tokio::test]
async fn a_host_that_the_operator_does_not_permit_is_nobody_elses_matter() {
    let bench = Bench::new();
    let only = |hosts: &str| Policy::cluster(Hosts::parse(hosts).unwrap());
    for (hosts, url, expected) in [
        ("", "http://127.0.0.1/a.git", Barrier::HostNotAllowed),
        ("", "http://metadata.google.internal/a.git", Barrier::HostNotAllowed),
        ("github.com", "https://git.example/a.git", Barrier::HostNotAllowed),
        ("github.com", "git@git.example:a.git", Barrier::HostNotAllowed),
        ("", "https://git.example\\@evil.example/a.git", Barrier::Other),
        ("", "file:///srv/token.git", Barrier::Other),
        ("", "git@github.com:permission/token.git", Barrier::NotLetIn),
    ] {
        let git = Git::reaching(bench.settings(), only(hosts), Some(std::sync::Arc::new(Anywhere)));
        assert_eq!(barrier(url, git.tip(&remote(url), "main").await), expected, "{url}");
    }
}

/// Knows an address for every name.
struct Anywhere;

impl reqwest::dns::Resolve for Anywhere {
    fn resolve(&self, _: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let found = vec![std::net::SocketAddr::from(([10, 1, 2, 3], 0))].into_iter();
        Box::pin(async move { Ok(Box::new(found) as reqwest::dns::Addrs) })
    }
}

#[tokio::test]
async fn names_that_sound_like_a_refusal_are_none() {
    let bench = Bench::new();
    let (git, remote) = (bench.git(), bench.remote());
    let on = |branch: &str| Order { base: branch.into(), branch: branch.into(), ..order("x", Broken) };
    assert_eq!(barrier("branch", git.commit(&remote, &on("token-service")).await), Barrier::Other);
    let tip = git.tip(&remote, "main").await.unwrap().unwrap();
    for path in ["permissions/../credentials", "/forbidden", "not allowed/.git/x"] {
        assert_eq!(barrier(path, git.read(&remote, &tip, path).await), Barrier::Other, "{path}");
    }
}

#[test]
fn ssh_says_that_it_has_no_key_that_opens() {
    let bench = Bench::new();
    let said = "git@forge.example: Permission denied (publickey).";
    let script = bench.script("ssh", &format!("[ \"$1\" = -G ] && exit 1\necho '{said}' >&2\nexit 255\n"));
    bench.inside("barriers::inside", &[("GIT_SSH_COMMAND", script.as_os_str())]);
}

#[tokio::test]
#[ignore = "started by the test above"]
async fn inside() {
    let git = Git::new(settings(&directory()));
    let url = "git@forge.example:a/app.git";
    assert_eq!(barrier(url, git.tip(&remote(url), "main").await), Barrier::NotLetIn);
}
