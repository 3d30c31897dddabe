//! Which tasks a step needs, and in which order.

use kardinal_api::kardinal::{BundleType, PromotionStepSpec};

use super::Problem;
use crate::promotion_step::tasks::{Task, TaskKind, reviewed};

/// The tasks that may be there once, each with the one that must come before it.
const ONCE: [(&str, Option<&str>); 6] = [
    ("git-clone", None),
    ("git-commit", Some("git-clone")),
    ("git-push", Some("git-commit")),
    ("open-pr", Some("git-push")),
    ("wait-for-merge", Some("open-pr")),
    ("health-check", None),
];
/// The tasks that mean nothing without another one after them.
const UNFINISHED: [(&str, &str); 2] = [("git-commit", "git-push"), ("open-pr", "wait-for-merge")];

/// What is wrong with the tasks as a whole.
pub(super) fn problems(spec: &PromotionStepSpec, tasks: &[Task], bundle: BundleType) -> Vec<Problem> {
    let mut found = Vec::new();
    check_neighbours(tasks, &mut found);
    check_edits(tasks, &mut found);
    check_ends(tasks, &mut found);
    found.extend(check_approval(spec, tasks));
    found.extend(check_bundle(spec, tasks, bundle));
    found
}

/// Each task that can be there once comes after the one that it needs.
fn check_neighbours(tasks: &[Task], found: &mut Vec<Problem>) {
    for (name, needs) in ONCE {
        let mut places = tasks.iter().enumerate().filter(|(_, task)| task.name == name);
        let Some((at, _)) = places.next() else { continue };
        if let Some((again, _)) = places.next() {
            found.push(problem(again, format!("`{name}` is listed twice; a step makes one change")));
        } else if let Some(before) = needs
            && place(tasks, before).is_none_or(|place| place > at)
        {
            found.push(problem(at, format!("`{name}` needs `{before}` before it")));
        }
    }
}

/// What is edited is read before and committed afterwards.
fn check_edits(tasks: &[Task], found: &mut Vec<Problem>) {
    for (index, task) in tasks.iter().enumerate().filter(|(_, task)| task.kind.is_edit()) {
        let name = &task.name;
        if place(tasks, "git-clone").is_none_or(|clone| clone > index) {
            found.push(problem(index, format!("`{name}` needs `git-clone` before it")));
        }
        if place(tasks, "git-commit").is_none_or(|commit| commit < index) {
            found.push(problem(index, format!("`{name}` needs `git-commit` after it")));
        }
    }
}

/// What is begun is brought to its end, and looked at only then.
fn check_ends(tasks: &[Task], found: &mut Vec<Problem>) {
    for (name, after) in UNFINISHED {
        if let (Some(at), None) = (place(tasks, name), place(tasks, after)) {
            found.push(problem(at, format!("`{name}` needs `{after}` after it")));
        }
    }
    for arrives in ["git-push", "wait-for-merge"] {
        if let (Some(health), Some(arrived)) = (place(tasks, "health-check"), place(tasks, arrives))
            && health < arrived
        {
            found.push(problem(health, format!("`health-check` must come after `{arrives}`")));
        }
    }
}

fn check_approval(spec: &PromotionStepSpec, tasks: &[Task]) -> Option<Problem> {
    let has = |kind: TaskKind| tasks.iter().any(|task| task.kind == kind);
    if has(TaskKind::OpenPullRequest) || !has(TaskKind::Push) {
        return None;
    }
    let why = if reviewed(spec) {
        "`approval: pr-review`"
    } else if spec.pr == Some(true) {
        "`pr: true`"
    } else {
        return None;
    };
    Some(of_all(format!("{why} needs `open-pr` and `wait-for-merge` after `git-push`")))
}

fn check_bundle(spec: &PromotionStepSpec, tasks: &[Task], bundle: BundleType) -> Option<Problem> {
    let push = tasks.iter().position(|task| task.kind == TaskKind::Push)?;
    if spec.git.is_none() {
        let field = "spec.git.url".to_owned();
        return Some(Problem { field, ..problem(push, "`git-push` needs `spec.git.url`".to_owned()) });
    }
    let sets_images = tasks.iter().any(|task| task.kind.sets_images());
    let merges = tasks.iter().any(|task| matches!(task.kind, TaskKind::ConfigMerge { .. }));
    let missing = match bundle {
        BundleType::Image | BundleType::Mixed if !sets_images => {
            "a task that sets images, such as `kustomize-set-image`,"
        }
        BundleType::Config | BundleType::Mixed if !merges => "`config-merge`",
        _ => return None,
    };
    let kind = match bundle {
        BundleType::Image => "image",
        BundleType::Config => "config",
        BundleType::Mixed => "mixed",
    };
    Some(of_all(format!("a Bundle of type `{kind}` needs {missing} before `git-commit`")))
}

fn place(tasks: &[Task], name: &str) -> Option<usize> {
    tasks.iter().position(|task| task.name == name)
}

/// A problem of one task.
fn problem(index: usize, message: String) -> Problem {
    let field = format!("steps[{index}]");
    Problem { message: format!("{field}: {message}"), field: format!("spec.{field}"), task: Some(index) }
}

/// A problem of all tasks together.
fn of_all(message: String) -> Problem {
    Problem { field: "spec.steps".to_owned(), task: None, message: format!("steps: {message}") }
}
