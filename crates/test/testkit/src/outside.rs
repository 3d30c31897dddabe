//! The world outside the cluster for scenarios: a local forge in a temporary folder, reached without a socket.

use std::sync::Arc;

use kardinal_controllers::{LocalForge, Metrics, Outside, RealForges};
use kardinal_git::{Committed, Credentials, Git, Order, Remote, Repositories};

use crate::requests::{Fate, Requests};

/// What the URLs of the scenario's forge begin with. Nothing listens there: the files are reached directly.
pub const FORGE_URL: &str = "http://forge.test/git/";

/// A folder with the repositories of the local forge, and the git that reaches them.
pub struct Workshop {
    /// The forge.
    pub forge: LocalForge,
    /// The way to its repositories, and to those of any other forge.
    pub git: Arc<Git>,
    _folder: tempfile::TempDir,
}

impl Workshop {
    /// An empty one.
    pub fn new() -> anyhow::Result<Workshop> {
        let folder = tempfile::tempdir()?;
        let root = folder.path().join("repositories");
        let git = Git::new(kardinal_git::Settings {
            cache_dir: folder.path().join("cache"),
            local: Some(kardinal_git::Local { prefix: FORGE_URL.to_owned(), root: root.clone() }),
            max_bytes: 1024 * 1024 * 1024,
            max_age: std::time::Duration::from_secs(3600),
        });
        let store = Arc::new(kardinal_forge::Store::new(root));
        let forge = LocalForge { store, url: FORGE_URL.to_owned() };
        Ok(Workshop { forge, git: Arc::new(git), _folder: folder })
    }

    /// A repository of the local forge.
    pub fn remote(&self, namespace: &str, repository: &str) -> Remote {
        let url = format!("{FORGE_URL}{namespace}/{repository}.git");
        Remote { url, credentials: Credentials::None, ca: None }
    }

    /// What the controllers are given. Git's writes are heard together with those of the client.
    pub fn outside(&self, client: kube::Client, requests: &Requests) -> anyhow::Result<Outside> {
        // A second installation is no news.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = kardinal_scm::Http::new(kardinal_scm::Settings::default(), None);
        Ok(Outside {
            repositories: Arc::new(Overheard { git: self.git.clone(), requests: requests.clone() }),
            forges: Arc::new(RealForges { http, client }),
            forge: Some(self.forge.clone()),
            kustomize: None,
            http: reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?,
            metrics: Arc::new(Metrics::default()),
        })
    }
}

/// Git with somebody listening at the door.
struct Overheard {
    git: Arc<Git>,
    requests: Requests,
}

impl Overheard {
    async fn write<T>(
        &self,
        what: String,
        deed: kardinal_git::Future<'_, T>,
    ) -> Result<T, kardinal_git::Error> {
        let lost = || Err(kardinal_git::Error::fault("the process has died"));
        match self.requests.hear_write(what) {
            Fate::Pass => deed.await,
            Fate::PassUnheard => {
                // It was done, and nobody hears of it.
                let _ = deed.await;
                lost()
            }
            Fate::Lost => lost(),
        }
    }
}

impl Repositories for Overheard {
    fn tip<'a>(&'a self, remote: &'a Remote, branch: &'a str) -> kardinal_git::Future<'a, Option<String>> {
        self.git.tip(remote, branch)
    }

    fn read<'a>(
        &'a self,
        remote: &'a Remote,
        commit: &'a str,
        path: &'a str,
    ) -> kardinal_git::Future<'a, Option<Vec<u8>>> {
        self.git.read(remote, commit, path)
    }

    fn commit<'a>(&'a self, remote: &'a Remote, order: &'a Order) -> kardinal_git::Future<'a, Committed> {
        Box::pin(self.write(format!("GIT commit {}", order.branch), self.git.commit(remote, order)))
    }

    fn delete_branch<'a>(
        &'a self,
        remote: &'a Remote,
        branch: &'a str,
        expected: &'a str,
    ) -> kardinal_git::Future<'a, ()> {
        Box::pin(self.write(format!("GIT delete {branch}"), self.git.delete_branch(remote, branch, expected)))
    }

    fn contains<'a>(
        &'a self,
        remote: &'a Remote,
        descendant: &'a str,
        ancestor: &'a str,
    ) -> kardinal_git::Future<'a, bool> {
        self.git.contains(remote, descendant, ancestor)
    }

    fn diff_of<'a>(
        &'a self,
        remote: &'a Remote,
        commit: &'a str,
    ) -> kardinal_git::Future<'a, Vec<kardinal_git::FileChange>> {
        self.git.diff_of(remote, commit)
    }
}
