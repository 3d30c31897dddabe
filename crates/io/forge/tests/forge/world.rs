//! A forge on a loopback port, and a git client with nothing of this machine's settings.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};

use kardinal_forge::{Credentials, Guard, Identity, RefChange, Settings, Store, router_with, same_secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// Two tokens: one for people, one for kardinal itself.
pub(crate) const PERSON: &str = "person-token";
pub(crate) const KARDINAL: &str = "kardinal-token";

#[derive(Default)]
pub(crate) struct Owner {
    pub(crate) pushes: Mutex<Vec<RefChange>>,
}

impl Guard for Owner {
    fn authenticate(&self, _: &str, _: &str, credentials: &Credentials) -> Option<Identity> {
        [("alice", PERSON, false), ("kardinal", KARDINAL, true)]
            .into_iter()
            .find(|(_, token, _)| same_secret(token, &credentials.secret))
            .map(|(name, _, trusted)| Identity { name: name.to_owned(), trusted })
    }

    fn protected(&self, _: &str, _: &str, branch: &str) -> bool {
        branch == "main" || branch.starts_with("env/")
    }

    fn pushed(&self, _: &str, _: &str, refs: &[RefChange]) {
        self.pushes.lock().unwrap().extend_from_slice(refs);
    }
}

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Arc<Store>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) address: std::net::SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::new(folder.path().join("repositories")));
        store.create("default", "app", "main").unwrap();
        let owner = Arc::new(Owner::default());
        let routes = router_with(store.clone(), owner.clone(), settings);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        World { folder, store, owner, address, server }
    }

    pub(crate) fn url(&self, token: &str) -> String {
        format!("http://x:{token}@{}/git/default/app.git", self.address)
    }

    pub(crate) fn dir(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn bare(&self) -> PathBuf {
        self.store.path("default", "app").unwrap()
    }

    /// A work tree with one commit on `main`, pushed by kardinal.
    pub(crate) async fn seeded(&self) -> PathBuf {
        let work = self.dir("seed");
        good(self.folder.path(), &["init", "-q", "-b", "main", "seed"]).await;
        commit(&work, &[("README.md", "one\ntwo\nthree\n"), ("env/dev.yaml", "tag: 1\n")], "first").await;
        good(&work, &["push", "-q", &self.url(KARDINAL), "main"]).await;
        work
    }

    /// Sends raw bytes and gives everything that comes back until the server closes.
    pub(crate) async fn raw(&self, request: &[u8]) -> String {
        self.talk(request, false).await
    }

    /// The same, by a client that stops in the middle.
    pub(crate) async fn broken(&self, request: &[u8]) -> String {
        self.talk(request, true).await
    }

    async fn talk(&self, request: &[u8], hang_up: bool) -> String {
        let mut socket = tokio::net::TcpStream::connect(self.address).await.unwrap();
        // A server that has heard enough may close while we still talk.
        let _ = socket.write_all(request).await;
        if hang_up {
            let _ = socket.shutdown().await;
        }
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Runs git without any settings of the user or the machine.
pub(crate) async fn git(dir: &Path, args: &[&str]) -> Output {
    git_with(dir, args, &[]).await
}

pub(crate) async fn git_with(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new("git")
        .current_dir(dir)
        .args(["-c", "core.fsync=none"])
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "alice")
        .env("GIT_AUTHOR_EMAIL", "alice@localhost")
        .env("GIT_COMMITTER_NAME", "alice")
        .env("GIT_COMMITTER_EMAIL", "alice@localhost")
        .env("LC_ALL", "C")
        .envs(env.iter().copied())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// Runs git, insists that it succeeds, and gives what it prints.
pub(crate) async fn good(dir: &Path, args: &[&str]) -> String {
    let output = git(dir, args).await;
    assert!(output.status.success(), "git {args:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub(crate) async fn commit(work: &Path, files: &[(&str, &str)], message: &str) -> String {
    for (path, content) in files {
        let file = work.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
    }
    good(work, &["add", "-A"]).await;
    good(work, &["commit", "-q", "-m", message]).await;
    good(work, &["rev-parse", "HEAD"]).await
}
