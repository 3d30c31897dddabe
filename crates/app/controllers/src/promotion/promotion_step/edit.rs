//! The edits of a promotion, applied to the files of one environment's directory.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kardinal_git::{Budget, Change, ChangeError, EntryKind, FileChange, Remote, Tree, Write};
use kardinal_manifest::{helm, kustomize, replace, yaml};
use kardinal_promotion::promotion_step::{CommitOrder, Edit, ImageMove, MergeStrategy, image_moves};

use super::render::{Changed, Renderer};
use crate::Context;
use crate::forges::Trouble;

/// Edits that are carried out on whatever tip the branch has.
pub(super) struct Edits {
    context: Arc<Context>,
    namespace: String,
    remote: Remote,
    directory: String,
    edits: Vec<Edit>,
    found: Mutex<Found>,
}

/// What the last attempt brought to light.
#[derive(Default)]
struct Found {
    moves: Vec<ImageMove>,
    source: Option<String>,
    failed_task: Option<usize>,
    trouble: Option<kardinal_git::Error>,
}

/// The environment's files while they are edited: what was read and what has become of it.
struct Files<'a> {
    tree: &'a dyn Tree,
    directory: &'a str,
    changed: Changed,
}

impl Edits {
    pub(super) fn new(context: Arc<Context>, namespace: &str, remote: Remote, order: &CommitOrder) -> Edits {
        let (namespace, directory) = (namespace.to_owned(), order.directory.trim_matches('/').to_owned());
        Edits { context, namespace, remote, directory, edits: order.edits.clone(), found: Mutex::default() }
    }

    /// From which version to which each image went.
    pub(super) fn moves(&self) -> Vec<ImageMove> {
        self.found().moves.clone()
    }

    /// The commit that was brought in, by its whole id.
    pub(super) fn source(&self) -> Option<String> {
        self.found().source.clone()
    }

    /// The task whose edit failed.
    pub(super) fn failed_task(&self) -> Option<usize> {
        self.found().failed_task
    }

    /// What went wrong with a repository that an edit reads from.
    pub(super) fn trouble(&self) -> Option<kardinal_git::Error> {
        self.found().trouble.clone()
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a commit changes; both commits may be named by the beginning of their ids.
    async fn changes(
        &self,
        repository: &str,
        from: Option<&str>,
        to: &str,
        budget: &Budget,
    ) -> Result<Vec<FileChange>, kardinal_git::Error> {
        let source = self.context.source(&self.namespace, &self.remote, repository);
        let source = &source
            .map_err(|(Trouble::Problem(why) | Trouble::Fault(why))| kardinal_git::Error::problem(why))?;
        let repositories = &self.context.repositories;
        let to = repositories.resolve(source, to).await?;
        let from = match from {
            Some(from) => Some(repositories.resolve(source, from).await?),
            None => None,
        };
        let changes = repositories.diff(source, from.as_deref(), &to, budget).await;
        self.found().source = Some(to);
        changes
    }

    async fn edit(&self, files: &mut Files<'_>, edit: &Edit) -> Result<(), ChangeError> {
        let stop = |message: String| ChangeError { message, may_pass: false };
        match edit {
            Edit::KustomizeImages { images, .. } => {
                let (path, text) = files.kustomization().map_err(stop)?;
                let before = kustomize::images(&path, &text).map_err(|error| stop(error.to_string()))?;
                let after =
                    kustomize::set_images(&path, &text, images).map_err(|error| stop(error.to_string()))?;
                let moves = image_moves(&before, images);
                self.found().moves.extend(moves);
                files.write(path, after.into_bytes()).map_err(stop)?;
            }
            Edit::HelmImages { file, path, images, .. } => {
                let (place, text) = files.text(file).map_err(stop)?;
                let after =
                    helm::set_images(&place, &text, path, images).map_err(|error| stop(error.to_string()))?;
                files.write(place, after.into_bytes()).map_err(stop)?;
            }
            Edit::ReplaceText { file: Some(file), pattern, with, .. } => {
                let (place, text) = files.text(file).map_err(stop)?;
                let after = replace::replace(&place, &text, pattern, with)
                    .map_err(|error| stop(error.to_string()))?;
                files.write(place, after.into_bytes()).map_err(stop)?;
            }
            Edit::ReplaceText { file: None, pattern, with, .. } => {
                files.replace_everywhere(pattern, with).map_err(stop)?;
            }
            Edit::YamlSet { file, path, value, .. } => {
                let (place, text) = files.text(file).map_err(stop)?;
                let after = yaml::set(&place, &text, path, value).map_err(|error| stop(error.to_string()))?;
                files.write(place, after.into_bytes()).map_err(stop)?;
            }
            Edit::ConfigMerge { repository, sha, instead_of, strategy, source_path, .. } => {
                let changes = self.changes(repository, instead_of.as_deref(), sha, files.tree.budget()).await;
                let changes = changes.map_err(|error| match error {
                    // However often it is tried: the Bundle says something that is not there.
                    kardinal_git::Error::NoCommit(message) => stop(format!(
                        "`spec.artifacts.gitCommit.sha` of the Bundle cannot be used: {message}"
                    )),
                    kardinal_git::Error::Change(error) => stop(error.message),
                    error => {
                        let message = error.to_string();
                        self.found().trouble = Some(error);
                        ChangeError { message, may_pass: true }
                    }
                })?;
                files.merge(changes, *strategy, source_path.as_deref()).map_err(stop)?;
            }
            Edit::KustomizeBuild { output, .. } => {
                let renderer =
                    Renderer { program: self.context.kustomize.as_deref(), reach: &self.context.reach };
                let rendered = renderer.render(files.tree, &files.changed, files.directory).await?;
                let place = files.place(output).map_err(stop)?;
                files.write(place, rendered).map_err(stop)?;
            }
        }
        Ok(())
    }
}

impl Change for Edits {
    fn apply<'a>(&'a self, tree: &'a dyn Tree) -> BoxFuture<'a, Result<Vec<Write>, ChangeError>> {
        async move {
            *self.found() = Found::default();
            let mut files = Files { tree, directory: &self.directory, changed: Changed::new() };
            for edit in &self.edits {
                if let Err(error) = self.edit(&mut files, edit).await {
                    self.found().failed_task = Some(task_of(edit));
                    return Err(error);
                }
            }
            Ok(files.changed.into_iter().map(|(path, content)| Write { path, content }).collect())
        }
        .boxed()
    }
}

fn task_of(edit: &Edit) -> usize {
    match edit {
        Edit::KustomizeImages { task, .. }
        | Edit::HelmImages { task, .. }
        | Edit::ReplaceText { task, .. }
        | Edit::YamlSet { task, .. }
        | Edit::ConfigMerge { task, .. }
        | Edit::KustomizeBuild { task, .. } => *task,
    }
}

impl Files<'_> {
    /// The path of a file in the environment's directory, which it may not leave.
    fn place(&self, file: &str) -> Result<String, String> {
        let leaves =
            Path::new(file).components().any(|part| !matches!(part, std::path::Component::Normal(_)));
        if file.is_empty() || leaves {
            return Err(format!(
                "`{file}` is not a path below the environment's directory `{}`",
                self.directory
            ));
        }
        Ok(match self.directory {
            "" | "." => file.to_owned(),
            directory => format!("{directory}/{file}"),
        })
    }

    fn read(&self, place: &str) -> Result<Option<Vec<u8>>, String> {
        match self.changed.get(place) {
            Some(content) => Ok(content.clone()),
            None => self.tree.read(place).map_err(|error| error.to_string()),
        }
    }

    /// A text file of the environment.
    fn text(&self, file: &str) -> Result<(String, String), String> {
        let place = self.place(file)?;
        match self.read(&place)? {
            Some(content) => utf8(&place, content).map(|text| (place, text)),
            None => Err(format!("`{place}` is not in the repository: check the environment's `path`")),
        }
    }

    fn kustomization(&self) -> Result<(String, String), String> {
        for file in kustomize::FILES {
            let place = self.place(file)?;
            if let Some(content) = self.read(&place)? {
                return utf8(&place, content).map(|text| (place, text));
            }
        }
        Err(format!(
            "`{}` has no kustomization.yaml: check the environment's `path`, or choose another `update.strategy`",
            self.directory
        ))
    }

    fn write(&mut self, place: String, content: Vec<u8>) -> Result<(), String> {
        self.tree.budget().take(content.len() as u64).map_err(|error| error.message)?;
        self.changed.insert(place, Some(content));
        Ok(())
    }

    /// Replaces in every YAML file of the directory; at least one must match.
    fn replace_everywhere(&mut self, pattern: &str, with: &str) -> Result<(), String> {
        let mut last = format!("`{}` has no YAML file", self.directory);
        let mut matched = false;
        for place in self.yaml_files()? {
            let Some(content) = self.read(&place)? else { continue };
            let Ok(text) = String::from_utf8(content) else { continue };
            match replace::replace(&place, &text, pattern, with) {
                Ok(after) => {
                    matched = true;
                    self.write(place, after.into_bytes())?;
                }
                Err(error) => last = error.to_string(),
            }
        }
        if matched { Ok(()) } else { Err(last) }
    }

    fn yaml_files(&self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut folders = vec![if self.directory == "." { "" } else { self.directory }.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in self.tree.list(&folder).map_err(|error| error.to_string())? {
                match entry.kind {
                    EntryKind::Directory => folders.push(entry.path),
                    EntryKind::File | EntryKind::Executable
                        if entry.path.ends_with(".yaml") || entry.path.ends_with(".yml") =>
                    {
                        found.push(entry.path);
                    }
                    _ => {}
                }
            }
        }
        // What an earlier task of the same change has added; what it has removed is found to be gone.
        let inside = |place: &str| match self.directory {
            "" | "." => true,
            directory => place.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')),
        };
        let yaml = |place: &str| place.ends_with(".yaml") || place.ends_with(".yml");
        found.extend(self.changed.keys().filter(|place| inside(place) && yaml(place)).cloned());
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Brings a commit of another repository into the directory.
    fn merge(
        &mut self,
        changes: Vec<FileChange>,
        how: MergeStrategy,
        source: Option<&str>,
    ) -> Result<(), String> {
        for change in changes {
            let file = match source.map(|source| source.trim_matches('/')) {
                None | Some("") => Some(change.path.as_str()),
                Some(source) => change.path.strip_prefix(source).and_then(|rest| rest.strip_prefix('/')),
            };
            let Some(file) = file else { continue };
            let place = self.place(file)?;
            let merged = match how {
                MergeStrategy::Overlay => change.after,
                MergeStrategy::CherryPick => {
                    let ours = self.read(&place)?;
                    kardinal_git::graft(&place, &change, ours.as_deref())?
                }
            };
            match merged {
                Some(content) => self.write(place, content)?,
                None => drop(self.changed.insert(place, None)),
            }
        }
        Ok(())
    }
}

fn utf8(place: &str, content: Vec<u8>) -> Result<String, String> {
    String::from_utf8(content).map_err(|_| format!("`{place}` is not UTF-8 text"))
}
