//! What is written down is what was done, and done once.

use std::collections::BTreeSet;

use anyhow::ensure;
use kardinal_api::forge::PullRequestState;
use kardinal_api::kardinal::{PromotionState, PromotionStep};

use super::{Rest, parts};
use crate::fate::promotion;

pub(super) fn check(rest: &Rest<'_>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for promoted in rest.log.iter().filter_map(|commit| promotion(&commit.subject)) {
        ensure!(seen.insert(promoted.clone()), "{promoted:?} was committed twice: {:#?}", rest.log);
    }
    for step in &rest.steps {
        is_true(rest, step)?;
    }
    nothing_is_left_open(rest)
}

/// A step that has arrived names its own commit; one that says that nothing was to be done has made none.
fn is_true(rest: &Rest<'_>, step: &PromotionStep) -> anyhow::Result<()> {
    let (bundle, environment) = (&step.spec.bundle_ref, &step.spec.environment);
    let status = step.status.clone().unwrap_or_default();
    if status.promoted_at.is_none() {
        return Ok(());
    }
    let said = |key: &str| status.outputs.get(key).map(String::as_str);
    let own =
        rest.promotions(environment).find(|(name, _)| name == bundle).map(|(_, commit)| commit.id.as_str());
    let told = if said("changed") == Some("true") { said("commit") } else { None };
    ensure!(
        told == own,
        "`{bundle}` says that its commit in `{environment}` is {told:?}, but it is {own:?}: {status:?}"
    );
    Ok(())
}

/// A pull request is open only as long as somebody waits for it.
fn nothing_is_left_open(rest: &Rest<'_>) -> anyhow::Result<()> {
    let open = |state: Option<PullRequestState>| state.unwrap_or_default() == PullRequestState::Open;
    for request in &rest.requests {
        if !open(request.status.as_ref().and_then(|status| status.state)) {
            continue;
        }
        let head = &request.spec.head;
        let waits = rest.steps.iter().any(|step| {
            let state = step.status.as_ref().and_then(|status| status.state);
            let own = parts(head) == Some((&step.spec.bundle_ref, &step.spec.environment));
            own && state == Some(PromotionState::WaitingForMerge)
        });
        ensure!(waits, "nobody waits for the open pull request from `{head}`: {:?}", request.status);
    }
    Ok(())
}
