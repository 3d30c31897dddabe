//! The change itself: which branch, which edits, which message. The same step always orders the same change.

use jiff::Timestamp;
use kardinal_api::kardinal::{Bundle, BundleType, GitCommit, GitLayout, Pipeline, PromotionStep};
use kardinal_manifest::{Image, helm};
use serde_json::Value;

use super::check::{CheckedStep, Problem};
use super::tasks::{Task, TaskKind};
use super::{CommitOrder, Edit, Effect, ForgeEffect, STATUS_CONTEXT, Snapshot};
use crate::intent::{History, gone};

/// The line by which a commit is known as the step's own.
pub(super) fn identity(step: &PromotionStep) -> String {
    format!("Kardinal-Step: {}", step.metadata.uid.as_deref().unwrap_or_default())
}

/// The line by which a pull request is known as the step's own.
pub(super) fn marker(step: &PromotionStep) -> String {
    format!("<!-- kardinal-step: {} -->", step.metadata.uid.as_deref().unwrap_or_default())
}

/// The branch that the environment is read from: the base branch, or the environment's own.
pub(crate) fn base_branch(step: &PromotionStep) -> String {
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
    Effect::Forge(ForgeEffect::FindPullRequest {
        head: branch_of(step),
        base: base_branch(step),
        marker: marker(step),
        since: since(snapshot),
    })
}

/// Since when there can be a pull request of the step: an older one may be that of a Bundle that had the same name.
pub(super) fn since(snapshot: &Snapshot<'_>) -> Option<Timestamp> {
    let metadata = snapshot.bundle.map_or(&snapshot.step.metadata, |bundle| &bundle.metadata);
    metadata.creation_timestamp.as_ref().map(|created| created.0)
}

/// The directory of the environment. A branch of its own holds nothing else, so there it is the root.
pub(crate) fn directory(step: &PromotionStep) -> String {
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
            field: format!("bundle.spec.artifacts.images[{index}].reference"),
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
    undone: Option<&Bundle>,
    checked: &CheckedStep,
) -> Result<CommitOrder, Problem> {
    let images = images(bundle)?;
    let config = config(step, bundle, undone)?;
    let identity = identity(step);
    let mut edits = Vec::new();
    for (index, task) in checked.tasks.iter().enumerate() {
        edits.extend(edit(step, bundle, (&images, config.as_ref()), index, task));
    }
    let created = step.metadata.creation_timestamp.as_ref();
    Ok(CommitOrder {
        base: checked.base.clone(),
        branch: checked.branch.clone(),
        message: message(step, bundle, &identity),
        identity,
        replaces: None,
        time: created.map_or(Timestamp::UNIX_EPOCH, |created| created.0),
        directory: checked.directory.clone(),
        edits,
    })
}

/// What is to be merged of a configuration repository.
struct Config<'a> {
    commit: &'a GitCommit,
    instead_of: Option<&'a str>,
}

/// The Bundle whose configuration a rollback undoes in an environment: the one that the environment has it from. That need
/// not be the Bundle that is taken back, for a rollback passes environments that have gone on since. It is the rollback
/// itself where the environment has nothing of that repository. Absent: nobody knows, because a Bundle is gone.
///
/// `reverted` is the Bundle that is taken back, `others` are those of the Pipeline without the rollback, with what their
/// steps say now.
pub fn undone<'a>(
    bundle: &'a Bundle,
    environment: &str,
    pipeline: Option<&Pipeline>,
    reverted: Option<&'a Bundle>,
    others: &[&'a Bundle],
) -> Option<&'a Bundle> {
    let reverted = reverted?;
    let Some(commit) = &bundle.spec.artifacts.git_commit else { return Some(reverted) };
    let is_known = others.iter().any(|other| other.metadata.name == reverted.metadata.name);
    let mut all: Vec<&Bundle> = others.to_vec();
    all.extend((!is_known).then_some(reverted));
    let with_own: Vec<&Bundle> = all.iter().copied().chain([bundle]).collect();
    if pipeline.is_some_and(|one| gone(one, &with_own, environment, BundleType::Config).is_some()) {
        return None;
    }
    let is_of_it = |other: &&Bundle| {
        let theirs = other.spec.artifacts.git_commit.as_ref();
        theirs.is_some_and(|theirs| theirs.repository == commit.repository)
    };
    all.retain(is_of_it);
    History::of(&all, environment, BundleType::Config).present().or(Some(bundle))
}

/// The commit of the Bundle. A rollback goes back to it from the commit that the environment has: to apply an older commit
/// once more would undo nothing.
fn config<'a>(
    step: &PromotionStep,
    bundle: &'a Bundle,
    undone: Option<&'a Bundle>,
) -> Result<Option<Config<'a>>, Problem> {
    let Some(commit) = &bundle.spec.artifacts.git_commit else { return Ok(None) };
    if let (Some(name), None) = (rollback_of(bundle), undone) {
        let environment = &step.spec.environment;
        let message = format!(
            "the Bundle `{name}` that is to be taken back is gone, or the one that brought what `{environment}` has, and \
             with it the commit to undo: create a Bundle with a commit that reverts it"
        );
        let field = "bundle.spec.provenance.rollbackOf".to_owned();
        return Err(Problem { field, task: None, message });
    }
    let is_itself = |undone: &Bundle| {
        undone.metadata.name == bundle.metadata.name && undone.spec.artifacts == bundle.spec.artifacts
    };
    let undone = undone.filter(|undone| !is_itself(undone));
    let undone = undone.and_then(|undone| undone.spec.artifacts.git_commit.as_ref());
    let undone = undone.filter(|undone| undone.repository == commit.repository);
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
    text.replace("{version}", &crate::gate_context::version(&bundle.spec))
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

#[cfg(test)]
mod tests {
    use kardinal_object::name_of;
    use serde_json::json;

    use super::*;

    const REPOSITORY: &str = "https://github.com/myorg/app-config";

    /// A Bundle of configuration that came to these environments, in the minutes after ten.
    fn config(name: &str, reached: &[(&str, u32)]) -> Bundle {
        let entry = |minute: &u32| {
            let at = format!("2026-04-09T10:{minute:02}:00Z");
            json!({"state": "Verified", "promotedAt": at, "verifiedAt": at})
        };
        let environments: serde_json::Map<String, Value> =
            reached.iter().map(|(name, minute)| ((*name).to_owned(), entry(minute))).collect();
        serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": "2026-04-09T09:00:00Z"},
            "spec": {"type": "config", "artifacts": {"gitCommit": {"repository": REPOSITORY, "sha": name}}},
            "status": {"phase": "Verified", "environments": environments},
        }))
        .unwrap()
    }

    /// The rollback from `c3` to `c2`.
    fn rollback() -> Bundle {
        let mut back = config("back", &[]);
        back.spec.artifacts.git_commit.as_mut().unwrap().sha = "c2".to_owned();
        back.spec.provenance.get_or_insert_default().rollback_of = Some("c3".to_owned());
        back
    }

    /// What the rollback from `c3` to `c2` is applied instead of in an environment; `Err`: nobody knows.
    fn instead_of(
        environment: &str,
        pipeline: Option<&Pipeline>,
        others: &[Bundle],
    ) -> Result<Option<String>, String> {
        let back = rollback();
        let others: Vec<&Bundle> = others.iter().collect();
        let reverted = others.iter().copied().find(|other| name_of(&other.metadata) == "c3");
        let undone = undone(&back, environment, pipeline, reverted, &others);
        let mut step = PromotionStep::new("step", Default::default());
        step.spec.environment = environment.to_owned();
        super::config(&step, &back, undone)
            .map(|config| config.unwrap().instead_of.map(str::to_owned))
            .map_err(|problem| problem.message)
    }

    /// `prod` has `c3`, `dev` has gone on to `c5`.
    fn bundles() -> Vec<Bundle> {
        vec![
            config("c2", &[("dev", 1), ("prod", 2)]),
            config("c3", &[("dev", 3), ("prod", 4)]),
            config("c5", &[("dev", 5)]),
        ]
    }

    #[test]
    fn a_rollback_undoes_in_each_environment_what_that_one_has() {
        let told = |sha: &str| Ok(Some(sha.to_owned()));
        assert_eq!(instead_of("prod", None, &bundles()), told("c3"));
        assert_eq!(instead_of("dev", None, &bundles()), told("c5"));
        assert_eq!(instead_of("qa", None, &bundles()), Ok(None), "it has nothing of the repository");
        // Whether it is healthy there does not matter.
        let mut all = bundles();
        let entry = all[2].status.as_mut().unwrap().environments.get_mut("dev").unwrap();
        (entry.verified_at, entry.state) = (None, Some(kardinal_api::kardinal::PromotionState::Failed));
        assert_eq!(instead_of("dev", None, &all), told("c5"));
        // What is there already differs by nothing.
        let mut all = bundles();
        let mut earlier = config("back-in-dev", &[("dev", 7)]);
        earlier.spec.artifacts.git_commit.as_mut().unwrap().sha = "c2".to_owned();
        all.push(earlier);
        assert_eq!(instead_of("dev", None, &all), told("c2"));
        // Images, and another repository, stand beside it.
        let mut all = bundles();
        let mut image = config("image", &[("dev", 8)]);
        image.spec.kind = Some(BundleType::Image);
        image.spec.artifacts.git_commit = None;
        let mut other = config("other", &[("dev", 9)]);
        other.spec.artifacts.git_commit.as_mut().unwrap().repository =
            "https://github.com/myorg/other".to_owned();
        all.extend([image, other]);
        assert_eq!(instead_of("dev", None, &all), told("c5"));
    }

    #[test]
    fn a_rollback_is_refused_where_nobody_knows_what_it_would_undo() {
        let mut all = bundles();
        all.retain(|bundle| name_of(&bundle.metadata) != "c5");
        let pipeline: Pipeline = serde_json::from_value(json!({
            "apiVersion": "kardinal.io/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": "app", "namespace": "team"},
            "spec": {"git": {"url": "https://github.com/myorg/gitops"}, "environments": [{"name": "dev"}]},
            "status": {"environments": [{
                "environment": "dev", "type": "config", "bundle": "c5", "version": "c5",
                "verifiedAt": "2026-04-09T10:05:00Z",
            }]},
        }))
        .unwrap();
        let said = instead_of("dev", Some(&pipeline), &all).unwrap_err();
        assert!(said.contains("or the one that brought what `dev` has"), "{said}");
        assert_eq!(instead_of("prod", Some(&pipeline), &all), Ok(Some("c3".to_owned())));
        all.retain(|bundle| name_of(&bundle.metadata) != "c3");
        let said = instead_of("prod", None, &all).unwrap_err();
        assert!(said.contains("the Bundle `c3` that is to be taken back is gone"), "{said}");
    }
}
