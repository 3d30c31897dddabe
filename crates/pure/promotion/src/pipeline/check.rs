//! Whether a Pipeline is well formed: the order of its environments, their tasks, and the names that it gives.

use std::collections::BTreeSet;

use kardinal_api::kardinal::{
    BundleType, Environment, Pipeline, PromotionStep, PromotionStepGit, PromotionStepSpec, PromotionTask,
};
use kardinal_object::can_be_name;
use kardinal_planner::names::label_value;
use kardinal_planner::problem::Problem;
use serde_json::Value;

use crate::bundle::Route;
use crate::intent::{check_name, check_namespace};
use crate::promotion_step;

/// The key of a Secret that a task names no key of.
const TASK_KEY: &str = "token";

/// Whether the environments have an order, their tasks can be carried out for some Bundle at least, and what the Pipeline
/// names can exist.
pub fn check(pipeline: &Pipeline) -> Result<Route<'_>, Problem> {
    let route = way(pipeline)?;
    check_names(pipeline)?;
    Ok(route)
}

/// The way that Bundles go.
pub(super) fn way(pipeline: &Pipeline) -> Result<Route<'_>, Problem> {
    check_length(pipeline.metadata.name.as_deref().unwrap_or_default())?;
    let route = Route::whole(&pipeline.spec)?;
    for (position, environment) in pipeline.spec.environments.iter().enumerate() {
        check_tasks(pipeline, position, environment)?;
    }
    Ok(route)
}

/// Bundles, steps and gates carry the name as a label, and a label holds less than a name.
fn check_length(name: &str) -> Result<(), Problem> {
    if name == label_value(name) {
        return Ok(());
    }
    Err(Problem::new("metadata.name", format!("`{name}` has {} characters", name.len()))
        .hint("the name of a Pipeline can have at most 63: create it again with a shorter one"))
}

/// Tasks that no Bundle could go through are told when the Pipeline is written, and before a Bundle sets out, not when one
/// arrives there.
pub(crate) fn check_tasks(
    pipeline: &Pipeline,
    position: usize,
    environment: &Environment,
) -> Result<(), Problem> {
    if environment.steps.is_none() {
        return Ok(());
    }
    let spec = PromotionStepSpec {
        git: Some(PromotionStepGit { url: pipeline.spec.git.url.clone(), ..PromotionStepGit::default() }),
        update: environment.update.clone(),
        approval: environment.approval,
        steps: environment.steps.clone(),
        ..PromotionStepSpec::default()
    };
    let step = PromotionStep::new("", spec);
    let kinds = [BundleType::Mixed, BundleType::Config, BundleType::Image];
    let mut problem = None;
    for kind in kinds {
        match promotion_step::check(&step, kind) {
            Ok(_) => return Ok(()),
            Err(found) => problem = found.into_iter().next(),
        }
    }
    let Some(problem) = problem else { return Ok(()) };
    let task = problem.task.map(|task| format!(".steps[{task}]")).unwrap_or_default();
    Err(Problem::new(format!("spec.environments[{position}]{task}"), problem.message))
}

/// What the Pipeline names must be able to exist: its team writes the names, and others make requests of them.
pub(super) fn check_names(pipeline: &Pipeline) -> Result<(), Problem> {
    for (field, name) in named_secrets(pipeline) {
        check_name(&field, name)?;
    }
    let mut namespaces = pipeline.spec.policy_namespaces.iter().enumerate();
    namespaces.try_for_each(|(at, name)| check_namespace(&format!("spec.policyNamespaces[{at}]"), name))
}

/// The Secrets that a Pipeline names, each with the field that names it.
fn named_secrets(pipeline: &Pipeline) -> Vec<(String, &str)> {
    let git = pipeline.spec.git.secret_ref.iter();
    let mut named: Vec<(String, &str)> =
        git.map(|secret| ("spec.git.secretRef.name".to_owned(), secret.name.as_str())).collect();
    for (position, environment) in pipeline.spec.environments.iter().enumerate() {
        let place = format!("spec.environments[{position}]");
        let cluster = environment.health.as_ref().and_then(|health| health.cluster.as_deref());
        named.extend(cluster.map(|name| (format!("{place}.health.cluster"), name)));
        for (at, task) in environment.steps.iter().flatten().enumerate() {
            let secret = task_secret(task).map(|(name, _)| name);
            named.extend(secret.map(|name| (format!("{place}.steps[{at}].config.secretRef.name"), name)));
        }
    }
    named
}

/// The Secrets that a Pipeline names, each once, in its own namespace. None while one of them has a name that no Secret
/// can have: that is told first, and nobody is asked for it.
pub fn secrets(pipeline: &Pipeline) -> Vec<&str> {
    let all: BTreeSet<&str> = named_secrets(pipeline).into_iter().map(|(_, name)| name).collect();
    match all.iter().all(|name| can_be_name(name)) {
        true => all.into_iter().collect(),
        false => Vec::new(),
    }
}

/// The Secrets that tasks of a Pipeline call others with, each with the key in it.
pub fn task_secrets(pipeline: &Pipeline) -> impl Iterator<Item = (&str, &str)> {
    pipeline.spec.environments.iter().flat_map(|one| one.steps.iter().flatten()).filter_map(task_secret)
}

fn task_secret(task: &PromotionTask) -> Option<(&str, &str)> {
    let reference = task.config.as_ref()?.get("secretRef")?;
    let part = |key: &str| reference.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    Some((part("name")?, part("key").unwrap_or(TASK_KEY)))
}
