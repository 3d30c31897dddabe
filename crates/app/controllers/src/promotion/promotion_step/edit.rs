//! The edits of a promotion, applied to the files of one environment's directory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kardinal_git::{Budget, Change, ChangeError, EntryKind, FileChange, Remote, Tree, Write};
use kardinal_manifest::{helm, kustomize, replace, yaml};
use kardinal_promotion::edit::{self, Directory, Replacement};
use kardinal_promotion::promotion_step::{CommitOrder, Edit, ImageMove, MergeStrategy, image_moves};

use super::render::{Changed, Renderer};
use crate::forges::Trouble;
use crate::promotion::context::PromotionContext;

/// Edits that are carried out on whatever tip the branch has.
pub(super) struct Edits {
    context: Arc<PromotionContext>,
    namespace: String,
    remote: Remote,
    directory: Directory,
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
    directory: &'a Directory,
    changed: Changed,
}

impl Edits {
    pub(super) fn new(
        context: Arc<PromotionContext>,
        namespace: &str,
        remote: Remote,
        order: &CommitOrder,
    ) -> Edits {
        let (namespace, directory) = (namespace.to_owned(), Directory::new(&order.directory));
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
        let source = &source.map_err(|trouble| match trouble {
            Trouble::Problem { message, barrier } => kardinal_git::Error::Problem { message, barrier },
            Trouble::Fault(message) => kardinal_git::Error::fault(message),
        })?;
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
        let stop = |message: String| ChangeError::problem(message);
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
                        ChangeError::fault(message)
                    }
                })?;
                files.merge(changes, *strategy, source_path.as_deref()).map_err(stop)?;
            }
            Edit::KustomizeBuild { output, .. } => {
                let renderer =
                    Renderer { program: self.context.kustomize.as_deref(), reach: &self.context.reach };
                let rendered = renderer.render(files.tree, &files.changed, files.directory.path()).await?;
                let place = files.directory.place(output).map_err(stop)?;
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
                    self.found().failed_task = Some(edit.task());
                    return Err(error);
                }
            }
            Ok(files.changed.into_iter().map(|(path, content)| Write { path, content }).collect())
        }
        .boxed()
    }
}

impl Files<'_> {
    fn read(&self, place: &str) -> Result<Option<Vec<u8>>, String> {
        match self.changed.get(place) {
            Some(content) => Ok(content.clone()),
            None => self.tree.read(place).map_err(|error| error.to_string()),
        }
    }

    /// A text file of the environment.
    fn text(&self, file: &str) -> Result<(String, String), String> {
        let place = self.directory.place(file)?;
        let text = edit::text(&place, self.read(&place)?)?;
        Ok((place, text))
    }

    fn kustomization(&self) -> Result<(String, String), String> {
        for place in self.directory.kustomizations()? {
            if let Some(content) = self.read(&place)? {
                return edit::text(&place, Some(content)).map(|text| (place, text));
            }
        }
        Err(self.directory.no_kustomization())
    }

    fn write(&mut self, place: String, content: Vec<u8>) -> Result<(), String> {
        self.tree.budget().take(content.len() as u64).map_err(|error| error.message)?;
        self.changed.insert(place, Some(content));
        Ok(())
    }

    /// Replaces in every YAML file of the directory.
    fn replace_everywhere(&mut self, pattern: &str, with: &str) -> Result<(), String> {
        let mut replacement = Replacement::new(self.directory, pattern, with);
        for place in self.yaml_files()? {
            let Some(content) = self.read(&place)? else { continue };
            if let Some(after) = replacement.apply(&place, content) {
                self.write(place, after.into_bytes())?;
            }
        }
        replacement.finish()
    }

    fn yaml_files(&self) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        let mut folders = vec![self.directory.folder().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in self.tree.list(&folder).map_err(|error| error.to_string())? {
                match entry.kind {
                    EntryKind::Directory => folders.push(entry.path),
                    EntryKind::File | EntryKind::Executable if edit::is_yaml(&entry.path) => {
                        found.push(entry.path);
                    }
                    EntryKind::File | EntryKind::Executable | EntryKind::Symlink | EntryKind::Submodule => {}
                }
            }
        }
        // What an earlier task of the same change has added; what it has removed is found to be gone.
        let changed =
            self.changed.keys().filter(|place| self.directory.contains(place) && edit::is_yaml(place));
        found.extend(changed.cloned());
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
            let Some(place) = self.directory.place_of_source(&change.path, source)? else { continue };
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
