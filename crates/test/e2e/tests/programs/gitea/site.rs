//! A team whose repository is on a real Gitea: the words that are about it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, RwLock, RwLockReadGuard};

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::ByteString;
use kardinal_api::kardinal::{Bundle, EnvironmentStatus, PromotionState, PromotionStep};
use kardinal_git::{Credentials, Remote};
use kardinal_simulator::{Environment, Simulator};
use kardinal_testkit::gitea::Gitea;
use kardinal_testkit::shop::{APP, git, kustomization};
use kardinal_testkit::{Shop, World};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::listener;
use super::proxy::Proxy;

/// The API version of our kinds.
pub(crate) const KARDINAL: &str = "kardinal.io/v1alpha1";
/// The Secret with the token.
pub(crate) const SECRET: &str = "gitea-token";
/// The user as whom kardinal works.
pub(crate) const ROBOT: &str = "robot";

/// A Gitea that scenarios share; the one who stops it waits until nobody uses it.
pub(crate) type Shared = RwLock<Gitea>;

/// This process's Gitea, for scenarios that leave it running.
pub(crate) fn gitea() -> anyhow::Result<Option<&'static Shared>> {
    static GITEA: OnceLock<Result<Option<Shared>, String>> = OnceLock::new();
    match GITEA.get_or_init(|| own_gitea().map_err(|error| format!("{error:#}"))) {
        Ok(gitea) => Ok(gitea.as_ref()),
        Err(message) => bail!("Gitea did not start: {message}"),
    }
}

/// Another one, for a scenario that stops it.
pub(crate) fn own_gitea() -> anyhow::Result<Option<Shared>> {
    let Some(gitea) = Gitea::start()? else { return Ok(None) };
    for user in [ROBOT, "alice", "bob"] {
        gitea.create_user(user)?;
    }
    Ok(Some(RwLock::new(gitea)))
}

/// A team in one world.
pub(crate) struct Site<'a> {
    /// The words that are not about Gitea.
    pub(crate) shop: Shop<'a>,
    /// Where the repository is.
    pub(crate) shared: &'a Shared,
    /// The name of the repository.
    pub(crate) repository: String,
    /// Its URL, as the Pipeline names it.
    pub(crate) url: String,
    /// The token of the Secret.
    pub(crate) token: String,
    tokens: usize,
    workloads: Option<JoinHandle<()>>,
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        if let Some(workloads) = &self.workloads {
            workloads.abort();
        }
    }
}

/// Tells a story that begins with a repository which has a directory for each environment at version 1.28.0, a Secret
/// with a token, and a webhook that reaches the controllers.
pub(crate) async fn at_gitea(
    world: &World,
    shared: &Shared,
    environments: &[&str],
    proxy: Option<&Proxy>,
    story: impl AsyncFnOnce(&mut Site<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut site = Site::open(world, shared, environments, proxy).await?;
    let (hook, mut heard) = listener::listen().await?;
    site.gitea().add_webhook(&site.repository, &hook, listener::SECRET)?;
    let listen = async {
        while let Some((urls, pull_request)) = heard.recv().await {
            // Gitea knows nothing of the proxy.
            let seen = |url: String| match proxy {
                Some(proxy) => url.replace(&proxy.upstream, &proxy.url),
                None => url,
            };
            let urls: Vec<String> = urls.into_iter().map(seen).collect();
            world.repository_changed(&urls, pull_request).await;
        }
    };
    let told = tokio::select! {
        told = story(&mut site) => told,
        () = listen => bail!("the listener has ended"),
    };
    told?;
    site.fsck()?;
    site.shop.close().await
}

impl<'a> Site<'a> {
    async fn open(
        world: &'a World,
        shared: &'a Shared,
        environments: &[&str],
        proxy: Option<&Proxy>,
    ) -> anyhow::Result<Site<'a>> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let shop = Shop::open(world, environments).await?;
        let repository = format!("gitops-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let files: Vec<(String, String)> = environments
            .iter()
            .map(|name| (format!("environments/{name}/kustomization.yaml"), kustomization("1.28.0")))
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
        let mut site = Site {
            shop,
            shared,
            repository,
            url: String::new(),
            token: String::new(),
            tokens: 0,
            workloads: None,
        };
        let mut url = site.gitea().create_repository(&site.repository, &files)?;
        for user in [ROBOT, "alice", "bob"] {
            site.gitea().add_collaborator(&site.repository, user, "write")?;
        }
        if let Some(proxy) = proxy {
            url = url.replace(&proxy.upstream, &proxy.url);
        }
        site.url = url;
        site.renew_token().await?;
        Ok(site)
    }

    /// The Gitea. Not to be kept across an `await`.
    pub(crate) fn gitea(&self) -> RwLockReadGuard<'a, Gitea> {
        self.shared.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Ends Gitea as a crash would.
    pub(crate) fn stop(&self) {
        self.shared.write().unwrap_or_else(std::sync::PoisonError::into_inner).stop();
    }

    /// Starts Gitea again, on the same port with the same data.
    pub(crate) fn start_again(&self) -> anyhow::Result<()> {
        self.shared.write().unwrap_or_else(std::sync::PoisonError::into_inner).start_again()
    }

    fn token_name(&self) -> String {
        format!("{}-{}", self.repository, self.tokens)
    }

    /// Puts a new token into the Secret.
    pub(crate) async fn renew_token(&mut self) -> anyhow::Result<()> {
        self.tokens += 1;
        let scopes = ["write:repository", "write:issue"];
        self.token = self.gitea().create_token(ROBOT, &self.token_name(), &scopes)?;
        let token = ByteString(self.token.clone().into_bytes());
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": {"token": token},
        });
        self.shop.story.apply(&secret).await?;
        Ok(())
    }

    /// Makes the token worthless.
    pub(crate) fn revoke_token(&self) -> anyhow::Result<()> {
        self.gitea().delete_token(ROBOT, &self.token_name())
    }

    /// The Pipeline through these environments.
    pub(crate) async fn pipeline(&self, environments: Value) -> anyhow::Result<()> {
        let git = json!({
            "url": self.url, "branch": "main", "provider": "gitea", "secretRef": {"name": SECRET},
        });
        let pipeline = json!({
            "apiVersion": KARDINAL,
            "kind": "Pipeline",
            "metadata": {"name": APP},
            "spec": {"git": git, "environments": environments},
        });
        self.shop.story.apply(&pipeline).await?;
        Ok(())
    }

    /// Lets workloads follow the repository from now on.
    pub(crate) fn run_workloads(&mut self, environments: &[&str]) {
        let world = self.shop.story.world;
        let environment =
            |name: &&str| Environment { path: format!("environments/{name}"), namespace: (*name).to_owned() };
        let (url, token) = {
            let gitea = self.gitea();
            (format!("{}/{}/{}.git", gitea.url, gitea.admin, self.repository), gitea.token.clone())
        };
        let simulator = Simulator {
            client: world.client.clone(),
            repositories: world.workshop.git.clone(),
            remote: Remote { url, credentials: Credentials::Token(token.into()), ca: None },
            branch: "main".to_owned(),
            application: APP.to_owned(),
            environments: environments.iter().map(environment).collect(),
        };
        self.workloads = Some(tokio::spawn(simulator.run()));
    }

    /// `main` has this version for an environment, and the line keeps its comment.
    pub(crate) fn has_version(&self, environment: &str, version: &str) -> anyhow::Result<()> {
        let path = format!("environments/{environment}/kustomization.yaml");
        let file = self.gitea().file(&self.repository, "main", &path)?.unwrap_or_default();
        ensure!(
            file.contains(&format!("newTag: \"{version}\" # promoted")),
            "`{environment}` is not at {version}:\n{file}"
        );
        Ok(())
    }

    /// The pull requests of the repository in any state, newest first.
    pub(crate) fn pulls(&self) -> anyhow::Result<Vec<Value>> {
        let found = self.gitea().in_repository_json(&self.repository, "pulls?state=all")?;
        Ok(found.as_array().cloned().unwrap_or_default())
    }

    /// The one pull request of a Bundle into an environment.
    pub(crate) fn pull(&self, bundle: &str, environment: &str) -> anyhow::Result<Value> {
        let title = format!(" {bundle} to {environment}");
        let rollback = format!(" {environment} to {bundle}");
        let about = |pull: &&Value| {
            let said = pull["title"].as_str().unwrap_or_default();
            said.ends_with(&title) || said.contains(&rollback)
        };
        let all = self.pulls()?;
        let found: Vec<&Value> = all.iter().filter(about).collect();
        ensure!(found.len() == 1, "not one but {} pull requests of `{bundle}`", found.len());
        found.first().map(|pull| (*pull).clone()).context("it was counted")
    }

    /// Its number.
    pub(crate) fn number(&self, bundle: &str, environment: &str) -> anyhow::Result<u64> {
        self.pull(bundle, environment)?["number"].as_u64().context("a pull request has a number")
    }

    /// Waits for the pull request of a step, and lets alice merge it.
    pub(crate) async fn approve(&self, bundle: &str, environment: &str) -> anyhow::Result<()> {
        self.shop.state(bundle, environment, PromotionState::WaitingForMerge).await?;
        let number = self.number(bundle, environment)?;
        self.gitea().merge_as(&self.repository, number, "alice")
    }

    /// The branches of the repository.
    pub(crate) fn branches(&self) -> anyhow::Result<Vec<String>> {
        self.lines(&["for-each-ref", "--format=%(refname:short)", "refs/heads"])
    }

    /// Whether a commit has arrived on `main`.
    pub(crate) fn is_on_main(&self, commit: &str) -> bool {
        self.lines(&["merge-base", "--is-ancestor", commit, "main"]).is_ok()
    }

    /// The subjects of our commits on `main`, oldest first.
    pub(crate) fn promotions(&self) -> anyhow::Result<Vec<String>> {
        let all = self.lines(&["log", "--reverse", "--topo-order", "--format=%s", "main"])?;
        Ok(all.into_iter().filter(|subject| subject.starts_with("[kardinal]")).collect())
    }

    fn lines(&self, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        let folder = self.gitea().folder(&self.repository);
        Ok(git(&folder, arguments)?.lines().map(str::to_owned).collect())
    }

    /// Asks real git whether the repository is sound.
    fn fsck(&self) -> anyhow::Result<()> {
        let folder = self.gitea().folder(&self.repository);
        git(&folder, &["fsck", "--strict"]).map(drop)
    }

    /// Exactly these commits are on `main`, and exactly these pull requests were ever opened.
    pub(crate) fn only(&self, commits: &[&str], pulls: &[&str]) -> anyhow::Result<()> {
        let found = self.promotions()?;
        ensure!(found == commits, "{found:?}");
        let found = self.pulls()?;
        let titles: Vec<&str> = found.iter().filter_map(|pull| pull["title"].as_str()).collect();
        ensure!(titles == pulls, "{titles:?}");
        Ok(())
    }
}

/// What a step says.
pub(crate) fn message(step: &PromotionStep) -> String {
    step.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
}

/// What a Bundle has on record of an environment.
pub(crate) fn record(bundle: &Bundle, environment: &str) -> EnvironmentStatus {
    let environments = bundle.status.as_ref().map(|status| &status.environments);
    environments.and_then(|all| all.get(environment)).cloned().unwrap_or_default()
}
