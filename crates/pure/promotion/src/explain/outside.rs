//! What stands outside and is in the way: a door that is shut, or one where nobody answers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kardinal_api::kardinal::{Artifacts, Bundle, PromotionStep};
use kardinal_object::name_of;
use kardinal_planner::condition::{self, Truth};
use kardinal_planner::why::{Wait, WaitOn};

use super::choose::PromotionView;
use super::text::shell_word;
use crate::bundle::is_emergency;
use crate::promotion_step::{remedy, rollback_of, why};

/// Something that is not permitted until somebody changes it.
pub(super) fn action(view: &PromotionView<'_>) -> Option<Wait> {
    let step = view.step?;
    if let (Some(blocked), Some(basis)) = (blocked(step), remedy(step, &view.bundle)) {
        return Some(blocked.basis(basis));
    }
    let secret = remedy::cluster_secret(step).filter(|_| remedy::is_health_unknown(step))?;
    let detail = shut_out(secret, &unreachable(step)?)?;
    Some(why::action(&detail).basis(remedy::of_health(Some(secret))))
}

/// What a person can do about a step that is blocked, and what follows. Absent: it is not blocked.
///
/// A step keeps the Pipeline as it was when its Bundle began, so nobody is sent to change the Pipeline for the step's sake
/// without being told to start anew.
pub fn remedy(step: &PromotionStep, bundle: &Bundle) -> Option<String> {
    let blocked = blocked(step)?;
    let remedy = blocked.basis.unwrap_or_else(|| remedy::of(step, why::barrier(&blocked.reason)));
    Some(match remedy::is_to_start_anew(step, why::barrier(&blocked.reason)) {
        true => format!("{remedy}: `{}`", start_anew(&step.spec.pipeline, bundle)),
        false => remedy,
    })
}

/// What blocks a step, as it tells itself. A step that is over waits for nothing, and its condition alone tells what keeps it
/// from being cleared up.
fn blocked(step: &PromotionStep) -> Option<Wait> {
    let found = holding(step, "Blocked")?;
    let own = own(step, |wait| wait.on == WaitOn::Action && wait.detail == found.message);
    Some(own.unwrap_or_else(|| why::blocked(why::barrier(&found.reason), &found.message)))
}

/// The cluster of the environment that cannot be reached.
fn unreachable(step: &PromotionStep) -> Option<Wait> {
    let found = holding(step, "ClusterUnreachable")?;
    let own = own(step, |wait| wait.on == WaitOn::Health && wait.reason == why::reason::UNREACHABLE);
    let (code, since) = (why::unreachable_code(&found.reason), found.last_transition_time.0);
    Some(own.unwrap_or_else(|| why::unreachable(&step.spec.environment, &found.message, code, since)))
}

fn own(step: &PromotionStep, is_it: impl Fn(&Wait) -> bool) -> Option<Wait> {
    step.status.as_ref()?.waits.iter().find(|wait| is_it(wait)).cloned()
}

fn holding<'s>(step: &'s PromotionStep, type_: &str) -> Option<&'s Condition> {
    let found = condition::find(&step.status.as_ref()?.conditions, type_)?;
    condition::is(found, Truth::True).then_some(found)
}

/// What a cluster that answers, and lets us in or look around no further, says to the credentials of a Secret.
fn shut_out(secret: &str, unreachable: &Wait) -> Option<String> {
    let verb = match why::code(unreachable)? {
        "401" => "refuses",
        _ => "permits too little to",
    };
    Some(format!("the cluster {verb} the credentials of the Secret `{secret}`: {}", unreachable.detail))
}

/// The command that makes the Bundle again: the new one begins with the Pipeline as it is, and takes the old one's place.
fn start_anew(pipeline: &str, bundle: &Bundle) -> String {
    let target = bundle.spec.intent.as_ref().and_then(|intent| intent.target.as_deref());
    match (rollback_of(bundle), target) {
        // Made as any other Bundle it would be none.
        (Some(_), Some(target)) => roll_back_anew(pipeline, bundle, target),
        _ => {
            let begin = ["kardinal", "create", "bundle", pipeline].map(str::to_owned);
            command(begin.into_iter().chain(carrying(bundle)), bundle)
        }
    }
}

/// The same for a rollback. As long as it is there it is on its way, and the same is not made twice: it goes first.
fn roll_back_anew(pipeline: &str, bundle: &Bundle, target: &str) -> String {
    let delete = ["kubectl", "delete", "bundles.kardinal.io", name_of(&bundle.metadata)].map(str::to_owned);
    let version = crate::gate_context::version(&bundle.spec);
    let again = ["kardinal", "rollback", pipeline, "--env", target, "--to", &version].map(str::to_owned);
    let emergency = is_emergency(bundle).then(|| "--emergency".to_owned());
    format!("{} && {}", command(delete, bundle), command(again.into_iter().chain(emergency), bundle))
}

/// A command about the namespace of a Bundle. Users write what it is made of, so every word is quoted.
fn command(words: impl IntoIterator<Item = String>, bundle: &Bundle) -> String {
    let namespace = bundle.metadata.namespace.clone().unwrap_or_default();
    let words = words.into_iter().chain(["-n".to_owned(), namespace]);
    words.map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
}

/// What a Bundle carries and where it goes, as flags of `kardinal create bundle`.
fn carrying(bundle: &Bundle) -> Vec<String> {
    let Artifacts { images, git_commit } = &bundle.spec.artifacts;
    let mut words = Vec::new();
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    for image in images {
        let digest = image.digest.as_ref().filter(|_| !image.reference.contains('@'));
        let digest = digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        let name = if image.name.is_empty() { String::new() } else { format!("{}=", image.name) };
        flag("--image", format!("{name}{}{digest}", image.reference));
    }
    if let Some(commit) = git_commit {
        flag("--git-commit", format!("{}@{}", commit.repository, commit.sha));
    }
    if let Some(intent) = &bundle.spec.intent {
        intent.target.iter().for_each(|target| flag("--target", target.clone()));
        intent.skip.iter().for_each(|skipped| flag("--skip", skipped.clone()));
    }
    words
}
