//! The tasks of a promotion, and those that follow from strategy and approval.

use jiff::SignedDuration;
use kardinal_api::kardinal::{Approval, BundleType, PromotionStepSpec, UpdateStrategy};
use serde_json::{Map, Value};

use super::{MergeStrategy, SecretKey};

/// One task of a promotion.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, as `uses` has it.
    pub name: String,
    /// What it does.
    pub kind: TaskKind,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskKind {
    /// `git-clone`: read the repository.
    Clone,
    /// `kustomize-set-image`.
    KustomizeImages,
    /// `helm-set-image`, with the values file and the path of the tag; absent ones are those of `update.helm`.
    HelmImages {
        /// The values file.
        file: Option<String>,
        /// The path of the tag.
        path: Option<String>,
    },
    /// `replace-image`: the promoted images wherever plain YAML names them.
    ReplaceImages,
    /// `replace-text`.
    ReplaceText {
        /// The file; absent: every YAML file.
        file: Option<String>,
        /// The regular expression.
        pattern: String,
        /// What to put in its place.
        with: String,
    },
    /// `yaml-set`.
    YamlSet {
        /// The file.
        file: String,
        /// The dotted path.
        path: String,
        /// The value.
        value: Value,
    },
    /// `config-merge`.
    ConfigMerge {
        /// How.
        strategy: MergeStrategy,
        /// The directory to take from.
        source_path: Option<String>,
    },
    /// `kustomize-build`, with the file to write.
    KustomizeBuild {
        /// The file.
        output: String,
    },
    /// `git-commit`: make the commit.
    Commit,
    /// `git-push`: push it.
    Push,
    /// `open-pr`.
    OpenPullRequest,
    /// `wait-for-merge`.
    WaitForMerge,
    /// `health-check`.
    HealthCheck,
    /// Anything else: a webhook.
    Call(Call),
}

/// How a custom task is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Where to post to.
    pub url: String,
    /// How long to wait for the answer.
    pub timeout: SignedDuration,
    /// The Secret that proves who calls.
    pub secret: Option<SecretKey>,
    /// The header that carries it.
    pub header: String,
    /// The settings, which the request repeats.
    pub config: Map<String, Value>,
}

impl TaskKind {
    /// Whether the push carries it out: reading, editing and committing are one write.
    pub(super) fn is_gathered(&self) -> bool {
        self.is_edit() || matches!(self, TaskKind::Clone | TaskKind::Commit)
    }

    pub(super) fn is_edit(&self) -> bool {
        self.sets_images() || matches!(self, TaskKind::ConfigMerge { .. } | TaskKind::KustomizeBuild { .. })
    }

    pub(super) fn sets_images(&self) -> bool {
        matches!(
            self,
            TaskKind::KustomizeImages
                | TaskKind::HelmImages { .. }
                | TaskKind::ReplaceImages
                | TaskKind::ReplaceText { .. }
                | TaskKind::YamlSet { .. }
        )
    }
}

/// The tasks of a step that lists none.
pub(super) fn defaults(spec: &PromotionStepSpec, bundle: BundleType) -> Vec<Task> {
    let strategy = spec.update.as_ref().and_then(|update| update.strategy).unwrap_or_default();
    let set_images = match strategy {
        UpdateStrategy::Kustomize => ("kustomize-set-image", TaskKind::KustomizeImages),
        UpdateStrategy::Helm => ("helm-set-image", TaskKind::HelmImages { file: None, path: None }),
        UpdateStrategy::Replace => ("replace-image", TaskKind::ReplaceImages),
    };
    let merge =
        ("config-merge", TaskKind::ConfigMerge { strategy: MergeStrategy::CherryPick, source_path: None });
    let mut tasks = vec![("git-clone", TaskKind::Clone)];
    match bundle {
        BundleType::Image => tasks.push(set_images),
        BundleType::Config => tasks.push(merge),
        BundleType::Mixed => tasks.extend([merge, set_images]),
    }
    tasks.extend([("git-commit", TaskKind::Commit), ("git-push", TaskKind::Push)]);
    if reviewed(spec) || spec.pr == Some(true) {
        tasks.extend([("open-pr", TaskKind::OpenPullRequest), ("wait-for-merge", TaskKind::WaitForMerge)]);
    }
    tasks.push(("health-check", TaskKind::HealthCheck));
    tasks.into_iter().map(|(name, kind)| Task { name: name.to_owned(), kind }).collect()
}

/// Whether people let the change in.
pub(super) fn reviewed(spec: &PromotionStepSpec) -> bool {
    spec.approval.unwrap_or_default() == Approval::PrReview
}
