//! Where a step writes.

use kardinal_api::kardinal::{BundleType, PromotionStep};
use kardinal_policy::Target;
use kardinal_vcs::Written;

use super::change;
use super::check::{Checked, check};
use super::tasks::{Task, TaskKind};
use crate::seal::Place;

/// What a step writes for a Bundle of one type, and where.
pub fn target(step: &PromotionStep, kind: BundleType) -> Target {
    target_of(step, &check(step, kind))
}

/// The same of a step that was checked. What cannot be told apart counts as everything below the environment's directory.
fn target_of(step: &PromotionStep, checked: &Checked) -> Target {
    let (paths, branches) = match checked {
        Ok(checked) => {
            let written = checked.tasks.iter().flat_map(|task| written(step, &checked.directory, task));
            (written.collect(), vec![checked.base.clone(), checked.branch.clone()])
        }
        Err(_) => (vec![Written::tree(&change::directory(step))], vec![change::base_branch(step)]),
    };
    Target { environment: step.spec.environment.clone(), paths, branches }
}

/// The same as a seal names it. The branch of a pull request belongs to the Bundle, not to the place.
pub(crate) fn written_to(step: &PromotionStep, kind: BundleType) -> Place {
    place_of(step, &check(step, kind))
}

/// The same of a step that was checked.
pub(super) fn place_of(step: &PromotionStep, checked: &Checked) -> Place {
    let repository = step.spec.git.as_ref().map(|git| git.url.as_str()).unwrap_or_default();
    Place::of(repository, &change::base_branch(step), &target_of(step, checked).paths)
}

fn written(step: &PromotionStep, directory: &str, task: &Task) -> Vec<Written> {
    let file = |name: &str| vec![Written::file(&format!("{directory}/{name}"))];
    match &task.kind {
        TaskKind::KustomizeImages => {
            ["kustomization.yaml", "kustomization.yml", "Kustomization"].into_iter().flat_map(file).collect()
        }
        TaskKind::HelmImages { file: named, .. } => {
            let settings = step.spec.update.as_ref().and_then(|update| update.helm.as_ref());
            let default = settings.and_then(|settings| settings.values_file.as_deref());
            file(named.as_deref().or(default).unwrap_or(kardinal_manifest::helm::VALUES))
        }
        TaskKind::YamlSet { file: named, .. } | TaskKind::ReplaceText { file: Some(named), .. } => {
            file(named)
        }
        TaskKind::KustomizeBuild { output } => file(output),
        TaskKind::ReplaceImages | TaskKind::ReplaceText { file: None, .. } | TaskKind::ConfigMerge { .. } => {
            vec![Written::tree(directory)]
        }
        TaskKind::Clone
        | TaskKind::Commit
        | TaskKind::Push
        | TaskKind::OpenPullRequest
        | TaskKind::WaitForMerge
        | TaskKind::HealthCheck
        | TaskKind::Call(_) => Vec::new(),
    }
}
