//! The world outside the cluster for scenarios: a local forge in a temporary folder, reached without a socket.

pub mod workloads;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kardinal_controllers::{LocalForge, Metrics, Outside, RealForges};
use kardinal_git::{Committed, Credentials, Git, Order, Remote, Repositories};
use kardinal_reach::{Hosts, Policy};

use crate::requests::{Fate, Kind, Requests};

/// What the URLs of the scenario's forge begin with. Nothing listens there: the files are reached directly.
pub const FORGE_URL: &str = "http://forge.test/git/";

/// A folder with the repositories of the local forge, and the git that reaches them.
pub struct Workshop {
    /// The forge.
    pub forge: LocalForge,
    /// The way to its repositories, and to those of any other forge.
    pub git: Arc<Git>,
    reach: Mutex<Policy>,
    kustomize: Mutex<Option<PathBuf>>,
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
            limits: kardinal_git::Limits::default(),
        });
        let store = Arc::new(kardinal_forge::Store::new(root));
        let forge = LocalForge { store, url: FORGE_URL.to_owned() };
        let reach = Mutex::new(Policy::machine(Hosts::default()));
        Ok(Workshop { forge, git: Arc::new(git), reach, kustomize: Mutex::default(), _folder: folder })
    }

    /// The next controllers call only tasks that this policy allows.
    pub fn reach_only(&self, policy: Policy) {
        *self.reach.lock().unwrap_or_else(PoisonError::into_inner) = policy;
    }

    /// The next controllers have this program for `kustomize-build`.
    pub fn render_with(&self, program: PathBuf) {
        *self.kustomize.lock().unwrap_or_else(PoisonError::into_inner) = Some(program);
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
            kustomize: self.kustomize.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            http: reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?,
            reach: self.reach.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            metrics: Arc::new(Metrics::default()),
            workloads: None,
        })
    }
}

/// A repository that real git has made once, to be copied wherever a scenario needs one like it.
pub struct Seedling {
    folder: tempfile::TempDir,
}

impl Seedling {
    /// One with a single commit on `main`.
    pub fn of(files: &[(String, String)]) -> anyhow::Result<Seedling> {
        let folder = tempfile::tempdir()?;
        crate::shop::git(folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main"])?;
        crate::shop::push_first(folder.path(), files)?;
        Ok(Seedling { folder })
    }

    /// Makes a repository of the local forge out of it.
    pub fn plant(&self, workshop: &Workshop, namespace: &str, repository: &str) -> anyhow::Result<()> {
        let target = workshop.forge.store.create(namespace, repository, "main")?;
        for part in ["objects", "refs"] {
            copy(&self.folder.path().join(part), &target.join(part))?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Git with somebody listening at the door.
struct Overheard {
    git: Arc<Git>,
    requests: Requests,
}

impl Overheard {
    async fn hear<T>(
        &self,
        kind: Kind,
        what: String,
        action: kardinal_git::Future<'_, T>,
    ) -> Result<T, kardinal_git::Error> {
        let lost = |why: &str| Err(kardinal_git::Error::fault(why));
        match self.requests.hear(kind, what) {
            Fate::Pass | Fate::Cut { .. } => action.await,
            Fate::PassUnheard => {
                // It was done, and nobody hears of it.
                let _ = action.await;
                lost("the answer was lost")
            }
            Fate::Lost => lost("the connection was lost"),
            Fate::Silent => std::future::pending().await,
            Fate::Answered(code) => lost(&format!("the server answered {code}")),
        }
    }
}

impl Repositories for Overheard {
    fn tip<'a>(&'a self, remote: &'a Remote, branch: &'a str) -> kardinal_git::Future<'a, Option<String>> {
        Box::pin(self.hear(Kind::Read, format!("GIT tip {branch}"), self.git.tip(remote, branch)))
    }

    fn read<'a>(
        &'a self,
        remote: &'a Remote,
        commit: &'a str,
        path: &'a str,
    ) -> kardinal_git::Future<'a, Option<Vec<u8>>> {
        Box::pin(self.hear(Kind::Read, format!("GIT read {path}"), self.git.read(remote, commit, path)))
    }

    fn commit<'a>(&'a self, remote: &'a Remote, order: &'a Order) -> kardinal_git::Future<'a, Committed> {
        Box::pin(self.hear(Kind::Write, commit_line(order), self.git.commit(remote, order)))
    }

    fn delete_branch<'a>(
        &'a self,
        remote: &'a Remote,
        branch: &'a str,
        expected: &'a str,
    ) -> kardinal_git::Future<'a, ()> {
        let action = self.git.delete_branch(remote, branch, expected);
        Box::pin(self.hear(Kind::Write, format!("GIT delete {branch}"), action))
    }

    fn contains<'a>(
        &'a self,
        remote: &'a Remote,
        descendant: &'a str,
        ancestor: &'a str,
    ) -> kardinal_git::Future<'a, bool> {
        let action = self.git.contains(remote, descendant, ancestor);
        Box::pin(self.hear(Kind::Read, format!("GIT contains {ancestor}"), action))
    }

    fn resolve<'a>(&'a self, remote: &'a Remote, id: &'a str) -> kardinal_git::Future<'a, String> {
        Box::pin(self.hear(Kind::Read, format!("GIT resolve {id}"), self.git.resolve(remote, id)))
    }

    fn diff<'a>(
        &'a self,
        remote: &'a Remote,
        from: Option<&'a str>,
        to: &'a str,
        budget: &'a kardinal_git::Budget,
    ) -> kardinal_git::Future<'a, Vec<kardinal_git::FileChange>> {
        Box::pin(self.hear(Kind::Read, format!("GIT diff {to}"), self.git.diff(remote, from, to, budget)))
    }
}

/// Where a commit goes, and what it calls itself.
fn commit_line(order: &Order) -> String {
    format!("GIT commit {}: {}", order.branch, order.message.lines().next().unwrap_or_default())
}
