//! The workbench: repositories made by the git program, and orders to try on them.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use kardinal_git::{Author, Change, ChangeError, Credentials, Git, Order, Remote, Settings, Tree, Write};

const DIRECTORY: &str = "KARDINAL_TEST_DIRECTORY";

/// The folder of the bench that has started this process.
pub(crate) fn directory() -> PathBuf {
    PathBuf::from(std::env::var_os(DIRECTORY).unwrap())
}

/// What a test needs, with the caches in the folder.
pub(crate) fn settings(folder: &Path) -> Settings {
    Settings {
        cache_dir: folder.join("cache"),
        max_bytes: 1 << 30,
        max_age: Duration::from_secs(3600),
        local: None,
        limits: kardinal_git::Limits::default(),
    }
}

/// A directory with a bare repository `app.git` that has one commit on `main`.
pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let bench = Bench { dir: tempfile::tempdir().unwrap() };
        run(bench.dir.path(), &["init", "-q", "--bare", "-b", "main", "app.git"]);
        let work = bench.clone_as("first");
        write(&work, "env/prod/kustomization.yaml", b"images:\n- name: app\n  newTag: v1\n");
        write(&work, "README.md", b"hello\n");
        bench.push_all(&work, "first");
        bench
    }

    pub(crate) fn bare(&self) -> PathBuf {
        self.dir.path().join("app.git")
    }

    pub(crate) fn remote(&self) -> Remote {
        remote(&format!("file://{}", self.bare().display()))
    }

    pub(crate) fn git(&self) -> Git {
        Git::new(self.settings())
    }

    pub(crate) fn settings(&self) -> Settings {
        settings(self.dir.path())
    }

    /// Puts a shell script where it can be started as a program.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// Does one of the ignored tests in a process of its own, because the environment belongs to the whole process. It
    /// finds the folder of this bench by [`directory`].
    pub(crate) fn inside(&self, test: &str, environment: &[(&str, &OsStr)]) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(DIRECTORY, self.dir.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// A work tree of the real git program.
    pub(crate) fn clone_as(&self, name: &str) -> PathBuf {
        run(self.dir.path(), &["clone", "-q", "app.git", name]);
        self.dir.path().join(name)
    }

    /// Commits everything in a work tree and pushes it to `main`.
    pub(crate) fn push_all(&self, work: &Path, message: &str) {
        run(work, &["add", "-A"]);
        run(work, &["commit", "-q", "--allow-empty", "-m", message]);
        run(work, &["push", "-q", "origin", "HEAD:main"]);
    }

    /// What git prints about the bare repository.
    pub(crate) fn ask(&self, args: &[&str]) -> String {
        run(&self.bare(), args)
    }

    /// The subjects on a branch, newest first.
    pub(crate) fn subjects(&self, branch: &str) -> Vec<String> {
        self.ask(&["log", "--format=%s", branch]).lines().map(str::to_owned).collect()
    }

    pub(crate) fn fsck(&self) {
        run(&self.bare(), &["fsck", "--strict", "--no-dangling"]);
    }
}

pub(crate) fn remote(url: &str) -> Remote {
    Remote { url: url.to_owned(), credentials: Credentials::None, ca: None }
}

pub(crate) fn write(work: &Path, path: &str, content: &[u8]) {
    let path = work.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A git command that looks at nothing outside and is always the same person at the same time.
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    for (key, value) in [
        ("HOME", "/nonexistent"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_AUTHOR_NAME", "alice"),
        ("GIT_AUTHOR_EMAIL", "alice@example.com"),
        ("GIT_AUTHOR_DATE", "1700000000 +0000"),
        ("GIT_COMMITTER_NAME", "alice"),
        ("GIT_COMMITTER_EMAIL", "alice@example.com"),
        ("GIT_COMMITTER_DATE", "1700000000 +0000"),
    ] {
        command.env(key, value);
    }
    command
}

pub(crate) fn run(dir: &Path, args: &[&str]) -> String {
    let output = command(dir).args(args).output().unwrap();
    if !output.status.success() {
        panic!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A change that always writes the same files.
pub(crate) struct Fixed(pub(crate) Vec<Write>);

impl Change for Fixed {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// A change that appends a line to a file, so that what others wrote must survive.
pub(crate) struct Append(pub(crate) &'static str, pub(crate) String);

impl Change for Append {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async move {
            let before = tree.read(self.0).map_err(|error| failed(&error.to_string()))?;
            let mut content = before.unwrap_or_default();
            content.extend_from_slice(self.1.as_bytes());
            content.push(b'\n');
            Ok(vec![put(self.0, &content)])
        })
    }
}

/// A change that cannot be made.
pub(crate) struct Broken;

impl Change for Broken {
    fn apply<'a>(&'a self, _: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        Box::pin(async { Err(failed("no such image")) })
    }
}

pub(crate) fn failed(message: &str) -> ChangeError {
    ChangeError::problem(message)
}

pub(crate) fn put(path: &str, content: &[u8]) -> Write {
    Write { path: path.to_owned(), content: Some(content.to_vec()) }
}

pub(crate) fn author() -> Author {
    Author {
        name: "alice".into(),
        email: "alice@example.com".into(),
        time: jiff::Timestamp::from_second(1_700_000_000).unwrap(),
    }
}

/// An order on `main`.
pub(crate) fn order(name: &str, change: impl Change + 'static) -> Order {
    Order {
        base: "main".into(),
        branch: "main".into(),
        message: format!("Promote {name}"),
        author: author(),
        identity: format!("Kardinal-Step: {name}"),
        replaces: None,
        change: Arc::new(change),
    }
}

/// The same order on a branch of its own.
pub(crate) fn branched(name: &str, branch: &str, change: impl Change + 'static) -> Order {
    Order { branch: branch.into(), ..order(name, change) }
}

/// Feeds a git command; what it prints is an id.
pub(crate) fn feed(dir: &Path, args: &[&str], input: &[u8]) -> String {
    use std::io::Write as _;
    let mut child = command(dir)
        .args(args)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
