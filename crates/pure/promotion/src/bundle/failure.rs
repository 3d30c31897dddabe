//! How a Bundle failed: what its status keeps of that as data, and the words that are made from it. They are made anew
//! whenever more becomes known, for a rejected pull request may have been merged all the same.

use std::collections::BTreeMap;

use kardinal_api::kardinal::{
    BundleFailure, BundleStatus, DeletedPredecessor, EnvironmentStatus, PromotionState,
};

use super::report::READY;

/// The reason where nothing but closed pull requests has made it fail.
const REJECTED: &str = "Rejected";
/// The reason otherwise.
const STEP_FAILED: &str = "StepFailed";

/// The environments that have failed.
pub(super) fn failed(
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> impl Iterator<Item = (&String, &EnvironmentStatus)> {
    environments.iter().filter(|(_, entry)| has_failed(entry))
}

fn has_failed(entry: &EnvironmentStatus) -> bool {
    entry.state == Some(PromotionState::Failed)
}

/// The failure of a Bundle that ends now.
pub(super) fn at_the_end(
    environments: &BTreeMap<String, EnvironmentStatus>,
    deleted_predecessors: Vec<DeletedPredecessor>,
) -> BundleFailure {
    let environments = failed(environments).map(|(name, _)| name.clone()).collect();
    BundleFailure { environments, deleted_predecessors }
}

/// Why the Bundle failed, in one word.
pub(super) fn reason(
    failure: &BundleFailure,
    environments: &BTreeMap<String, EnvironmentStatus>,
) -> &'static str {
    let is_rejected =
        |name: &String| environments.get(name).is_some_and(|entry| entry.rejected == Some(true));
    if failure.environments.iter().all(is_rejected) { REJECTED } else { STEP_FAILED }
}

/// Why the Bundle failed, and which version does not come back, in one line.
pub(super) fn message(failure: &BundleFailure, environments: &BTreeMap<String, EnvironmentStatus>) -> String {
    let of_step = |name: &String| {
        let said = environments.get(name).and_then(|entry| entry.message.as_deref());
        format!("{name}: {}", said.unwrap_or("the promotion has failed"))
    };
    let failed = failure.environments.iter().map(of_step);
    let lost = failure.deleted_predecessors.iter().map(predecessor_deleted);
    let messages: Vec<String> = failed.chain(lost).collect();
    // Others end what they say with a full stop.
    messages.join("; ").replace(".; ", "; ")
}

/// Why an environment does not go back to what it had before.
pub(super) fn predecessor_deleted(lost: &DeletedPredecessor) -> String {
    let DeletedPredecessor { environment, bundle, version, instead } = lost;
    let instead = match instead {
        Some(instead) => format!("goes back to `{instead}` instead"),
        None => "keeps what has failed, for no other is known to be good there".to_owned(),
    };
    format!(
        "`{environment}` cannot go back to `{version}`, which it had before, because the Bundle `{bundle}` was deleted: it \
         {instead}"
    )
}

/// Writes down what does not come back, in the place of what was known of that environment. The words follow with
/// [`tell`].
pub(super) fn add(status: &mut BundleStatus, lost: Vec<DeletedPredecessor>) {
    let Some(failure) = &mut status.failure else { return };
    let known = &mut failure.deleted_predecessors;
    known.retain(|one| !lost.iter().any(|new| new.environment == one.environment));
    known.extend(lost);
}

/// Says why the Bundle failed as its record tells it now. The words stay where there is no such data: the Bundle failed
/// before it set out, or an earlier program wrote down no more than words. They also stay while a step that was made anew
/// has not come to its end again.
pub(super) fn tell(status: &mut BundleStatus) {
    let Some(failure) = &status.failure else { return };
    let is_known = |name: &String| status.environments.get(name).is_some_and(has_failed);
    if !failure.environments.iter().all(is_known) {
        return;
    }
    let (reason, message) = (reason(failure, &status.environments), message(failure, &status.environments));
    if let Some(ready) = status.conditions.iter_mut().find(|condition| condition.type_ == READY) {
        ready.reason = reason.to_owned();
        ready.message = message;
    }
}
