//! What a person can do about a step that is blocked, and what follows.
//!
//! A step keeps the Pipeline as it was when its Bundle began, so nobody is sent to change the Pipeline for the step's sake
//! without being told to start anew.

use kardinal_api::kardinal::{PromotionState, PromotionStep};
use kardinal_vcs::Barrier;

use super::{Ending, ending};
use crate::shard::shard_of;

/// Who can do something, and what. Where that is not known nothing is promised.
pub(crate) fn of(step: &PromotionStep, barrier: Barrier) -> String {
    let is_of_health = is_health_unknown(step);
    match (barrier, secret(step)) {
        (Barrier::HostNotAllowed, _) => of_operator(step),
        (Barrier::NotLetIn | Barrier::Other, _) if is_of_health => of_health(cluster_secret(step)),
        (Barrier::Other, _) => "it is tried again every few seconds and goes on as soon as it can".to_owned(),
        (Barrier::NotLetIn, Some(secret)) => {
            format!("needs a person to correct the Secret `{secret}`; it goes on by itself then")
        }
        (Barrier::NotLetIn, None) => {
            "needs a person to name a Secret in `spec.git.secretRef` of the Pipeline and then to start anew, for this step \
             keeps the Pipeline as it was"
                .to_owned()
        }
    }
}

/// Whether it does not go on by itself after that.
pub(crate) fn is_to_start_anew(step: &PromotionStep, barrier: Barrier) -> bool {
    barrier == Barrier::NotLetIn && secret(step).is_none() && !is_health_unknown(step)
}

/// The Secret with the credentials that the step uses now.
fn secret(step: &PromotionStep) -> Option<&str> {
    let of_git = || step.spec.git.as_ref().and_then(|git| git.secret_ref.as_deref());
    secret_of_task(step).or_else(of_git)
}

/// The Secret that the task names which the step is at: a task that calls others brings its own credentials.
fn secret_of_task(step: &PromotionStep) -> Option<&str> {
    let at = usize::try_from(step.status.as_ref()?.current_step_index?).ok()?;
    step.spec.steps.as_ref()?.get(at)?.config.as_ref()?.get("secretRef")?.get("name")?.as_str()
}

/// Whether the trouble is that nothing can be learned of the environment's health.
pub(crate) fn is_health_unknown(step: &PromotionStep) -> bool {
    let state = step.status.as_ref().and_then(|status| status.state);
    state == Some(PromotionState::HealthChecking) && ending(step) == Some(Ending::Open)
}

/// The Secret with the way to the cluster of the environment.
pub(crate) fn cluster_secret(step: &PromotionStep) -> Option<&str> {
    step.spec.health.as_ref()?.cluster.as_deref()
}

/// The same where nothing can be learned of the environment.
pub(crate) fn of_health(secret: Option<&str>) -> String {
    match secret {
        Some(secret) => format!(
            "needs a person to correct the Secret `{secret}` of `health.cluster`; it goes on by itself then"
        ),
        None => "needs a person to mend this; it goes on by itself then".to_owned(),
    }
}

/// Only the operator of the process that carries out the step permits it to reach a host.
fn of_operator(step: &PromotionStep) -> String {
    match shard_of(step) {
        Some(shard) => format!("needs the operator of the controllers or of the agent of shard {shard}"),
        None => "needs the operator of the controllers".to_owned(),
    }
}
