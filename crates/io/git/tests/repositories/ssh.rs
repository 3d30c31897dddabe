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
