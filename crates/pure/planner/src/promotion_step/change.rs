//! The change itself: which branch, which edits, which message. The same step always orders the same change.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, GitCommit, GitLayout, PromotionStep};
use kardinal_manifest::{Image, helm};
use serde_json::Value;

use super::tasks::{Problem, Task, TaskKind, opens_pull_request};
use super::{CommitOrder, Edit, Effect, STATUS_CONTEXT, Snapshot};

/// The line by which a commit is known as the step's own.
pub(super) fn identity(step: &PromotionStep) -> String {
    format!("Kardinal-Step: {}", step.metadata.uid.as_deref().unwrap_or_default())
}

/// The line by which a pull request is known as the step's own.
pub(super) fn marker(step: &PromotionStep) -> String {
    format!("<!-- kardinal-step: {} -->", step.metadata.uid.as_deref().unwrap_or_default())
}

/// The branch that the environment is read from: the base branch, or the environment's own.
pub(super) fn base_branch(step: &PromotionStep) -> String {
    let git = step.spec.git.as_ref();
    match git.and_then(|git| git.layout) {
        Some(GitLayout::Branch) => format!("env/{}", step.spec.environment),
        _ => git.and_then(|git| git.branch.clone()).unwrap_or_else(|| "main".to_owned()),
    }
}

/// The branch of the pull request. Several namespaces may promote into one repository, each its own Bundles.
pub fn promotion_branch(namespace: &str, bundle: &str, environment: &str) -> String {
    format!("kardinal/{namespace}/{bundle}/{environment}")
}

/// The branch of the pull request of a step.
pub(super) fn branch_of(step: &PromotionStep) -> String {
    let namespace = step.metadata.namespace.as_deref().unwrap_or_default();
    promotion_branch(namespace, &step.spec.bundle_ref, &step.spec.environment)
}

/// The context of the commit status. A status belongs to a commit, and the same commit can be asked to go into several
/// branches, so the context names the branch that the gates were asked about.
pub(super) fn status_context(step: &PromotionStep) -> String {
    cut(&format!("{STATUS_CONTEXT}/{}", base_branch(step)), CONTEXT_LIMIT).to_owned()
}

/// Forges refuse longer contexts.
const CONTEXT_LIMIT: usize = 255;

/// How to find the pull request of a step whose number was never written down.
pub(super) fn find(snapshot: &Snapshot<'_>) -> Effect {
    let step = snapshot.step;
    Effect::FindPullRequest {
        head: branch_of(step),
        base: base_branch(step),
        marker: marker(step),
        since: since(snapshot),
    }
}

/// Since when there can be a pull request of the step: an older one may be that of a Bundle that had the same name.
pub(super) fn since(snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    let metadata = snapshot.bundle.map_or(&snapshot.step.metadata, |bundle| &bundle.metadata);
    metadata.creation_timestamp.as_ref().map(|created| created.0)
}

/// The branch that the change is pushed to.
pub(super) fn target_branch(step: &PromotionStep, tasks: &[Task]) -> String {
    if opens_pull_request(tasks) { branch_of(step) } else { base_branch(step) }
}

/// The directory of the environment. A branch of its own holds nothing else, so there it is the root.
pub(super) fn directory(step: &PromotionStep) -> String {
    let layout = step.spec.git.as_ref().and_then(|git| git.layout);
    match (&step.spec.path, layout) {
        (_, Some(GitLayout::Branch)) => ".".to_owned(),
        (Some(path), _) => normalised(path),
        (None, _) => format!("environments/{}", step.spec.environment),
    }
}

/// The same directory in the one way in which gates judge it and edits write to it; `.` is the root.
fn normalised(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}

/// The title of the pull request.
pub(super) fn title(step: &PromotionStep, bundle: &Bundle) -> String {
    match rollback_of(bundle) {
        Some(reverted) => format!("{} (reverts {reverted})", subject(step, bundle)),
        None => subject(step, bundle),
    }
}

/// The Bundle that this one takes back.
pub fn rollback_of(bundle: &Bundle) -> Option<&str> {
    bundle.spec.provenance.as_ref()?.rollback_of.as_deref()
}

fn subject(step: &PromotionStep, bundle: &Bundle) -> String {
    let (name, environment) = (&step.spec.bundle_ref, &step.spec.environment);
    match rollback_of(bundle) {
        Some(_) => format!("[kardinal] Rollback {environment} to {name}"),
        None => format!("[kardinal] Promote {name} to {environment}"),
    }
}

/// The images of a Bundle.
pub(super) fn images(bundle: &Bundle) -> Result<Vec<Image>, Problem> {
    let images = bundle.spec.artifacts.images.iter().enumerate().map(|(index, image)| {
        Image::parse(&image.name, &image.reference, image.digest.as_deref()).map_err(|error| Problem {
            task: None,
            message: format!("artifacts.images[{index}].reference of the Bundle: {error}"),
        })
    });
    images.collect()
}

/// The whole change as one order.
pub(super) fn order(
    step: &PromotionStep,
    bundle: &Bundle,
    reverted: Option<&Bundle>,
    tasks: &[Task],
) -> Result<CommitOrder, Problem> {
    let images = images(bundle)?;
    let config = config(bundle, reverted)?;
    let identity = identity(step);
    let mut edits = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        edits.extend(edit(step, bundle, (&images, config.as_ref()), index, task));
    }
    let created = step.metadata.creation_timestamp.as_ref();
    Ok(CommitOrder {
        base: base_branch(step),
        branch: target_branch(step, tasks),
        message: message(step, bundle, &identity),
        identity,
        replaces: None,
        time: created.map_or(Timestamp::UNIX_EPOCH, |created| created.0),
        directory: directory(step),
        edits,
    })
}

/// What is to be merged of a configuration repository.
struct Config<'a> {
    commit: &'a GitCommit,
    instead_of: Option<&'a str>,
}

/// The commit of the Bundle. A rollback goes back to it from the commit of the Bundle that is taken back: to apply an
/// older commit once more would undo nothing.
fn config<'a>(bundle: &'a Bundle, reverted: Option<&'a Bundle>) -> Result<Option<Config<'a>>, Problem> {
    let Some(commit) = &bundle.spec.artifacts.git_commit else { return Ok(None) };
    if let (Some(name), None) = (rollback_of(bundle), reverted) {
        let message = format!(
            "the Bundle `{name}` that is to be taken back is gone, and with it the commit to undo: \
             create a Bundle with a commit that reverts it"
        );
        return Err(Problem { task: None, message });
    }
    let undone = reverted.and_then(|reverted| reverted.spec.artifacts.git_commit.as_ref());
    let undone = undone.filter(|undone| undone.repository == commit.repository && undone.sha != commit.sha);
    Ok(Some(Config { commit, instead_of: undone.map(|undone| undone.sha.as_str()) }))
}

fn message(step: &PromotionStep, bundle: &Bundle, identity: &str) -> String {
    let artifacts = &bundle.spec.artifacts;
    let images = artifacts.images.iter().map(|image| one_line(&image.reference));
    let commit = artifacts.git_commit.iter();
    let commit = commit.map(|commit| format!("{}@{}", one_line(&commit.repository), commit.sha));
    let lines: Vec<String> = images.chain(commit).collect();
    format!("{}\n\n{}\n\n{identity}\n", subject(step, bundle), lines.join("\n"))
}

/// Foreign text must not add a line to a commit message: a line could be a trailer.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

fn edit(
    step: &PromotionStep,
    bundle: &Bundle,
    (images, config): (&[Image], Option<&Config<'_>>),
    task: usize,
    of: &Task,
) -> Vec<Edit> {
    let fill = |text: &str| fill(text, step, bundle);
    match &of.kind {
        TaskKind::KustomizeImages if !images.is_empty() => {
            vec![Edit::KustomizeImages { task, images: images.to_vec() }]
        }
        TaskKind::HelmImages { file, path } if !images.is_empty() => {
            let settings =
                step.spec.update.as_ref().and_then(|update| update.helm.clone()).unwrap_or_default();
            vec![Edit::HelmImages {
                task,
                file: file.clone().or(settings.values_file).unwrap_or_else(|| helm::VALUES.to_owned()),
                path: path.clone().or(settings.image_path_template).unwrap_or_else(|| helm::PATH.to_owned()),
                images: images.to_vec(),
            }]
        }
        TaskKind::ReplaceImages => images.iter().map(|image| replace_image(task, image)).collect(),
        TaskKind::ReplaceText { file, pattern, with } => {
            vec![Edit::ReplaceText { task, file: file.clone(), pattern: pattern.clone(), with: fill(with) }]
        }
        TaskKind::YamlSet { file, path, value } => {
            let value = match value {
                Value::String(text) => Value::String(fill(text)),
                other => other.clone(),
            };
            vec![Edit::YamlSet { task, file: file.clone(), path: path.clone(), value }]
        }
        TaskKind::ConfigMerge { strategy, source_path } => {
            let edits = config.iter().map(|config| Edit::ConfigMerge {
                task,
                repository: config.commit.repository.clone(),
                sha: config.commit.sha.clone(),
                instead_of: config.instead_of.map(str::to_owned),
                strategy: *strategy,
                source_path: source_path.clone(),
            });
            edits.collect()
        }
        TaskKind::KustomizeBuild { output } => vec![Edit::KustomizeBuild { task, output: output.clone() }],
        _ => Vec::new(),
    }
}

/// Text in the settings of a task may speak of the promotion: `{version}`, `{bundle}` and `{environment}`.
fn fill(text: &str, step: &PromotionStep, bundle: &Bundle) -> String {
    text.replace("{version}", &kardinal_policy::version(&bundle.spec))
        .replace("{bundle}", &step.spec.bundle_ref)
        .replace("{environment}", &step.spec.environment)
}

/// Matches the repository with any tag or digest, and nothing whose name only starts or ends like it.
fn replace_image(task: usize, image: &Image) -> Edit {
    let repository = escape(&image.repository);
    let pattern = format!(
        r#"(?m)(^|[\s"'=]){repository}(?::[A-Za-z0-9_][A-Za-z0-9_.-]*(?:@sha256:[0-9a-f]+)?|@sha256:[0-9a-f]+)($|[\s"',])"#
    );
    let tag = image.tag.as_ref().map(|tag| format!(":{tag}")).unwrap_or_default();
    let digest = image.digest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
    let reference = format!("{}{tag}{digest}", image.repository);
    Edit::ReplaceText { task, file: None, pattern, with: format!("${{1}}{reference}${{2}}") }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_alphanumeric() && !matches!(character, '/' | '_' | '-' | ':') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

pub(super) fn cut(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}
