//! A team with a repository, a Pipeline and workloads: the words in which promotions are told.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use jiff::SignedDuration;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kardinal_api::forge::{Desired, PullRequest};
use kardinal_api::kardinal::{Bundle, BundlePhase, PromotionState, PromotionStep};
use kardinal_git::Repositories as _;
use kardinal_simulator::{Environment, Simulator};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::story::Story;
use crate::world::World;

const KARDINAL: &str = "kardinal.io/v1alpha1";
const FORGE: &str = "forge.kardinal.io/v1alpha1";
/// Where the organisation keeps its gates.
pub const POLICIES: &str = "platform-policies";
/// The application of the specification's examples.
pub const APP: &str = "my-app";
/// Its image.
pub const IMAGE: &str = "ghcr.io/myorg/my-app";

/// A team in one world.
pub struct Shop<'a> {
    /// The words that are not about promotions.
    pub story: Story<'a>,
    /// The name of the repository.
    pub repository: String,
    workloads: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Shop<'_> {
    fn drop(&mut self) {
        if let Some(workloads) = &self.workloads {
            workloads.abort();
        }
    }
}

/// A manifest of the specification.
pub fn fixture(name: &str) -> anyhow::Result<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../pure/api/tests/fixtures/spec004");
    let text = std::fs::read_to_string(format!("{folder}/{name}")).with_context(|| name.to_owned())?;
    Ok(serde_saphyr::from_str(&text)?)
}

/// The kustomization of an environment.
pub fn kustomization(tag: &str) -> String {
    format!(
        "# Managed by the team; only the tag below is promoted.\nresources:\n  - ../../base\nimages:\n  - name: {IMAGE}\n    newTag: \"{tag}\" # promoted\n"
    )
}

impl<'a> Shop<'a> {
    /// Opens with a repository that has a directory for each environment, at version 1.28.0.
    pub async fn open(world: &'a World, environments: &[&str]) -> anyhow::Result<Shop<'a>> {
        let shop = Shop { story: Story::new(world), repository: "gitops".to_owned(), workloads: None };
        let mut files = vec![("base/kustomization.yaml".to_owned(), "resources: []\n".to_owned())];
        for environment in environments {
            files.push((format!("environments/{environment}/kustomization.yaml"), kustomization("1.28.0")));
        }
        shop.found(&shop.repository, &files).await?;
        let namespaces: Api<Namespace> = Api::all(world.client.clone());
        for name in environments.iter().copied().chain([POLICIES]) {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(name.to_owned());
            match namespaces.create(&PostParams::default(), &namespace).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                made => drop(made?),
            }
        }
        shop.clear(environments).await?;
        Ok(shop)
    }

    /// Takes away what a scenario that failed may have left on the same cluster.
    async fn clear(&self, environments: &[&str]) -> anyhow::Result<()> {
        self.close().await?;
        for environment in environments {
            let api: Api<Deployment> = Api::namespaced(self.story.world.client.clone(), environment);
            match api.delete(APP, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                gone => drop(gone?),
            }
        }
        Ok(())
    }

    /// Makes a repository of the local forge with these files.
    pub async fn found(&self, name: &str, files: &[(String, String)]) -> anyhow::Result<()> {
        let world = self.story.world;
        let manifest =
            json!({"apiVersion": FORGE, "kind": "Repository", "metadata": {"name": name}, "spec": {}});
        self.story.apply(&manifest).await?;
        let path = world.workshop.forge.store.create(&world.namespace, name, "main")?;
        push_first(&path, files)
    }

    /// The URL of a repository of the local forge.
    pub fn url(&self, repository: &str) -> String {
        self.story.world.workshop.remote(&self.story.world.namespace, repository).url
    }

    /// The Pipeline of a manifest, with the scenario's repository in place of the one it names.
    pub async fn pipeline(&self, mut manifest: Value) -> anyhow::Result<()> {
        let git = manifest.pointer_mut("/spec/git").context("a Pipeline has spec.git")?;
        *git = json!({"url": self.url(&self.repository), "branch": "main", "provider": "local"});
        self.story.apply(&manifest).await?;
        Ok(())
    }

    /// A gate of the organisation.
    pub async fn org_gate(
        &self,
        name: &str,
        environment: &str,
        expression: &str,
        recheck: &str,
    ) -> anyhow::Result<()> {
        self.org_manifest(&json!({
            "apiVersion": KARDINAL,
            "kind": "PolicyGate",
            "metadata": {"name": name, "labels": {
                "kardinal.io/scope": "org", "kardinal.io/applies-to": environment, "kardinal.io/type": "gate",
            }},
            "spec": {"expression": expression, "recheckInterval": recheck},
        }))
        .await
    }

    /// A manifest in the organisation's namespace, as it stands.
    pub async fn org_manifest(&self, manifest: &Value) -> anyhow::Result<()> {
        crate::apply(&self.story.world.client, POLICIES, manifest).await?;
        Ok(())
    }

    /// Takes the organisation's gates away again, so that the next scenario on the same cluster does not meet them.
    pub async fn close(&self) -> anyhow::Result<()> {
        let api: Api<kardinal_api::kardinal::PolicyGate> =
            Api::namespaced(self.story.world.client.clone(), POLICIES);
        api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        Ok(())
    }

    /// Lets workloads follow the repository from now on.
    pub fn run_workloads(&mut self, environments: &[&str]) {
        self.stop_workloads();
        self.workloads = Some(tokio::spawn(self.simulator(environments).run()));
    }

    /// Nothing is deployed any more. Days pass faster without anybody who looks at the repository all the time.
    pub fn stop_workloads(&mut self) {
        if let Some(workloads) = self.workloads.take() {
            workloads.abort();
        }
    }

    /// Makes a version run in an environment, whatever the repository says.
    pub async fn deploy(&self, environment: &str, version: &str) -> anyhow::Result<()> {
        self.simulator(&[]).deploy(environment, &format!("{IMAGE}:{version}")).await?;
        Ok(())
    }

    fn simulator(&self, environments: &[&str]) -> Simulator {
        let world = self.story.world;
        let environment =
            |name: &&str| Environment { path: format!("environments/{name}"), namespace: (*name).to_owned() };
        Simulator {
            client: world.client.clone(),
            repositories: world.workshop.git.clone(),
            remote: world.workshop.remote(&world.namespace, &self.repository),
            branch: "main".to_owned(),
            application: APP.to_owned(),
            environments: environments.iter().map(environment).collect(),
        }
    }

    /// Moves on to a time that is not near a weekend, if it is.
    pub async fn working_day(&self) {
        let now = self.story.world.now().to_zoned(TimeZone::UTC);
        if matches!(now.weekday(), Weekday::Friday | Weekday::Saturday | Weekday::Sunday) {
            self.story.world.advance(SignedDuration::from_hours(72)).await;
        }
    }

    /// Lets the second pass: what is made after it is newer than what was made before.
    pub async fn next_second(&self) -> anyhow::Result<()> {
        let world = self.story.world;
        let before = world.now().as_second();
        world
            .eventually("a second has passed", async || {
                Ok(if world.now().as_second() > before { Ok(()) } else { Err(before.to_string()) })
            })
            .await
    }

    /// A Bundle with this version of the application.
    pub async fn release(&self, name: &str, version: &str, extra: Value) -> anyhow::Result<()> {
        let mut bundle = json!({
            "apiVersion": KARDINAL,
            "kind": "Bundle",
            "metadata": {"name": name, "labels": {"kardinal.io/pipeline": APP}},
            "spec": {"artifacts": {"images": [{"name": APP, "reference": format!("{IMAGE}:{version}")}]}},
        });
        json_patch::merge(&mut bundle, &extra);
        self.story.apply(&bundle).await?;
        Ok(())
    }

    /// A Bundle as it is now.
    pub async fn bundle(&self, name: &str) -> anyhow::Result<Bundle> {
        let api: Api<Bundle> = Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        Ok(api.get(name).await?)
    }

    /// Waits until a Bundle is in this phase.
    pub async fn phase(&self, bundle: &str, phase: BundlePhase) -> anyhow::Result<Bundle> {
        let api: Api<Bundle> = Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        self.story
            .world
            .eventually(&format!("Bundle `{bundle}` is {phase:?}"), async || {
                let seen = api.get(bundle).await?;
                let status = seen.status.clone().unwrap_or_default();
                Ok(match status.phase == Some(phase) {
                    true => Ok(seen),
                    false => Err(serde_json::to_string(&status)?),
                })
            })
            .await
    }

    /// The step of a Bundle into an environment, as it is now.
    pub async fn find_step(&self, bundle: &str, environment: &str) -> anyhow::Result<Option<PromotionStep>> {
        let api: Api<PromotionStep> =
            Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        let all = api.list(&ListParams::default()).await?;
        Ok(all
            .items
            .into_iter()
            .find(|step| step.spec.bundle_ref == bundle && step.spec.environment == environment))
    }

    /// Waits until a step is in this state.
    pub async fn state(
        &self,
        bundle: &str,
        environment: &str,
        state: PromotionState,
    ) -> anyhow::Result<PromotionStep> {
        self.step(bundle, environment, &format!("is {state:?}"), |step| {
            step.status.as_ref().and_then(|status| status.state) == Some(state)
        })
        .await
    }

    /// Waits until a step looks right.
    pub async fn step(
        &self,
        bundle: &str,
        environment: &str,
        what: &str,
        right: impl Fn(&PromotionStep) -> bool,
    ) -> anyhow::Result<PromotionStep> {
        self.story
            .world
            .eventually(&format!("the step of `{bundle}` into `{environment}` {what}"), async || {
                Ok(match self.find_step(bundle, environment).await? {
                    Some(step) if right(&step) => Ok(step),
                    other => Err(format!("{:?}", other.and_then(|step| step.status))),
                })
            })
            .await
    }

    /// The pull requests of the repository.
    pub async fn pull_requests(&self) -> anyhow::Result<Vec<PullRequest>> {
        let api: Api<PullRequest> =
            Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// The branch that a step's pull request is opened from.
    pub fn branch(&self, bundle: &str, environment: &str) -> String {
        format!("kardinal/{}/{bundle}/{environment}", self.story.world.namespace)
    }

    /// The pull request of a step.
    pub async fn request(&self, bundle: &str, environment: &str) -> anyhow::Result<PullRequest> {
        let head = self.branch(bundle, environment);
        let mut all = self.pull_requests().await?.into_iter();
        all.find(|request| request.spec.head == head)
            .with_context(|| format!("no pull request from `{head}`"))
    }

    /// What was told about objects of the namespace with this reason.
    pub async fn events(&self, reason: &str) -> anyhow::Result<Vec<String>> {
        let api: Api<Event> = Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        let all = api.list(&ListParams::default()).await?.items.into_iter();
        Ok(all
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect())
    }

    /// Waits until something was told with this reason that contains this text.
    pub async fn told(&self, reason: &str, text: &str) -> anyhow::Result<()> {
        self.story
            .world
            .eventually(&format!("an Event {reason} says `{text}`"), async || {
                let all = self.events(reason).await?;
                Ok(if all.iter().any(|message| message.contains(text)) {
                    Ok(())
                } else {
                    Err(format!("{all:?}"))
                })
            })
            .await
    }

    /// Somebody presses the button for the pull request of a step.
    pub async fn merge(&self, bundle: &str, environment: &str, who: &str) -> anyhow::Result<()> {
        self.decide(bundle, environment, &json!({"spec": {"desired": Desired::Merged, "mergedBy": who}}))
            .await
    }

    /// Changes the pull request of a step as a person would.
    pub async fn decide(&self, bundle: &str, environment: &str, patch: &Value) -> anyhow::Result<()> {
        let name = self.request(bundle, environment).await?.metadata.name.context("it has a name")?;
        let api: Api<PullRequest> =
            Api::namespaced(self.story.world.client.clone(), &self.story.world.namespace);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// A file of the repository at the tip of `main`.
    pub async fn file(&self, path: &str) -> anyhow::Result<String> {
        self.file_on("main", path).await
    }

    /// A file of the repository at the tip of a branch.
    pub async fn file_on(&self, branch: &str, path: &str) -> anyhow::Result<String> {
        let world = self.story.world;
        let remote = world.workshop.remote(&world.namespace, &self.repository);
        let tip = world.workshop.git.tip(&remote, branch).await?.context("the branch exists")?;
        let content = world.workshop.git.read(&remote, &tip, path).await?.with_context(|| path.to_owned())?;
        Ok(String::from_utf8(content)?)
    }

    /// The newest commit on `main`.
    pub async fn tip(&self) -> anyhow::Result<String> {
        let world = self.story.world;
        let remote = world.workshop.remote(&world.namespace, &self.repository);
        world.workshop.git.tip(&remote, "main").await?.context("the branch exists")
    }

    /// The commit whose configuration the workload of an environment runs.
    pub async fn deployed_commit(&self, environment: &str) -> anyhow::Result<String> {
        let api: Api<Deployment> = Api::namespaced(self.story.world.client.clone(), environment);
        let template = api.get(APP).await?.spec.template;
        let annotations = template.metadata.and_then(|metadata| metadata.annotations).unwrap_or_default();
        annotations.get(kardinal_simulator::CONFIGURATION).cloned().context("the simulator wrote it")
    }

    /// The subjects of the commits on `main`, newest first, as real git tells them.
    pub fn log(&self) -> anyhow::Result<Vec<String>> {
        self.lines(&["log", "--format=%s", "main"])
    }

    /// The branches of the repository, as real git tells them.
    pub fn branches(&self) -> anyhow::Result<Vec<String>> {
        self.lines(&["for-each-ref", "--format=%(refname:short)", "refs/heads"])
    }

    fn lines(&self, arguments: &[&str]) -> anyhow::Result<Vec<String>> {
        let world = self.story.world;
        let path = world.workshop.forge.store.path(&world.namespace, &self.repository)?;
        Ok(git(&path, arguments)?.lines().map(str::to_owned).collect())
    }

    /// Somebody pushes a commit with real git; a branch that does not exist begins with nothing. `None` deletes a file.
    pub fn push(
        &self,
        repository: &str,
        branch: &str,
        message: &str,
        files: &[(&str, Option<&str>)],
    ) -> anyhow::Result<String> {
        let world = self.story.world;
        let bare = world.workshop.forge.store.path(&world.namespace, repository)?.display().to_string();
        let work = tempfile::tempdir()?;
        git(work.path(), &["clone", "--quiet", &bare, "."])?;
        if git(work.path(), &["checkout", "--quiet", branch]).is_err() {
            git(work.path(), &["checkout", "--quiet", "--orphan", branch])?;
            git(work.path(), &["rm", "-rfq", "."])?;
        }
        for (path, content) in files {
            let path = work.path().join(path);
            match content {
                Some(content) => write_file(&path, content)?,
                None => std::fs::remove_file(path)?,
            }
        }
        git(work.path(), &["add", "--all", "."])?;
        git(work.path(), &["commit", "--quiet", "-m", message])?;
        git(work.path(), &["push", "--quiet", &bare, branch])?;
        Ok(git(work.path(), &["rev-parse", "HEAD"])?.trim().to_owned())
    }

    /// Asks real git whether the repository is sound.
    pub fn fsck(&self) -> anyhow::Result<()> {
        let world = self.story.world;
        let path = world.workshop.forge.store.path(&world.namespace, &self.repository)?;
        git(&path, &["fsck", "--strict"]).map(drop)
    }
}

/// Runs real git in a folder, with nobody's settings but ours.
pub fn git(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(arguments);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", folder).env("GIT_TERMINAL_PROMPT", "0");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "a person")
            .env(format!("GIT_{who}_EMAIL"), "person@example.org");
        command.env(format!("GIT_{who}_DATE"), "2026-04-01T12:00:00Z");
    }
    let output = command.output().context("starting git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write_file(path: &Path, content: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    Ok(std::fs::write(path, content)?)
}

/// The first commit of a repository, pushed by real git.
pub fn push_first(bare: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    let work = tempfile::tempdir()?;
    git(work.path(), &["init", "--quiet", "--initial-branch=main"])?;
    for (path, content) in files {
        write_file(&work.path().join(path), content)?;
    }
    git(work.path(), &["add", "."])?;
    git(work.path(), &["commit", "--quiet", "-m", "the beginning"])?;
    let target = bare.display().to_string();
    git(work.path(), &["push", "--quiet", &target, "main"])?;
    Ok(())
}
