//! What a Pipeline waits for, as data, and the one way to say it in words.

use kardinal_api::kardinal::Pipeline;
use kardinal_planner::problem::{Problem, listed};
use kardinal_planner::why::{Subject, Wait, WaitOn, Who, in_room};

/// The words of [`Wait::reason`]. Programs may rely on them.
pub mod reason {
    /// Something that is written in the Pipeline has to be corrected.
    pub const VALIDATION_FAILED: &str = "ValidationFailed";
    /// A Secret does not exist.
    pub const SECRET_MISSING: &str = "SecretMissing";
}

/// Something that its author has to correct.
pub(super) fn wrong(problem: &Problem) -> Wait {
    let subject = Subject::new(problem.field.as_str());
    let wait = Wait::new(WaitOn::Action, reason::VALIDATION_FAILED, subject, Who::Person);
    Wait { basis: problem.hint.clone(), ..wait.detail(&problem.message) }
}

/// A Secret that somebody has to create.
fn missing(secret: &str) -> Wait {
    Wait::new(WaitOn::Action, reason::SECRET_MISSING, Subject::object("Secret", secret), Who::Person)
        .detail(format!("the Secret `{secret}` does not exist"))
        .basis(format!("needs a person to create the Secret `{secret}`"))
}

/// The Secrets that somebody has to create; those of before where nobody has looked since.
pub(super) fn secrets(looked: Option<&[String]>, before: &[Wait]) -> Vec<Wait> {
    match looked {
        Some(names) => in_room(names.iter().map(|name| missing(name)).collect()),
        None => before.iter().filter(|wait| wait.reason == reason::SECRET_MISSING).cloned().collect(),
    }
}

/// Whether the controllers say that this Secret does not exist, for those who may not look themselves.
pub fn is_missing(pipeline: &Pipeline, secret: &str) -> bool {
    let mut waits = pipeline.status.iter().flat_map(|status| &status.waits);
    waits.any(|wait| wait.reason == reason::SECRET_MISSING && wait.subject.name == secret)
}

/// Which Secrets do not exist, in one sentence: the message of the condition.
pub(super) fn message(pipeline: &Pipeline, waits: &[Wait]) -> String {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let (noun, verb, pronoun) = match waits {
        [_] => ("Secret", "does", "it"),
        _ => ("Secrets", "do", "them"),
    };
    let names = listed(waits.iter().map(|wait| wait.subject.name.as_str()));
    format!(
        "the {noun} {names} {verb} not exist in namespace `{namespace}`: create {pronoun}; another name in the Pipeline \
         counts for Bundles that begin later"
    )
}
